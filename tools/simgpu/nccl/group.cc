#include "tools/simgpu/nccl/group.h"

#include <new>

#include "tools/simgpu/nccl/driver.h"

namespace simgpu::nccl {

Group& Group::of_thread() noexcept {
  thread_local Group group;
  return group;
}

Result Group::end() noexcept {
  if (depth_ == 0) return kInvalidUsage;
  if (--depth_ > 0) return kSuccess;
  const Result result = copy_all();
  sends_.clear();
  receives_.clear();
  return result;
}

Result Group::copy_all() noexcept {
  if (sends_.size() != receives_.size()) return kInvalidUsage;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (sends_[i].bytes != receives_[i].bytes) return kInvalidUsage;
    // Both were submitted to the receive's stream, as a program of one rank does.
    if (!copy(receives_[i].address, sends_[i].address, sends_[i].bytes, receives_[i].stream)) {
      return kUnhandledCudaError;
    }
  }
  return kSuccess;
}

Result Group::add(std::vector<Part>& parts, const Part& part) noexcept {
  begin();
  Result added = kSuccess;
  try {
    parts.push_back(part);
  } catch (const std::bad_alloc&) {
    added = kSystemError;
  }
  const Result ended = end();
  return added != kSuccess ? added : ended;
}

Result Group::send(const void* from, std::size_t bytes, CUstream stream) noexcept {
  return add(sends_, {const_cast<void*>(from), bytes, stream});
}

Result Group::receive(void* to, std::size_t bytes, CUstream stream) noexcept {
  return add(receives_, {to, bytes, stream});
}

}  // namespace simgpu::nccl
