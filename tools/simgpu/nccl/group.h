// What a rank sends to itself and receives from itself within a group.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "tools/simgpu/nccl/result.h"

namespace simgpu::nccl {

/// The sends and receives of the calling thread's group: the first send is for the first receive,
/// and so on. One for each thread. Source: NCCL, point-to-point communication.
class Group {
 public:
  static Group& of_thread() noexcept;

  void begin() noexcept { ++depth_; }
  /// Ends what the last begin() began; the outermost one copies. @return kInvalidUsage if a send
  /// has no receive, or one of another size; kUnhandledCudaError.
  Result end() noexcept;
  /// Outside a group it is one of its own, which has no receive. @return as end().
  Result send(const void* from, std::size_t bytes, CUstream stream) noexcept;
  Result receive(void* to, std::size_t bytes, CUstream stream) noexcept;

 private:
  struct Part {
    void* address;
    std::size_t bytes;
    CUstream stream;
  };

  Result add(std::vector<Part>& parts, const Part& part) noexcept;
  Result copy_all() noexcept;

  int depth_ = 0;
  std::vector<Part> sends_;
  std::vector<Part> receives_;
};

}  // namespace simgpu::nccl
