// Entry checks of the driver's functions, cuInit, and what happens at fork.
#include <pthread.h>

#include <mutex>

#include "tools/simgpu/driver/code/process_plugins.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/faults/fault_injection.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

std::atomic<const EntryPoint*> newest_entry{nullptr};
std::atomic<bool> is_initialized{false};
std::atomic<bool> is_forked{false};
thread_local bool in_host_function = false;

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

EntryPoint::EntryPoint(const char* name) noexcept : name_(name) {
  load_configuration();
  has_faults_ = has_faults(name);
  const EntryPoint* head = newest_entry.load();
  do {
    next_ = head;
  } while (!newest_entry.compare_exchange_weak(head, this));
}

const EntryPoint* EntryPoint::first() noexcept { return newest_entry.load(); }

CUresult EntryPoint::enter(Requires needs) noexcept {
  const std::uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (needs == Requires::kInitialized && !initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (in_host_function && needs == Requires::kInitialized) return CUDA_ERROR_NOT_PERMITTED;
  return has_faults_ ? injected_fault(name_, call) : CUDA_SUCCESS;
}

bool initialized() noexcept { return is_initialized.load() && !is_forked.load(); }

bool forked() noexcept { return is_forked.load(); }

HostFunctionScope::HostFunctionScope() noexcept { in_host_function = true; }
HostFunctionScope::~HostFunctionScope() { in_host_function = false; }

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
