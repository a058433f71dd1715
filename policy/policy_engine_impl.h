// The inside of PolicyEngine: for policy_engine.cc and policy_engine_learning.cc alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/budget.h"
#include "policy/launch_history.h"
#include "policy/layer_grouping.h"
#include "policy/order_follower.h"
#include "policy/order_learner.h"
#include "policy/pass_order.h"
#include "policy/policy_engine.h"
#include "policy/schedule.h"
#include "policy/window_choice.h"

namespace superpipe {

/// What PolicyEngine's functions, which have the same names here, do. Not thread-safe.
class PolicyEngine::Impl {
 public:
  explicit Impl(const PolicyConfig& config) : config_(config) {}

  // As PolicyEngine documents them.
  void on_allocate(BufferId id, Bytes footprint);
  void on_host_write(BufferId id);
  void on_free(BufferId id);
  void on_passthrough_bytes(Bytes bytes) { passthrough_ = bytes; }
  void set_budget(Bytes budget) {
    config_.budget = budget;
    config_.budget_is_promise = true;
  }
  Decision on_launch(const Access& access);
  Bytes managed_limit() const;
  bool limit_is_hard() const { return config_.budget && config_.budget_is_promise; }
  std::vector<BufferId> choose_victims(std::span<const BufferId> candidates, Bytes needed) const;
  const Learned& learned() const { return learned_; }

 private:
  // The homes of a buffer that is in no layer; smaller numbers are layers.
  static constexpr std::uint32_t kFirstSpecialHome = 0xFFFFFFF0U;
  static constexpr std::uint32_t kShared = 0xFFFFFFF0U;       // belongs to no layer, and stays
  static constexpr std::uint32_t kUnscheduled = 0xFFFFFFF1U;  // transient, or not understood

  struct BufferState {
    Bytes footprint;
    std::uint64_t last_use = 0;      // launch; 0: none
    std::uint64_t allocated_at = 0;  // launches announced before it existed
    std::uint32_t home = kUnscheduled;
    bool live = false;
    bool host_written = false;
    bool counted = false;      // in the bytes of unscheduled buffers in use
    bool scheduled = false;    // the schedule has it on the device
    std::uint64_t window = 0;  // the last decision whose window held it
  };

  enum class Refinement { kWaiting, kRecording, kDone };

  /// The state of a live buffer, or null. O(1).
  BufferState* find(BufferId id) {
    return index_of(id) < buffers_.size() && buffers_[index_of(id)].live ? &buffers_[index_of(id)]
                                                                         : nullptr;
  }
  const BufferState* find(BufferId id) const { return const_cast<Impl*>(this)->find(id); }

  /// Counts a buffer that is in use and unscheduled, once. O(1).
  void count(BufferState& buffer);
  /// Undoes count(), if it was counted. O(1).
  void uncount(BufferState& buffer);
  /// Deals with buffers of the launch that the schedule does not have on the device or does not
  /// know: counts them, and takes those that outlived a pass into a layer. O(buffers of the
  /// launch).
  void note_irregular(const Access& access);
  /// Puts a buffer that is in no layer though it outlived a pass into the layer `home`, or makes it
  /// shared (`home` is kShared).
  void take_in(BufferId id, std::uint32_t home);
  /// Records a launch; when a pass has come round, learns its order and catches up with it.
  /// @return whether the order is now known.
  bool learn(const Access& access);
  /// The footprints of the persistent buffers that `pass` names, by id, zero for all others. Its
  /// first launch was number `first_launch`.
  std::vector<Bytes> persistent_of(std::span<const LaunchRecord> pass,
                                   std::uint64_t first_launch) const;
  /// The order of `pass`, with the footprints of its persistent buffers; nullopt if it has fewer
  /// than two layers or uses too little of the model.
  std::optional<PassOrder> understand(std::span<const LaunchRecord> pass,
                                      std::span<const Bytes> persistent) const;
  /// Keeps the launches of `pass`, with the footprints of its persistent buffers, for reports.
  void keep(std::span<const LaunchRecord> pass, std::span<const Bytes> persistent);
  /// Follows `order` from now on, beginning at its first visit. O(buffers that exist).
  void install(PassOrder order, std::uint64_t first_launch);
  /// Follows the launches since the learned pass ended; the first of them opens a pass.
  void catch_up(std::span<const LaunchRecord> since);
  /// Records one more whole pass after the order is known, and groups its buffers again: by then it
  /// is seen which of those that the first pass allocated (gradients, optimizer states) are
  /// persistent.
  void refine(const Access& access);
  /// Gives the order up, and begins to learn. O(buffers that exist).
  void forget();
  /// The layer to which a launch of `buffers` belongs, or kNoLayer.
  std::uint32_t home_of(std::span<const BufferId> buffers);
  /// Whether this is the launch that opened the learned pass. O(buffers).
  bool opens_pass(KernelId kernel, std::span<const BufferId> buffers) const;

  /// Moves the follower on, and counts passes.
  void advance(std::uint64_t visits);
  /// Which layers have lost all their buffers.
  std::vector<bool> empty_layers() const;
  /// A launch of the layer `home` has left the present visit: moves on to the visit that it belongs
  /// to. @return what to evict and fetch there.
  Decision move_to(const Access& access, std::uint32_t home);
  /// The evictions and fetches after which the device holds `window`. O(buffers in it and on the
  /// device).
  Decision decide(const Window& window);

  /// Recomputes everything that is derived from order_: needs, sizes, k and k'. O(buffers in
  /// visits).
  void describe();
  /// Chooses k and k' for what is known now.
  void choose_schedule();
  /// Chooses k again when the present one no longer fits, or, as a pass begins, when more does.
  void follow_budget();
  /// The budget less pass-through bytes.
  Bytes available() const {
    return saturating_subtract(config_.budget.value_or(Bytes{}), passthrough_);
  }

  /// The part of available() that shared buffers and transients leave to layers.
  Bytes layers_room() const {
    return saturating_subtract(available(), shared_bytes_ + unscheduled_peak_);
  }

  PolicyConfig config_;
  std::vector<BufferState> buffers_;  // by id
  Bytes passthrough_;
  Bytes largest_need_;      // the largest buffer or launch since learning began
  Bytes unscheduled_used_;  // buffers that are in use, but in no layer and not shared
  Bytes unscheduled_peak_;
  std::uint64_t launch_ = 0;  // announced so far, the present one included
  bool known_ = false;

  OrderLearner learner_;
  std::vector<BufferId> written_;  // used by learn() alone: kept to save an allocation each launch
  LayerShares shares_;             // used by home_of() alone, likewise
  PassOrder order_;
  VisitNeeds needs_;
  OrderFollower follower_;
  std::uint64_t pass_began_ = 0;       // launch
  std::uint64_t last_pass_began_ = 0;  // launch
  int doubt_ = 0;

  Refinement refinement_ = Refinement::kWaiting;
  LaunchHistory recording_;
  std::size_t mispredictions_before_ = 0;  // when recording_ began

  bool changed_ = false;  // buffers have left or joined order_ since describe()
  bool join_ = false;     // the next decision joins the schedule in its midst
  bool sweep_ = false;    // the next decision evicts whatever is not in its window
  WindowChoice windows_;
  std::vector<bool> is_empty_;  // by layer
  Bytes shared_bytes_;
  Bytes layers_bytes_;
  std::uint64_t decision_ = 0;
  std::vector<BufferId> scheduled_;  // oldest first
  Learned learned_;
};

}  // namespace superpipe
