// Collectives of one rank: what it would get from all is what it has itself.
#include <cuda.h>

#include <cstddef>

#include "tools/simgpu/export.h"
#include "tools/simgpu/nccl/communicator.h"
#include "tools/simgpu/nccl/driver.h"
#include "tools/simgpu/nccl/group.h"
#include "tools/simgpu/nccl/result.h"

namespace simgpu::nccl {
namespace {

/// Source: NCCL, ncclDataType_t. 0: there is no such type.
std::size_t bytes_of(int type) {
  switch (type) {
    case 0:   // int8
    case 1:   // uint8
    case 10:  // floats of 8 bits
    case 11:
      return 1;
    case 6:  // half
    case 9:  // bfloat16
      return 2;
    case 2:  // int32
    case 3:  // uint32
    case 7:  // float
      return 4;
    case 4:  // int64
    case 5:  // uint64
    case 8:  // double
      return 8;
    default:
      return 0;
  }
}

/// Whether the arguments of a collective are such. `peer`: the root, or the other end.
bool are_right(const Communicator* communicator, std::size_t count, int type, int peer,
               const void* from, const void* to) {
  if (communicator == nullptr || bytes_of(type) == 0 || peer != 0) return false;
  return count == 0 || (from != nullptr && to != nullptr);
}

int collect(const Communicator* communicator, const void* from, void* to, std::size_t count,
            int type, int root, CUstream stream) {
  if (!are_right(communicator, count, type, root, from, to)) return kInvalidArgument;
  return copy(to, from, count * bytes_of(type), stream) ? kSuccess : kUnhandledCudaError;
}

}  // namespace

// A reduction over one rank is its own contribution, whatever the operation: sums, products,
// extremes and averages of one number are that number.
SIMGPU_EXPORT int ncclAllReduce(const void* from, void* to, std::size_t count, int type,
                                int /*operation*/, const Communicator* communicator,
                                CUstream stream) {
  return collect(communicator, from, to, count, type, 0, stream);
}
SIMGPU_EXPORT int ncclReduce(const void* from, void* to, std::size_t count, int type,
                             int /*operation*/, int root, const Communicator* communicator,
                             CUstream stream) {
  return collect(communicator, from, to, count, type, root, stream);
}
SIMGPU_EXPORT int ncclReduceScatter(const void* from, void* to, std::size_t count, int type,
                                    int /*operation*/, const Communicator* communicator,
                                    CUstream stream) {
  return collect(communicator, from, to, count, type, 0, stream);
}
SIMGPU_EXPORT int ncclAllGather(const void* from, void* to, std::size_t count, int type,
                                const Communicator* communicator, CUstream stream) {
  return collect(communicator, from, to, count, type, 0, stream);
}
SIMGPU_EXPORT int ncclAlltoAll(const void* from, void* to, std::size_t count, int type,
                               const Communicator* communicator, CUstream stream) {
  return collect(communicator, from, to, count, type, 0, stream);
}
SIMGPU_EXPORT int ncclGather(const void* from, void* to, std::size_t count, int type, int root,
                             const Communicator* communicator, CUstream stream) {
  return collect(communicator, from, to, count, type, root, stream);
}
SIMGPU_EXPORT int ncclScatter(const void* from, void* to, std::size_t count, int type, int root,
                              const Communicator* communicator, CUstream stream) {
  return collect(communicator, from, to, count, type, root, stream);
}
SIMGPU_EXPORT int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                                const Communicator* communicator, CUstream stream) {
  return collect(communicator, from, to, count, type, root, stream);
}
SIMGPU_EXPORT int ncclBcast(void* buffer, std::size_t count, int type, int root,
                            const Communicator* communicator, CUstream stream) {
  return collect(communicator, buffer, buffer, count, type, root, stream);
}

SIMGPU_EXPORT int ncclSend(const void* from, std::size_t count, int type, int peer,
                           const Communicator* communicator, CUstream stream) {
  if (!are_right(communicator, count, type, peer, from, from)) return kInvalidArgument;
  return Group::of_thread().send(from, count * bytes_of(type), stream);
}
SIMGPU_EXPORT int ncclRecv(void* to, std::size_t count, int type, int peer,
                           const Communicator* communicator, CUstream stream) {
  if (!are_right(communicator, count, type, peer, to, to)) return kInvalidArgument;
  return Group::of_thread().receive(to, count * bytes_of(type), stream);
}

}  // namespace simgpu::nccl
