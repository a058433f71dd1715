// What comes next, by replaying what came: where in the past the present is, and when each buffer
// is used again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/launch_log.h"
#include "policy/live_pass.h"
#include "policy/pass_launches.h"
#include "policy/recorded_run.h"
#include "policy/units.h"

namespace superpipe {

/// Remembers launches in order, keeps its place at the earlier launch that is most like the present
/// one, and expects what followed there to follow here.
///
/// It needs no period and no layers: a pass is what lies between the place and the present. Which
/// launches are alike says LaunchLog. A launch that does not fit moves the place to the last launch
/// that does, which the buffers that it names find in O(1); launches that fit nowhere are passed
/// over as long as they are few.
///
/// Layers look alike, so that the second layer of a first pass fits the first. The place is sure as
/// long as most launches that name a buffer which was there in the place already agree with it;
/// nothing is expected otherwise.
///
/// Bounded memory: at `capacity` launches, or twice as many buffers that are gone, it forgets the
/// older half. The capacity should be several passes. Pure, not thread-safe.
class LaunchReplay {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Launches of a kind that is less often as expected say nothing of what they will name.
  static constexpr double kLeastLikelihood = LaunchLog::kLeastLikelihood;

  /// Launches for which the place has to have stayed before one that fits counts as foreseen.
  static constexpr std::uint64_t kForesight = 4;

  explicit LaunchReplay(std::size_t capacity = std::size_t{1} << 19);

  /// Expects the launches of `recorded` from the first one on. Buffers that are allocated are taken
  /// for recorded ones of their size, in the order of their allocation. At the end of the recorded
  /// pass it goes on with what this run did in that pass. Once the place is lost, or is somewhere
  /// else, the recorded run is left: it is a past like any other from then on, with other buffers.
  /// REQUIRES: nothing was allocated or announced; fewer than half of `capacity` launches.
  void begin_with(const RecordedRun& recorded);
  /// O(1).
  [[nodiscard]] const PlanFollowing& following() const { return following_; }

  /// A buffer exists from now on. Its id may be one of an earlier buffer that is gone.
  void on_allocate(BufferId id, Bytes bytes);
  /// The buffer is gone. Does nothing if there is none.
  void on_free(BufferId id);
  /// Whether it was told of the buffer, which exists. O(1).
  [[nodiscard]] bool knows(BufferId id) const { return log_.knows(id); }
  /// The size of a buffer. REQUIRES: knows(id). O(1).
  [[nodiscard]] Bytes bytes_of(BufferId id) const {
    return Bytes{log_.buffer(log_.name_of(id)).bytes};
  }

  /// A launch is announced. `buffers`: each once, in the order of its arguments; all allocated.
  /// Amortised O(buffers).
  void on_launch(KernelId kernel, std::span<const BufferId> buffers);

  /// The number of the present launch: how many were announced before it. REQUIRES: there is one.
  [[nodiscard]] std::uint64_t present() const { return number_of(log_.size() - 1); }

  /// The number of the launch after the present one that is expected to name the buffer first;
  /// kNever if none is, or if the place is not sure. Launches of a kind that mostly names other
  /// buffers than expected do not count: data decide whether they name this one. O(log launches
  /// that named it).
  [[nodiscard]] std::uint64_t next_use(BufferId id) const;

  /// How many launches after the present one are expected: as many as lie between the place and the
  /// present. 0 while the place is not sure.
  [[nodiscard]] std::size_t horizon() const;

  /// A launch that is expected.
  struct Expected {
    std::vector<BufferId> buffers;  ///< those of the launch that exist today, each once
    /// From -3 to 3: one more for each time that the launch in this place named what was expected
    /// of it, one less for each time that it did not. 0 if it was never expected.
    int trust = 0;
    /// The share of recent launches of its kernel with buffers of its sizes that were as expected,
    /// in [0, 1]: an exponential mean over 16. Data decide which expert is used, but not which
    /// norm.
    double likelihood = 1.0;
  };
  /// The launch `ahead` launches after the present one. REQUIRES: 1 <= ahead <= horizon().
  /// `expected` is overwritten, so that its memory serves again. O(buffers).
  void expect(std::size_t ahead, Expected& expected) const;

