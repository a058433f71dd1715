// Where in the learned order a program stands, and what it uses besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/buffer_history.h"
#include "policy/eviction.h"
#include "policy/launch_history.h"
#include "policy/layer_grouping.h"
#include "policy/order_follower.h"
#include "policy/pass_order.h"
#include "policy/units.h"

namespace superpipe {

/// Follows a program through the visits of a learned pass (docs/policy.md, "Following"), and keeps
/// the layers up to date: buffers leave them when they are freed, and join them when they outlive a
/// pass. Counts what is in use outside of all layers. Not thread-safe.
class OrderTracker {
 public:
  /// A buffer exists from now on; it belongs to no layer.
  void on_allocate(BufferId id);
  /// A buffer of `footprint` bytes is gone. O(its layer + extras of all visits) if it is in a
  /// layer.
  void on_free(BufferId id, Bytes footprint);

  /// Follows `order` from now on; the present launch is of its first visit. Its first launch was
  /// number `first_launch`. O(ids).
  void start(PassOrder order, std::uint64_t first_launch, const BufferHistory& history);
  /// Follows the launches since the learned pass ended. The first of them opens a pass, in the
  /// first visit of which start() has put the program, the last is the present one. They are not
  /// counted as passes.
  void catch_up(const LaunchHistory& since, const BufferHistory& history);
  /// Gives the order up; passes and mispredictions stay counted. O(ids).
  void stop();
  /// Whether there is an order to follow.
  [[nodiscard]] bool is_following() const { return follower_.layer() != kNoLayer; }

  /// What a launch means for the order.
  struct Step {
    bool left_visit = false;      ///< the launch is not of the visit of the one before
    bool changed_layers = false;  ///< buffers have left or joined layers: sizes were added up anew
    bool began_visit = false;     ///< the launch is the first one of its visit
    bool jumped = false;          ///< visits were passed over; what was expected before is not true
    bool is_lost = false;         ///< too many launches were not where the order has them
    bool has_strangers = false;   ///< it names buffers that take_in() has to deal with
  };
  /// A launch; `history` has it already. `may_join`: as take_in(). REQUIRES: is_following().
  /// Amortised O(buffers of the launch); O(visits) where the order does not have it.
  [[nodiscard]] Step on_launch(KernelId kernel, std::span<const BufferId> buffers, bool may_join,
                               const BufferHistory& history);
  /// Counts buffers of the launch that are in no layer. If `may_join`, those that outlived a pass
  /// join the layer of the launch's other buffers, or are shared. O(buffers of the launch).
  /// @return false if the order is not the program's any more.
  [[nodiscard]] bool take_in(std::span<const BufferId> buffers, bool may_join,
                             const BufferHistory& history);

  /// The layer of a buffer; kNoLayer if it is in none. O(1).
  [[nodiscard]] std::uint32_t layer_of(BufferId id) const {
    const std::uint32_t home =
        index_of(id) < buffers_.size() ? buffers_[index_of(id)].home : kUnscheduled;
    return home < kFirstSpecialHome ? home : kNoLayer;
  }
  /// The present visit, counted over the endless sequence since start(). O(1).
  [[nodiscard]] std::uint64_t visit() const { return follower_.visit(); }
  [[nodiscard]] const PassOrder& order() const { return order_; }

  /// Whether the last launch opened a pass. O(1).
  [[nodiscard]] bool at_pass_start() const { return at_pass_start_; }
  /// The number of the launch that opened the last whole pass. O(1).
  [[nodiscard]] std::uint64_t last_pass_began() const { return last_pass_began_; }
  /// Whole passes since an order is followed, and launches that were not where it put them. O(1).
  [[nodiscard]] std::size_t passes() const { return passes_; }
  [[nodiscard]] std::size_t mispredictions() const { return mispredictions_; }

  /// The sizes of layers, as of the last visit or start(): what a program frees as it ends does not
  /// change what was learned of it.
  struct Sizes {
    std::vector<Bytes> layers;  ///< footprint by layer
    Bytes all_layers;
    Bytes largest_layer;
    Bytes shared;
  };
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  /// The most that was in use at once in no layer, and not shared, since start(). O(1).
  [[nodiscard]] Bytes transient_peak() const { return transient_peak_; }

  /// What plan_eviction() needs of `candidates`, with next uses as far as they can be told: shared
  /// buffers are always in use, layers are as many visits ahead as they are, others are used as
  /// long as the pass lasts. All next uses are equal where nothing can be told. O(candidates +
  /// visits).
  [[nodiscard]] std::vector<ResidentBuffer> weigh(std::span<const BufferId> candidates,
                                                  const BufferHistory& history) const;

 private:
  // The homes of a buffer that is in no layer; smaller numbers are layers.
  static constexpr std::uint32_t kFirstSpecialHome = 0xFFFFFFF0U;
  static constexpr std::uint32_t kShared = 0xFFFFFFF0U;       // belongs to no layer, and stays
  static constexpr std::uint32_t kUnscheduled = 0xFFFFFFF1U;  // transient, or not understood

  struct Tracked {
    std::uint32_t home = kUnscheduled;
    bool counted = false;  // in the bytes of transients in use
  };

  [[nodiscard]] std::uint32_t home_of(std::span<const BufferId> buffers,
                                      const BufferHistory& history);
  [[nodiscard]] bool opens_pass(KernelId kernel, std::span<const BufferId> buffers) const;
  void leave_visit(std::uint32_t home, const BufferHistory& history, Step& step);
  void advance(std::uint64_t visits, std::uint64_t launch);
  void add_up(const BufferHistory& history);
  void count(BufferId id, Bytes footprint);
  void join(BufferId id, std::uint32_t home, Bytes footprint);

  std::vector<Tracked> buffers_;  // by id
  PassOrder order_;
  OrderFollower follower_;
  LayerShares shares_;          // used by home_of() alone: kept to save an allocation each launch
  std::vector<bool> is_empty_;  // by layer, as of sizes_
  Sizes sizes_;
  bool changed_ = false;  // buffers have left or joined layers since add_up()
  Bytes transients_;
  Bytes transient_peak_;
  std::uint64_t pass_began_ = 0;       // launch
  std::uint64_t last_pass_began_ = 0;  // launch
  int doubt_ = 0;
  bool at_pass_start_ = false;
  std::size_t passes_ = 0;
  std::size_t mispredictions_ = 0;
};

// Here, because it runs at each launch, and mostly ends before the last line.
inline OrderTracker::Step OrderTracker::on_launch(KernelId kernel,
                                                  std::span<const BufferId> buffers, bool may_join,
                                                  const BufferHistory& history) {
  at_pass_start_ = false;
  std::uint32_t home = kNoLayer;
  bool is_mixed = false;
  bool has_strangers = false;
  const std::span<const Tracked> all(buffers_);
  for (const BufferId id : buffers) {
    if (index_of(id) >= all.size()) continue;
    const Tracked buffer = all[index_of(id)];
    if (buffer.home < kFirstSpecialHome) {
      is_mixed |= home != buffer.home && home != kNoLayer;
      home = buffer.home;
    } else if (buffer.home == kUnscheduled) {
      has_strangers |= !buffer.counted ||
                       (may_join && history.by_id()[index_of(id)].allocated_at < last_pass_began_);
    }
  }
  Step step;
  step.has_strangers = has_strangers;
  if (is_mixed) home = home_of(buffers, history);
  if (home == kNoLayer) return step;
  if (home == follower_.layer() && !(follower_.may_end_pass() && opens_pass(kernel, buffers))) {
    return step;
  }
  leave_visit(home, history, step);
  return step;
}

}  // namespace superpipe
