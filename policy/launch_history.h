// The launches seen while the order is being learned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/layer_grouping.h"
#include "policy/units.h"

namespace superpipe {

/// A bounded record of consecutive launches. Not thread-safe.
class LaunchHistory {
 public:
  /// At most `max_launches` launches that name at most `max_buffers` buffers together.
  explicit LaunchHistory(std::size_t max_launches = 1 << 16, std::size_t max_buffers = 1 << 20)
      : max_launches_(max_launches), max_buffers_(max_buffers) {}

  /// Appends a launch. `buffers` is copied. Amortised O(buffers).
  /// @return false, with nothing recorded, if the record is full.
  [[nodiscard]] bool record(KernelId kernel, std::span<const BufferId> buffers);

  /// Launches recorded.
  [[nodiscard]] std::size_t size() const { return kernels_.size(); }

  /// Launches [begin, end), in order; valid until the next record() or clear(). O(end - begin).
  [[nodiscard]] std::vector<LaunchRecord> launches(std::size_t begin, std::size_t end) const;

  /// Forgets all and gives the memory back.
  void clear();

 private:
  std::size_t max_launches_;
  std::size_t max_buffers_;
  std::vector<KernelId> kernels_;
  std::vector<std::uint32_t> ends_;  // of each launch's buffers in buffers_
  std::vector<BufferId> buffers_;
};

}  // namespace superpipe
