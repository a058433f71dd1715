// When the link may rest, and when a launch may that waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "policy/auto_policy.h"
#include "policy/units.h"
#include "residency/streams/device_progress.h"
#include "residency/transfer/fetch_pace.h"
#include "residency/transfer/rest_trust.h"

namespace superpipe {

/// Has transfers begin no sooner than they must, where policy is asked for each of them.
///
/// What is brought takes the place of something else. The later that is chosen, the more has been
/// used by then, and the longer it is until the next use of what goes. So the link rests while all
/// that is missing comes in time all the same (decision 21), and a launch for which something is
/// missing waits on the host until the device has come near to it (decision 23). Neither rests
/// where that cannot be known: on streams that are replayed apart, and before launches have come
/// around.
///
/// Not thread-safe: under the manager's mutex. Allocates nothing.
class Pacing {
 public:
  using TimePoint = FetchPace::TimePoint;
  using Duration = FetchPace::Duration;

  /// @name What is noted
  /// @{
  /// FetchPace::note_fetch(), FetchPace::note_calls().
  void note_fetch(Duration calls, Bytes bytes) { pace_.note_fetch(calls, bytes); }
  void note_calls(Duration calls) { pace_.note_calls(calls); }
  /// DeviceProgress::note_launch(), at each launch two stores; DeviceProgress::note_submitted().
  void note_launch(std::uint64_t seq, const AutoPolicy& policy) {
    progress_.note_launch(seq, policy.launches());
  }
  void note_submitted(std::uint64_t seq, const AutoPolicy& policy) {
    progress_.note_submitted(seq, policy.launches());
  }
  /// So many launches as `policy` knows have been announced by `now`.
  void note_announced(TimePoint now, const AutoPolicy& policy) {
    pace_.note_launches(now, policy.launches(), policy.replay().horizon());
  }
  /// Uses up to number `seq` are known to have completed by `now`.
  void note_completed(TimePoint now, std::uint64_t seq, const AutoPolicy& policy) {
    pace_.note_completed(now, launches_completed(seq), policy.replay().horizon());
  }
  /// How many launches have completed if uses up to number `seq` have, as far as that is known.
  std::uint64_t launches_completed(std::uint64_t seq) { return progress_.advance(seq); }
  /// @}

  /// Until when the link may rest, if it brings `link` bytes a second, so that all that `policy`
  /// expects to be used comes in time; it has to be asked again then. nullopt: it may not.
  [[nodiscard]] std::optional<TimePoint> link_rest(AutoPolicy& policy, double link,
                                                   TimePoint now) const;

  /// What a launch waits for.
  struct Demand {
    Bytes pages;
    Bytes fetched;          ///< those of `pages` whose content crosses the link
    bool is_alone = false;  ///< no other stream than the launch's has work
  };
  /// How a launch rests.
  struct Rest {
    bool is_over = false;         ///< it does not rest, or no more
    std::uint64_t completed = 0;  ///< launches, when it began
    std::optional<TimePoint> began;
    TimePoint until;  ///< there is no need to look before

    /// Whether it rests at `now` without another look.
    [[nodiscard]] bool lasts(TimePoint now) const { return !is_over && began && now < until; }
  };
  /// Whether the launch waits without anything being chosen for what it lacks, because that comes
  /// in time for the device all the same. What is used before this launch can go when the device is
  /// done with it, and is needed later than what can go now. Where other streams have work as well,
  /// nothing says what the device does next: it may have nothing else to do than this. `policy`:
  /// null if it is not asked for transfers.
  bool launch_rests(Rest& rest, const Demand& demand, AutoPolicy* policy, double link,
                    TimePoint now);
  /// From here on the launch does not rest. Judges whether it should have.
  void end_rest(Rest& rest, TimePoint now);
  /// A launch rests until `until`.
  void let_rest(TimePoint until) { wakes_at_ = until; }
  /// Whether a launch may rest: the worker has not found its time to be over yet.
  [[nodiscard]] bool has_resting() const { return wakes_at_.has_value(); }
  /// Whether the time of the launch that rests is over. It has to be woken then, once.
  bool must_wake(TimePoint now);

 private:
  [[nodiscard]] Duration time_left(const Demand& demand, AutoPolicy* policy, double link,
                                   TimePoint now) const;

  FetchPace pace_;
  DeviceProgress progress_;
  RestTrust trust_;
  std::optional<TimePoint> wakes_at_;
};

}  // namespace superpipe
