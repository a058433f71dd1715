// The policies `auto` and `lru`: which piece to bring next, and which to let go for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "policy/launch_replay.h"
#include "policy/missing_bytes.h"
#include "policy/read_ahead.h"
#include "policy/stream_replays.h"
#include "policy/units.h"

namespace superpipe {

/// Decides transfers one piece at a time, whenever the link is about to run dry.
///
/// Buffers are cut into pieces, which come and go by themselves; of a buffer that fits in part, a
/// part stays. With a place in the past (StreamReplays) the next missing piece in the order of
/// expected use comes next, in the stead of the piece that is used last of all, if that is used
/// later. missing() says what has to come by when, so that the caller need not bring anything
/// sooner than that (Forestall: Kimbrel, Tomkins, Patterson, Bershad, Cao, Felten, Gibson, Karlin,
/// Li, OSDI 1996); a caller that brings it at once (Aggressive: Cao, Felten, Karlin, Li, SIGMETRICS
/// 1995) moves more. Without a place only what was allocated next is brought ahead of its first use
/// (ReadAhead), and what came goes first, so that the rest of a cycle stays (bimodal insertion:
/// Qureshi, Jaleel, Patt, Steely, Emer, ISCA 2007).
///
/// Pure: no clock, no device; the same calls give the same answers. Not thread-safe.
class AutoPolicy {
 public:
  /// Where it knows the launches to come from.
  enum class Foresight {
    kReplay,  ///< from what followed in the past: `auto`
    kNone,    ///< it knows none: `lru` brings nothing ahead, and the least recently used goes
  };
  explicit AutoPolicy(Foresight foresight = Foresight::kReplay) : foresight_(foresight) {}
  /// As kReplay, and the launches to come are known from the first on (StreamReplays::begin_with):
  /// what they name first is brought while the program loads.
  explicit AutoPolicy(const RecordedRun& recorded) : foresight_(Foresight::kReplay) {
    replay_.begin_with(recorded);
  }

  /// A buffer exists from now on; it is cut into `pieces` pieces, none of which is on the device.
  void on_allocate(BufferId id, Bytes bytes, std::uint32_t pieces);
  /// Something was written to the buffer, by the host or on the device. It is *empty* until then,
  /// or until a launch names it.
  void on_filled(BufferId id);
  /// The buffer is gone, its pieces with it. Does nothing if there is none.
  void on_free(BufferId id);
  /// A launch is announced, on `stream` (Access). `buffers`: each once. Amortised O(buffers * log
  /// buffers).
  void on_launch(KernelId kernel, std::span<const BufferId> buffers, std::uint8_t stream = 0);
  /// A piece of the buffer is on its way to the device, or on it: it need not be brought.
  void on_brought(BufferId id);
  /// A piece of the buffer has left the device, or did not get there.
  void on_left(BufferId id);

  /// The buffer of which a piece shall come next, though no launch has asked for it; nullopt if
  /// none shall. Those with content, which has to cross the link, come before the empty ones;
  /// before the first launch those that were allocated last count as filled. Amortised O(1) a
  /// launch.
  struct Target {
    BufferId id{};
    std::uint64_t next_use = 0;  ///< the number of the launch that is expected to name it
    std::uint64_t keeps_to = 0;  ///< what is used up to this launch does not go for it
    bool is_supposed = false;    ///< nothing in the past tells: it was allocated next
  };
  [[nodiscard]] std::optional<Target> next_target();
  /// The same, but of empty buffers alone: they need pages, and nothing of the link, so that
  /// nothing goes for them that would have to come back for an expected launch. Of those that
  /// next_target() has passed over. Amortised O(log buffers) a launch.
  [[nodiscard]] std::optional<Target> next_empty_target();
  /// Whether next_target() has not looked at all expected launches yet, because no call takes long.
  [[nodiscard]] bool is_looking() const { return read_ahead_.is_looking() || expects_more(); }

  /// What is missing of buffers whose next use is known, the last target included; null while it is
  /// counted anew, of which each call does a part. REQUIRES: there was a launch.
  [[nodiscard]] const MissingBytes* missing();

  /// Whether what the present launch lacks was expected to be used by it, and mostly was so for the
  /// launches before it that lacked anything.
  [[nodiscard]] bool foresaw_present() const {
    return foresaw_present_ && foreseen_ >= kLeastForeseen;
  }

  /// The number of the launch that is expected to name the buffer next; LaunchReplay::kNever: none
  /// is. O(log launches that named it).
  [[nodiscard]] std::uint64_t next_use(BufferId id) const;

  /// The buffer of which a piece shall go for one that is used at `before`: one that is used later,
  /// the last of all first, and that `may_go`. For a launch that waits, `before` is that launch.
  /// @return nullopt if there is none. O(log buffers) for each buffer that may not go.
  template <typename MayGo>
  [[nodiscard]] std::optional<BufferId> next_victim(std::uint64_t before, const MayGo& may_go);
  /// Calls `visit` with each buffer of which pieces may go for one that is used at `before`, the
  /// one that is used last of all first, until it returns false. O(log buffers) for each.
  template <typename Visit>
  void visit_victims(std::uint64_t before, const Visit& visit);

