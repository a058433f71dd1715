// How long what is missing may still stay out.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "policy/missing_bytes.h"
#include "policy/units.h"
#include "residency/transfer/launch_times.h"
#include "residency/tuning.h"

namespace superpipe {

/// Knows how long fetches take, by the link's speed and by the calls that each takes of its own
/// thread, and when launches come and when the device comes to them, by when that was in the last
/// passes. So it tells how long the link may rest without anything coming late.
///
/// Launches that wait for fetches come later than they could, so that in the next pass there seems
/// to be more time than there is; but a launch whose fetch begins too late waits less than the time
/// by which the pass was longer, so that this settles. Not thread-safe. Allocates nothing.
class FetchPace {
 public:
  using TimePoint = LaunchTimes::TimePoint;
  using Duration = LaunchTimes::Duration;

  /// A fetch of `bytes` has been enqueued by calls that took `calls`.
  void note_fetch(Duration calls, Bytes bytes) {
    const double step = fetches_++ == 0 ? 1.0 : tuning::kFetchWeight;
    bytes_ += step * (static_cast<double>(bytes.count()) - bytes_);
    calls_ += step * (seconds(calls + others_) - calls_);
    others_ = Duration{0};
  }
  /// Other calls that fetches have to wait for: an eviction's, or those that map what has arrived.
  void note_calls(Duration calls) { others_ += calls; }

  /// So many launches have been announced by `now` (LaunchTimes::note()).
  void note_launches(TimePoint now, std::uint64_t launches, std::uint64_t pass) {
    announced_.note(now, launches, pass);
  }

  /// So many launches have completed, as far as it is known by `now`.
  void note_completed(TimePoint now, std::uint64_t launches, std::uint64_t pass) {
    completed_.note(now, launches, pass);
  }

  [[nodiscard]] std::uint64_t completed() const { return completed_.launches(); }

  /// How long the link may rest, if it brings `link` bytes a second, so that all of `missing` comes
  /// in time; 0 or less: it may not. nullopt: not known yet. O(LaunchTimes::kSamples +
  /// MissingBytes::kGroups).
  [[nodiscard]] std::optional<Duration> slack(const MissingBytes& missing, double link,
                                              TimePoint now) const {
    if (fetches_ < tuning::kFetchesBeforeRests || link <= 0) return std::nullopt;
    return least(announced_, tuning::kFetchReserve, link, now, [&](const auto& visit) {
      missing.for_each_sum(
          [&](std::uint64_t launch, Bytes due) { visit(launch + 1 - missing.next_launch(), due); });
    });
  }

  /// The same for `demanded` bytes, for which launch `present` waits on the host: until the device
  /// comes to that launch, and to those that use the rest of `missing`.
  [[nodiscard]] std::optional<Duration> slack_of_demand(Bytes demanded, std::uint64_t present,
                                                        const MissingBytes& missing, double link,
                                                        TimePoint now) const {
    if (fetches_ < tuning::kFetchesBeforeRests || link <= 0) return std::nullopt;
    const auto ahead_of_device = [this](std::uint64_t launch) {
      return launch - std::min(launch, completed_.launches());
    };
    return least(completed_, tuning::kDemandReserve, link, now, [&](const auto& visit) {
      visit(ahead_of_device(present), demanded);
      missing.for_each_sum(
          [&](std::uint64_t launch, Bytes due) { visit(ahead_of_device(launch), demanded + due); });
    });
  }

 private:
  /// The least time that is left, in any of the last passes of `times`, before any of what
  /// `for_each_due` calls its argument with: in how many launches it is needed, and how many bytes
  /// have to come until then, both growing.
  template <typename ForEachDue>
  std::optional<Duration> least(const LaunchTimes& times, double reserve, double link,
                                TimePoint now, const ForEachDue& for_each_due) const {
    constexpr double kNothingIsMissing = std::numeric_limits<double>::max();
    const double rate = bytes_ / std::max(bytes_ / link, calls_);
    bool is_known = false;
    double least = kNothingIsMissing;
    times.visit_past([&](LaunchTimes::Past past) {
      is_known = true;
      for_each_due([&](std::uint64_t ahead, Bytes due) {
        const double takes =
            tuning::kFetchMargin * static_cast<double>(due.count()) / rate + reserve;
        least = std::min(least, past.seconds_to(ahead) - takes);
      });
      return least != kNothingIsMissing;
    });
    if (!is_known) return std::nullopt;
    if (least == kNothingIsMissing) return Duration::max();
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(least)) -
           (now - times.since());
  }

  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  std::uint64_t fetches_ = 0;
  double bytes_ = 0;    ///< of a fetch, on the average of the last ones
  double calls_ = 0;    ///< seconds that calls took for one, and for what it had to wait for
  Duration others_{0};  ///< of calls since the last one
  LaunchTimes announced_;
  LaunchTimes completed_;
};

}  // namespace superpipe
