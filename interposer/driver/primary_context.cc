#include "interposer/driver/primary_context.h"

#include "interposer/driver/table.h"

namespace superpipe {

CUcontext active_primary_context(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 0;
  if (driver().cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) {
    return nullptr;
  }
  // Only a retain tells the handle. It creates no context here, because the primary one is active.
  CUcontext primary = nullptr;
  if (driver().cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) return nullptr;
  driver().cuDevicePrimaryCtxRelease_v2(device);
  return primary;
}

}  // namespace superpipe
