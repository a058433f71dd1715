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
#include <unordered_map>
#include <vector>

#include "policy/live_pass.h"
#include "policy/pass_launches.h"
#include "policy/recorded_run.h"
#include "policy/units.h"

namespace superpipe {

/// Remembers launches in order, keeps its place at the earlier launch that is most like the present
/// one, and expects what followed there to follow here.
///
/// It needs no period and no layers: a pass is what lies between the place and the present. A
/// launch is like another if it has the same kernel, names buffers of the same sizes and the same
/// buffers; one that was freed since is the same as the one that is named in its stead today.
/// A launch that does not fit moves the place to the last launch that does, which the buffers that
/// it names find in O(1); launches that fit nowhere are passed over as long as they are few.
///
/// Layers look alike, so that the second layer of a first pass fits the first. What tells them
/// apart are the buffers that were there in the place already, the rarest of a launch above all:
/// weights do, activations that are made anew or shared by all layers do not. The place is sure as
/// long as most launches that name such a buffer agree with it; nothing is expected otherwise.
///
/// Bounded memory: at `capacity` launches, or twice as many buffers that are gone, it forgets the
/// older half. The capacity should be several passes. Pure, not thread-safe.
class LaunchReplay {
 public:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  /// Launches of a kind that is less often as expected say nothing of what they will name.
  static constexpr double kLeastLikelihood = 0.5;

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
  [[nodiscard]] bool knows(BufferId id) const {
    return index_of(id) < name_of_id_.size() && name_of_id_[index_of(id)] != kNoName;
  }
  /// The size of a buffer. REQUIRES: knows(id). O(1).
  [[nodiscard]] Bytes bytes_of(BufferId id) const {
    return Bytes{buffers_[name_of_id_[index_of(id)]].bytes};
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
  /// with accumulated gradients is one pass, and not each of the forward passes in it.
  [[nodiscard]] bool at_pass_start() const { return at_pass_start_; }
  /// What the last whole pass named of buffers that had been named before it; 0: there was none.
  [[nodiscard]] Bytes pass_bytes() const { return pass_bytes_; }
  /// How many whole passes have gone by.
  [[nodiscard]] std::size_t passes() const { return passes_; }
  /// The number of the first launch that is remembered; later ones are as well.
  [[nodiscard]] std::uint64_t first_remembered() const {
    return std::max(forgotten_, recorded_) - recorded_;
  }
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
  using Name = std::uint32_t;  ///< of a buffer in the log: unlike an id it is not used again
  static constexpr Name kNoName = ~Name{0};

  struct Launch {
    KernelId kernel;
    std::uint64_t token;  ///< hash of the kernel and the sizes of its buffers
    std::uint32_t kind;   ///< launches of one token are of one kind
    std::uint32_t first;  ///< its names in names_
    std::uint32_t count;
    int trust;
    /// The rarest of its buffers that an earlier launch named; else the first that a later one did.
    /// kNoName: none.
    Name anchor;
  };
  struct Buffer {
    BufferId id{};
    bool exists = false;
    Name successor = kNoName;    ///< what was named in its stead after it was gone
    Name predecessor = kNoName;  ///< of which it is the successor
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> uses;  ///< launches in log_ that name it, ascending
    /// Where in uses the first one behind the place was when it was sought last: mostly it is still
    /// there, or the next one.
    mutable std::size_t sought = 0;
  };
  struct Likeness {
    bool kernel = false;
    bool token = false;      ///< kernel and sizes
    std::uint32_t same = 0;  ///< buffers that are the same
    bool hoped = false;      ///< the present launch names all that the past one named
    bool all = false;        ///< token, and all buffers
    [[nodiscard]] int score(int before) const;
  };

  [[nodiscard]] std::span<const Name> names_of(const Launch& launch) const {
    return std::span(names_).subspan(launch.first, launch.count);
  }
  [[nodiscard]] bool is_sure() const { return place_ && sureness_ >= 0.5; }
  /// The number of a launch of this run. Of what was recorded it is meaningless, and wraps around.
  [[nodiscard]] std::uint64_t number_of(std::size_t launch) const {
    return forgotten_ + launch - recorded_;
  }
  [[nodiscard]] bool is_recorded(std::size_t launch) const {
    return forgotten_ + launch < recorded_;
  }
  [[nodiscard]] std::optional<std::size_t> remembered(std::uint64_t begin, std::uint64_t end) const;
  [[nodiscard]] bool is_persistent(const Buffer& buffer, std::size_t first,
                                   std::size_t launches) const;
  void append(KernelId kernel, std::span<const Name> names);
  void note_use(std::size_t launch);
  [[nodiscard]] std::optional<std::size_t> after(std::size_t launch) const;
  [[nodiscard]] std::optional<std::size_t> distance_to(std::size_t launch) const;
  void follow_recorded(bool as_expected);
  [[nodiscard]] std::uint32_t kind_of(std::uint64_t token);
  [[nodiscard]] Name today(Name name) const;
  [[nodiscard]] bool stands_for(Name one, std::size_t past, Name other) const;
  [[nodiscard]] bool is_as_expected(std::size_t expected, std::size_t present) const;
  template <typename Visit>
  void for_each_pair(std::size_t past, std::size_t present, const Visit& visit) const;
  [[nodiscard]] Likeness likeness(std::size_t past, std::size_t present) const;
  [[nodiscard]] std::optional<std::size_t> find_place(std::size_t present) const;
  [[nodiscard]] std::uint64_t context_at(std::size_t launch) const;
  [[nodiscard]] std::uint64_t anchors_at(std::size_t launch) const;
  [[nodiscard]] Name anchor_of(std::span<const Name> names) const;
  void anchor_first_use(Name name);
  [[nodiscard]] int likeness_before(std::size_t past, std::size_t present) const;
  [[nodiscard]] std::optional<bool> agrees(std::size_t past, std::size_t present) const;
  void link(std::size_t past, std::size_t present);
  void follow_passes();
  void forget_older_half();
  void forget_kinds();
  void forget_names();

  std::size_t capacity_;
  std::uint64_t forgotten_ = 0;  ///< launches that log_ no longer has
  std::vector<Launch> log_;
  std::vector<Name> names_;
  std::vector<Name> named_;       ///< by the launch under way
  std::vector<Buffer> buffers_;   ///< by name
  std::size_t most_buffers_;      ///< at which names are forgotten
  std::vector<Name> name_of_id_;  ///< by id; kNoName: no such buffer
  std::uint64_t recorded_ = 0;    ///< launches before those of this run, the first of which is none
  std::uint64_t recorded_pass_ = 0;      ///< where the pass among them begins
  std::optional<std::size_t> own_pass_;  ///< the launch of this run that is the first of that pass
  /// Names of recorded buffers that were not allocated yet, by size, the first at the back.
  std::unordered_map<std::uint64_t, std::vector<Name>> awaited_;
  PlanFollowing following_;
  std::unordered_map<std::uint64_t, std::uint32_t> contexts_;  ///< last launch, by two tokens
  std::unordered_map<std::uint64_t, std::uint32_t> anchors_;   ///< last launch, by two anchors
  std::unordered_map<std::uint64_t, std::uint32_t> kinds_;     ///< by token
  std::vector<double> likelihoods_;                            ///< by kind
  std::size_t unlikely_kinds_ = 0;  ///< below kLeastLikelihood: mostly none, and none is looked up
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
  Bytes pass_bytes_;     ///< of the last whole pass
  Bytes bytes_of_pass_;  ///< of the one under way
  std::size_t passes_ = 0;
};

}  // namespace superpipe