  /// Whether it foresees launches, so that replay() knows passes.
  [[nodiscard]] bool foresees() const { return foresight_ == Foresight::kReplay; }
  /// How many launches were announced so far.
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  /// The number of the present launch: how many were announced before it; 0 before the first.
  [[nodiscard]] std::uint64_t present() const { return launches_ == 0 ? 0 : launches_ - 1; }
  [[nodiscard]] const StreamReplays& replay() const { return replay_; }

 private:
  /// The last launch that is expected. Before the first launch the next one is number 0.
  [[nodiscard]] std::uint64_t last_expected() const {
    return present() + replay_.horizon() - (launches_ == 0 && replay_.horizon() > 0 ? 1 : 0);
  }

  /// Whether there are expected launches that were not looked at yet.
  [[nodiscard]] bool expects_more() const {
    return replay_.are_apart() ? replay_.streams().is_looking() : looked_to_ < last_expected();
  }

  struct Buffer {
    Bytes bytes{};
    std::uint32_t pieces = 0;
    std::uint32_t brought = 0;     ///< pieces on the device, or on their way
    std::uint64_t next_use = 0;    ///< as of `stamp`
    std::uint64_t order = 0;       ///< among buffers with no next use: the larger goes first
    std::uint64_t stamp = 0;       ///< of its latest entry in candidates_; 0: it has none
    bool was_used = false;         ///< since a piece of it came
    bool has_content = false;      ///< something may have been written to it
    std::uint64_t listed = 0;      ///< the stamp of its entry in empties_; 0: it has none
    Bytes counted{};               ///< of it in missing_
    std::uint64_t counted_at = 0;  ///< the launch for which they are counted
  };
  struct Candidate {
    std::uint64_t next_use;
    std::uint64_t order;
    std::uint64_t stamp;
    BufferId id;
    bool operator<(const Candidate& other) const {
      return next_use != other.next_use ? next_use < other.next_use : order < other.order;
    }
  };

  /// An empty buffer of which a piece is missing.
  struct Empty {
    std::uint64_t next_use;
    std::uint64_t stamp;
    BufferId id;
    bool operator>(const Empty& other) const { return next_use > other.next_use; }
  };

  /// Of launches that lack something so many have to be foreseen before one is relied upon.
  static constexpr double kLeastForeseen = 0.9;

  [[nodiscard]] std::optional<Target> next_due();
  void offer(BufferId id, std::uint64_t next_use);
  void look_again_for(BufferId id, std::uint64_t next_use);
  void note_foresight(std::span<const BufferId> buffers);
  void count_missing(BufferId id, std::uint64_t next_use);
  void count_missing_anew();
  Target target(BufferId id, std::uint64_t next_use);
  [[nodiscard]] std::optional<BufferId> missing_of_expected(std::uint64_t number);
  void list_empty(BufferId id, std::uint64_t next_use);
  [[nodiscard]] bool is_about_to_be_filled(BufferId id) const;
  [[nodiscard]] std::optional<Target> next_with_content();
  [[nodiscard]] std::optional<Target> next_with_content_of_streams();
  void refresh_in_turn();
  void drop_old_candidates();
  [[nodiscard]] bool refresh(Candidate& candidate);

  Foresight foresight_;
  StreamReplays replay_;
  ReadAhead read_ahead_;         ///< for what no launch has named yet
  std::uint64_t launches_ = 0;   ///< announced so far
  std::vector<Buffer> buffers_;  ///< by id
  std::priority_queue<Candidate> candidates_;
  /// The one that is used next is on top; some of them are out of date.
  std::priority_queue<Empty, std::vector<Empty>, std::greater<>> empties_;
  std::uint64_t stamps_ = 0;
  std::uint64_t arrivals_ = 0;
  std::size_t refreshed_ = 0;    ///< the id that was refreshed last
  std::uint64_t looked_to_ = 0;  ///< the launches up to this one have been looked at for targets
  std::uint64_t jumps_seen_ = 0;
  MissingBytes missing_;
  std::size_t counted_ = 0;  ///< so many buffers, by id, have been counted anew since the last jump
  bool foresaw_present_ = false;
  double foreseen_ = 0;  ///< the share of such launches among those that lacked anything, of late
  LaunchReplay::Expected expected_;
  std::vector<Candidate> visited_;
};

template <typename MayGo>
std::optional<BufferId> AutoPolicy::next_victim(std::uint64_t before, const MayGo& may_go) {
  std::optional<BufferId> victim;
  visit_victims(before, [&](BufferId id) {
    if (may_go(id)) victim = id;
    return !victim;
  });
  return victim;
}

template <typename Visit>
void AutoPolicy::visit_victims(std::uint64_t before, const Visit& visit) {
  visited_.clear();
  // Whatever `visit` throws: the heap has room for what it had.
  struct PutBack {
    AutoPolicy& policy;
    ~PutBack() {
      for (const Candidate& candidate : policy.visited_) policy.candidates_.push(candidate);
    }
  } const put_back{*this};
  bool goes_on = true;
  while (!candidates_.empty() && goes_on) {
    visited_.push_back(candidates_.top());
    candidates_.pop();
    Candidate& candidate = visited_.back();
    const bool is_one = refresh(candidate);
    const bool is_last = candidates_.empty() || !(candidate < candidates_.top());
    if (!is_one || !is_last) {
      if (is_one) candidates_.push(candidate);  // its next use has come nearer
      visited_.pop_back();
      continue;
    }
    goes_on = candidate.next_use > before && visit(candidate.id);
  }
}

}  // namespace superpipe
