#include "tools/simgpu/driver/entry/call_costs.h"

#include <array>

namespace simgpu {
namespace {

struct Row {
  const char* function;
  double microseconds;
  CallLock lock;
  bool synchronises = false;
};

// The first four were measured on an A100 with pages of 2 MiB (PyTorch's and others' reports). The
// others are orders of magnitude, until `superpipe doctor` has asked a device. What synchronises is
// what the programming guide lists under "implicit synchronization", and the loading of code, which
// may (under "lazy loading").
constexpr std::array kRows{
    Row{"cuMemCreate", 193, CallLock::kProcess},
    Row{"cuMemMap", 1.5, CallLock::kProcess},
    Row{"cuMemSetAccess", 36, CallLock::kProcess},
    Row{"cuMemUnmap", 26, CallLock::kProcess},
    Row{"cuMemRelease", 20, CallLock::kProcess},
    Row{"cuMemAddressReserve", 3, CallLock::kProcess},
    Row{"cuMemAddressFree", 3, CallLock::kProcess},
    Row{"cuMemAlloc", 50, CallLock::kProcess, true},
    Row{"cuMemAllocPitch", 50, CallLock::kProcess, true},
    Row{"cuMemFree", 50, CallLock::kProcessAtFirst},
    Row{"cuMemHostAlloc", 10, CallLock::kProcess, true},
    Row{"cuMemAllocHost", 10, CallLock::kProcess, true},
    Row{"cuMemHostRegister", 10, CallLock::kProcess, true},
    Row{"cuMemHostUnregister", 10, CallLock::kProcessAtFirst},
    Row{"cuMemFreeHost", 10, CallLock::kProcessAtFirst},
    Row{"cuModuleLoad", 300, CallLock::kProcess, true},
    Row{"cuModuleLoadData", 300, CallLock::kProcess, true},
    Row{"cuModuleLoadDataEx", 300, CallLock::kProcess, true},
    Row{"cuModuleLoadFatBinary", 300, CallLock::kProcess, true},
    Row{"cuModuleUnload", 50, CallLock::kProcessAtFirst},
    Row{"cuLibraryLoadData", 300, CallLock::kProcess},
    Row{"cuLibraryLoadFromFile", 300, CallLock::kProcess},
    Row{"cuLibraryUnload", 50, CallLock::kProcessAtFirst},
    Row{"cuLaunchKernel", 2.5, CallLock::kContextAtFirst},
    Row{"cuLaunchKernelEx", 2.5, CallLock::kContextAtFirst},
    Row{"cuLaunchCooperativeKernel", 2.5, CallLock::kContextAtFirst},
    Row{"cuMemcpyAsync", 2, CallLock::kContextAtFirst},
    Row{"cuMemcpyHtoDAsync", 2, CallLock::kContextAtFirst},
    Row{"cuMemcpyDtoHAsync", 2, CallLock::kContextAtFirst},
    Row{"cuMemcpyDtoDAsync", 2, CallLock::kContextAtFirst},
    Row{"cuMemcpy", 4, CallLock::kContextAtFirst},
    Row{"cuMemcpyHtoD", 4, CallLock::kContextAtFirst},
    Row{"cuMemcpyDtoH", 4, CallLock::kContextAtFirst},
    Row{"cuMemcpyDtoD", 4, CallLock::kContextAtFirst},
    Row{"cuMemsetD8", 2, CallLock::kContextAtFirst},
    Row{"cuMemsetD16", 2, CallLock::kContextAtFirst},
    Row{"cuMemsetD32", 2, CallLock::kContextAtFirst},
    Row{"cuMemsetD8Async", 2, CallLock::kContextAtFirst},
    Row{"cuMemsetD16Async", 2, CallLock::kContextAtFirst},
    Row{"cuMemsetD32Async", 2, CallLock::kContextAtFirst},
    Row{"cuMemAllocAsync", 1.5, CallLock::kContextAtFirst},
    Row{"cuMemAllocFromPoolAsync", 1.5, CallLock::kContextAtFirst},
    Row{"cuMemFreeAsync", 1, CallLock::kContextAtFirst},
    Row{"cuEventRecord", 1, CallLock::kContextAtFirst},
    Row{"cuEventRecordWithFlags", 1, CallLock::kContextAtFirst},
    Row{"cuEventQuery", 0.6, CallLock::kContextAtFirst},
    Row{"cuStreamQuery", 0.6, CallLock::kContextAtFirst},
    Row{"cuStreamWaitEvent", 0.6, CallLock::kContextAtFirst},
    Row{"cuCtxPushCurrent", 0.1, CallLock::kNone},
    Row{"cuCtxPopCurrent", 0.1, CallLock::kNone},
    Row{"cuCtxSetCurrent", 0.1, CallLock::kNone},
};
// Measured on an H200: 0.3 to 0.5 ms in all.
constexpr double kBusyUnmapMicroseconds = 374;  // besides cuMemUnmap's own
constexpr double kLoadingMicroseconds = 50;     // of one kernel, at its first launch

}  // namespace

void CallCosts::set_all(double factor, double pin_gbps) {
  for (const Row& row : kRows) {
    CallCost& cost = costs_[row.function];
    cost.nanoseconds = row.microseconds * 1e3 * factor;
    cost.lock = row.lock;
  }
  pin_ns_per_byte_ = 1 / pin_gbps;
  busy_unmap_ns_ = kBusyUnmapMicroseconds * 1e3 * factor;
  loading_ns_ = kLoadingMicroseconds * 1e3 * factor;
}

void CallCosts::set(std::string_view function, double nanoseconds) {
  for (const Row& row : kRows) {
    if (function != row.function) continue;
    CallCost& cost = costs_[row.function];
    cost.nanoseconds = nanoseconds;
    cost.lock = row.lock;
  }
}

void CallCosts::set_implicit_sync() {
  for (const Row& row : kRows) {
    if (row.synchronises) costs_[row.function].synchronises = true;
  }
}

const CallCost* CallCosts::find(std::string_view function) const {
  const auto found = costs_.find(function);
  return found == costs_.end() ? nullptr : &found->second;
}

}  // namespace simgpu
