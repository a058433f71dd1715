// cuInit: what the driver does once in a process, and what of it holds after a fork.
#include <pthread.h>

#include "tools/simgpu/driver/code/process_plugins.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

std::atomic<bool> is_initialized{false};
std::atomic<bool> is_forked{false};

void after_fork_in_child() { is_forked = is_initialized.load(); }

CUresult initialize() {
  if (!load_configuration()) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult loaded = load_process_plugins(); loaded != CUDA_SUCCESS) return loaded;
  create_devices();
  install_fault_handlers();
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  is_initialized = true;
  return CUDA_SUCCESS;
}

}  // namespace

bool initialized() noexcept { return is_initialized.load() && !is_forked.load(); }

bool forked() noexcept { return is_forked.load(); }

SIMGPU_EXPORT CUresult cuInit(unsigned int Flags) {
  SIMGPU_ENTER_WITH(cuInit, Requires::kNothing);
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED;
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  static const CUresult result = initialize();
  return result;
}

SIMGPU_EXPORT CUresult cuDriverGetVersion(int* driverVersion) {
  SIMGPU_ENTER_WITH(cuDriverGetVersion, Requires::kNothing);
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion = CUDA_VERSION;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
