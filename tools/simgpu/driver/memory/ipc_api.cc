// The driver functions that share memory between processes, as far as one process sees them.
#include <unistd.h>

#include <cstring>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {
namespace {

/// What a handle says. No process of simgpu can open it: each has memory of its own.
struct SharedAllocation {
  std::uint64_t process;
  std::uint64_t base;
  std::uint64_t size;
};
static_assert(sizeof(SharedAllocation) <= sizeof(CUipcMemHandle));

}  // namespace

SIMGPU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  SIMGPU_ENTER(cuIpcGetMemHandle);
  SIMGPU_CONTEXT(context);
  const auto allocation = AddressSpace::instance().allocations().find(dptr);
  // Not what is mapped, nor what pools made.
  if (pHandle == nullptr || !allocation || allocation->source != AllocationSource::kMemAlloc) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const SharedAllocation shared{static_cast<std::uint64_t>(getpid()), allocation->base,
                                allocation->size};
  *pHandle = {};
  std::memcpy(pHandle, &shared, sizeof shared);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
