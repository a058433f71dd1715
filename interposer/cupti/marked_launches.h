// Launches whose times CUPTI has still to tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "interposer/cupti/launch_mark.h"

namespace superpipe {

/// Launches by the number that CUPTI correlates a launch and its records by. Not thread-safe.
class MarkedLaunches {
 public:
  /// Launches that wait, at most: of more, the oldest are forgotten. The records of some never
  /// come.
  static constexpr std::size_t kMost = std::size_t{1} << 17;

  /// Throws std::bad_alloc, and has not added it then.
  void add(std::uint32_t correlation, const MarkedLaunch& launch) {
    order_.push_back(correlation);
    launches_.insert_or_assign(correlation, launch);
    if (order_.size() <= kMost) return;
    launches_.erase(order_.front());
    order_.pop_front();
  }

  /// The launch, which is forgotten then; nullopt: there is none that waits.
  std::optional<MarkedLaunch> take(std::uint32_t correlation) {
    const auto place = launches_.find(correlation);
    if (place == launches_.end()) return std::nullopt;
    const MarkedLaunch launch = place->second;
    launches_.erase(place);
    return launch;
  }

 private:
  std::unordered_map<std::uint32_t, MarkedLaunch> launches_;
  std::deque<std::uint32_t> order_;  ///< of those that were added; some are gone
};

}  // namespace superpipe
