// Watches launches until they repeat, and says which of them are one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/access_order.h"
#include "policy/launch_history.h"
#include "policy/units.h"

namespace superpipe {

/// Finds the pass in a stream of launches.
///
/// Two sequences are watched. One has the launches that name buffers which the program filled from
/// the host, as (kernel, those buffers): weights keep their ids from pass to pass, activations need
/// not. The other has all launches with all buffers, and needs a four times longer recurrence: it
/// finds passes whose weights were made on the device. Not thread-safe.
class OrderLearner {
 public:
  /// At most `max_launches` launches are remembered: a pass needs to be shorter. Then it starts
  /// anew, so that memory stays bounded.
  explicit OrderLearner(std::size_t max_launches = 1 << 16);

  /// Launches [begin, end) of history() are one pass; what came since repeats its beginning.
  struct Pass {
    std::size_t begin;
    std::size_t end;
  };

  /// A launch happened. `written`: of `buffers`, those that the host has written. Amortised
  /// O(buffers).
  /// @return a pass when one is found.
  [[nodiscard]] std::optional<Pass> observe(KernelId kernel, std::span<const BufferId> buffers,
                                            std::span<const BufferId> written);

  /// The launches seen since the last reset, the latest included.
  [[nodiscard]] const LaunchHistory& history() const { return history_; }

  /// The pass found was of no use: look again only after `launches` more.
  void postpone(std::size_t launches) { resume_at_ = history_.size() + launches; }

  /// Forgets the launches and gives the memory back.
  void reset();

  /// reset(), and asks for longer recurrences: the order found before did not last.
  void reset_after_failure();

 private:
  struct Watch {
    explicit Watch(std::size_t capacity) : detector(capacity) {}

    PeriodDetector detector;
    std::vector<std::uint32_t> launch_of;  // by token
  };

  std::optional<Pass> watch(Watch& watch, KernelId kernel, std::span<const BufferId> buffers);

  LaunchHistory history_;
  Watch weights_;
  Watch everything_;
  std::size_t resume_at_ = 0;
};

}  // namespace superpipe
