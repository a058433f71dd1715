// simgpu's libnccl.so.2: communicators, which have one rank each.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

#include "tools/simgpu/export.h"
#include "tools/simgpu/nccl/communicator.h"
#include "tools/simgpu/nccl/driver.h"
#include "tools/simgpu/nccl/group.h"
#include "tools/simgpu/nccl/result.h"

namespace simgpu::nccl {
namespace {

/// The version that the library passes for: 10000 * major + 100 * minor + patch.
constexpr int kVersion = 22809;

/// Source: NCCL, ncclUniqueId.
struct UniqueId {
  std::array<char, 128> bytes;
};

int make(Communicator** communicator, int ranks, int rank) {
  if (communicator == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return kInvalidArgument;
  if (ranks > 1) {
    std::fprintf(stderr,
                 "simgpu: its NCCL has one process, and %d were asked for; use gloo for several\n",
                 ranks);
    return kInvalidUsage;
  }
  const int device = current_device();
  if (device < 0) return kUnhandledCudaError;
  *communicator = new (std::nothrow) Communicator{device};
  return *communicator == nullptr ? kSystemError : kSuccess;
}

int destroy(Communicator* communicator) {
  delete communicator;  // null is allowed
  return kSuccess;
}

int tell(const Communicator* communicator, int value, int* target) {
  if (communicator == nullptr || target == nullptr) return kInvalidArgument;
  *target = value;
  return kSuccess;
}

}  // namespace

SIMGPU_EXPORT int ncclGetVersion(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = kVersion;
  return kSuccess;
}
/// All processes are told the same: none finds another by it.
SIMGPU_EXPORT int ncclGetUniqueId(UniqueId* id) {
  if (id == nullptr) return kInvalidArgument;
  *id = {};
  return kSuccess;
}
SIMGPU_EXPORT const char* ncclGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "no error";
    case kUnhandledCudaError:
      return "unhandled cuda error";
    case kSystemError:
      return "unhandled system error";
    case kInvalidArgument:
      return "invalid argument";
    case kInvalidUsage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}
/// Nothing more is known of an error than its code.
SIMGPU_EXPORT const char* ncclGetLastError(const Communicator* /*communicator*/) { return ""; }

SIMGPU_EXPORT int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId /*id*/,
                                   int rank) {
  return make(communicator, ranks, rank);
}
SIMGPU_EXPORT int ncclCommInitRankConfig(Communicator** communicator, int ranks, UniqueId /*id*/,
                                         int rank, const void* /*config*/) {
  return make(communicator, ranks, rank);
}
SIMGPU_EXPORT int ncclCommInitRankScalable(Communicator** communicator, int ranks, int rank,
                                           int /*id_count*/, const UniqueId* /*ids*/,
                                           const void* /*config*/) {
  return make(communicator, ranks, rank);
}
SIMGPU_EXPORT int ncclCommInitAll(Communicator** communicators, int devices,
                                  const int* /*device_list*/) {
  return make(communicators, devices, 0);
}
/// A rank that takes no part in the new one has color -1, and gets null.
SIMGPU_EXPORT int ncclCommSplit(const Communicator* communicator, int color, int /*key*/,
                                Communicator** part, const void* /*config*/) {
  if (communicator == nullptr || part == nullptr) return kInvalidArgument;
  *part = nullptr;
  return color < 0 ? static_cast<int>(kSuccess) : make(part, 1, 0);
}
SIMGPU_EXPORT int ncclCommFinalize(Communicator* communicator) {
  return communicator == nullptr ? kInvalidArgument : kSuccess;
}
SIMGPU_EXPORT int ncclCommDestroy(Communicator* communicator) { return destroy(communicator); }
SIMGPU_EXPORT int ncclCommAbort(Communicator* communicator) { return destroy(communicator); }

SIMGPU_EXPORT int ncclCommGetAsyncError(const Communicator* communicator, int* result) {
  return tell(communicator, kSuccess, result);
}
SIMGPU_EXPORT int ncclCommCount(const Communicator* communicator, int* count) {
  return tell(communicator, 1, count);
}
SIMGPU_EXPORT int ncclCommUserRank(const Communicator* communicator, int* rank) {
  return tell(communicator, 0, rank);
}
SIMGPU_EXPORT int ncclCommCuDevice(const Communicator* communicator, int* device) {
  return communicator == nullptr ? static_cast<int>(kInvalidArgument)
                                 : tell(communicator, communicator->device, device);
}

/// Registered memory is used as other memory is.
SIMGPU_EXPORT int ncclCommRegister(const Communicator* communicator, void* buffer,
                                   std::size_t /*size*/, void** handle) {
  if (communicator == nullptr || handle == nullptr) return kInvalidArgument;
  *handle = buffer;
  return kSuccess;
}
SIMGPU_EXPORT int ncclCommDeregister(const Communicator* communicator, void* /*handle*/) {
  return communicator == nullptr ? kInvalidArgument : kSuccess;
}

SIMGPU_EXPORT int ncclGroupStart() {
  Group::of_thread().begin();
  return kSuccess;
}
SIMGPU_EXPORT int ncclGroupEnd() { return Group::of_thread().end(); }

}  // namespace simgpu::nccl
