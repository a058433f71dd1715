#include "policy/launch_history.h"

namespace superpipe {

bool LaunchHistory::record(KernelId kernel, std::span<const BufferId> buffers) {
  if (kernels_.size() == max_launches_) return false;
  if (buffers.size() > max_buffers_ - buffers_.size()) return false;
  kernels_.push_back(kernel);
  buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
  ends_.push_back(static_cast<std::uint32_t>(buffers_.size()));
  return true;
}

std::vector<LaunchRecord> LaunchHistory::launches(std::size_t begin, std::size_t end) const {
  std::vector<LaunchRecord> records;
  records.reserve(end - begin);
  for (std::size_t at = begin; at < end; ++at) {
    const std::size_t first = at == 0 ? 0 : ends_[at - 1];
    records.push_back({kernels_[at], std::span(buffers_).subspan(first, ends_[at] - first)});
  }
  return records;
}

void LaunchHistory::clear() {
  kernels_ = {};
  ends_ = {};
  buffers_ = {};
}

}  // namespace superpipe
