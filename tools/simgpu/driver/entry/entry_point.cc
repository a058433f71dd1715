// Entry checks of the driver's functions.
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/faults/fault_injection.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

std::atomic<const EntryPoint*> newest_entry{nullptr};
thread_local bool in_host_function = false;

}  // namespace

EntryPoint::EntryPoint(const char* name) noexcept : name_(name) {
  load_configuration();
  has_faults_ = has_faults(name);
  cost_ = configuration().calls.find(name);
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

HostFunctionScope::HostFunctionScope() noexcept { in_host_function = true; }
HostFunctionScope::~HostFunctionScope() { in_host_function = false; }

}  // namespace simgpu