  /// Whether the present launch opens a pass: the place has followed for some launches, and has
  /// come round to the launch that opened the pass before, or there was none. So a step of training
  /// with accumulated gradients is one pass, and not each of the forward passes in it. It is known
  /// at least kForesight launches after the program has begun to repeat itself: aligned().
  [[nodiscard]] bool at_pass_start() const { return at_pass_start_; }
  /// What the last whole pass named of buffers that had been named before it; 0: there was none.
  [[nodiscard]] Bytes pass_bytes() const { return pass_bytes_; }
  /// How many whole passes have gone by.
  [[nodiscard]] std::size_t passes() const { return passes_; }
  /// The number of the first launch that is remembered; later ones are as well.
  [[nodiscard]] std::uint64_t first_remembered() const {
    return std::max(log_.forgotten(), recorded_) - recorded_;
  }
  /// Launches [begin, end) by their numbers.
  struct Launches {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// A pass from where the program itself begins one: layers of a first pass look like passes, but
  /// the first launch of the second pass looks like none of them, and moves the place back to the
  /// first launch of all. `pass` is moved back by less than its length, to a launch that repeats
  /// that one; it stays as it is where none is known, and where a recorded run was expected.
  /// O(log passes).
  [[nodiscard]] Launches aligned(Launches pass) const;
  /// How many launches the place has gone on without being moved: a pass of no more is a whole one.
  [[nodiscard]] std::uint64_t followed() const { return since_moved_; }

  /// Launches [begin, end) by their numbers, as a pass. Persistent are the buffers that were named
  /// before it, and for as many launches as it has at least. Throws std::bad_alloc.
  /// O(accesses + buffers). @return null if launches of it, or of as many before it, are forgotten,
  /// or were not announced.
  [[nodiscard]] std::shared_ptr<const PassLaunches> pass(std::uint64_t begin,
                                                         std::uint64_t end) const;

  /// Launches [begin, end) by their numbers, with those of their buffers that are persistent, as
  /// pass() says, and live. Throws std::bad_alloc. O(accesses), and so bounded by LivePass's
  /// limits. @return nullopt where pass() returns null, or if the pass exceeds a limit.
  [[nodiscard]] std::optional<LivePass> live_pass(std::uint64_t begin, std::uint64_t end) const;

  /// How often the place was moved, lost or found: what was expected before does not hold any more.
  [[nodiscard]] std::uint64_t jumps() const { return jumps_; }

  /// Whether the present launch was expected in time: from a place that was sure, and that was not
  /// moved just before.
  [[nodiscard]] bool foresaw_present() const { return foresaw_present_; }

  /// The share of recent launches that were as expected, in [0, 1]: an exponential mean over 16.
  [[nodiscard]] double confidence() const { return confidence_; }

 private:
  using Name = LaunchLog::Name;

  [[nodiscard]] bool is_sure() const { return place_ && sureness_ >= 0.5; }
  /// The number of a launch of this run. Of what was recorded it is meaningless, and wraps around.
  [[nodiscard]] std::uint64_t number_of(std::size_t launch) const {
    return log_.forgotten() + launch - recorded_;
  }
  [[nodiscard]] bool is_recorded(std::size_t launch) const {
    return log_.forgotten() + launch < recorded_;
  }
  [[nodiscard]] std::optional<std::size_t> remembered(std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] std::optional<std::size_t> after(std::size_t launch) const;
  [[nodiscard]] std::optional<std::size_t> distance_to(std::size_t launch) const;
  [[nodiscard]] std::optional<std::size_t> find_place() const;
  void follow_recorded(bool as_expected);
  void follow_repetitions();
  void follow_passes();
  void add_bytes_of_pass();
  void forget_older_half();

  LaunchLog log_;
  std::vector<Name> named_;     ///< by the launch under way
  std::uint64_t recorded_ = 0;  ///< launches before those of this run, the first of which is none
  std::uint64_t recorded_pass_ = 0;      ///< where the pass among them begins
  std::optional<std::size_t> own_pass_;  ///< the launch of this run that is the first of that pass
  PlanFollowing following_;
  std::optional<std::size_t> place_;  ///< in log_
  double sureness_ = 0.0;             ///< of place_: the share of launches that agree with it
  std::uint64_t jumps_ = 0;
  std::uint64_t since_moved_ = 0;  ///< launches since the place was last moved, lost or found
  std::optional<std::size_t> abandoned_;  ///< where it would be if it had not been, for a while
  int passed_over_ = 0;                   ///< launches in a row that fit nowhere
  double confidence_ = 0.0;
  bool foresaw_present_ = false;
  std::optional<std::uint64_t> pass_began_;  ///< the number of the launch that opened this pass
  bool at_pass_start_ = false;
  std::vector<std::uint64_t> repetitions_;  ///< the launches with which the program repeats itself
  Bytes pass_bytes_;                        ///< of the last whole pass
  Bytes bytes_of_pass_;                     ///< of the one under way
  std::size_t passes_ = 0;
};

}  // namespace superpipe
