// Learns a program's layers, and follows it through them, whoever makes use of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "policy/buffer_history.h"
#include "policy/layer_learner.h"
#include "policy/order_tracker.h"
#include "policy/policy_engine.h"
#include "policy/units.h"

namespace superpipe {

/// A learner and a tracker that take turns: the learner watches until an order is known, the
/// tracker follows it, and when it is not the program's any more the learner begins anew. Not
/// thread-safe.
class OrderObserver {
 public:
  void on_allocate(BufferId id, Bytes footprint);
  void on_host_write(BufferId id) { history_.on_host_write(id); }
  void on_free(BufferId id);

  /// What a launch showed.
  struct Seen {
    Bytes working_set;            ///< of the launch
    bool learned_order = false;   ///< another order is followed from now on
    bool changed_layers = false;  ///< buffers have left or joined the layers of the same order
    bool began_visit = false;     ///< the launch is the first one of its visit
    bool jumped = false;          ///< the visit does not follow the one before
    bool lost_order = false;      ///< the order was given up
  };
  /// A launch. Amortised O(buffers of the launch).
  [[nodiscard]] Seen on_launch(const Access& access);
  /// To be called after each on_launch(), with the same: takes buffers that are in no layer into
  /// account. O(buffers of the launch) if there are such.
  /// @return whether the order was given up for it.
  [[nodiscard]] bool settle(const Access& access) { return has_strangers_ && take_in(access); }

  [[nodiscard]] const BufferHistory& history() const { return history_; }
  [[nodiscard]] const OrderTracker& tracker() const { return tracker_; }
  /// Whether the last launch opened a pass. O(1).
  [[nodiscard]] bool at_pass_start() const { return at_pass_start_; }

  /// All figures but k and k'.
  [[nodiscard]] PolicyEngine::Learned learned() const;
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept;
  /// The layer of a buffer, of those that outline() counts; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept;

 private:
  void learn(const Access& access, Seen& seen);
  void follow(const Access& access, Seen& seen);
  void refine(const Access& access, Seen& seen);
  [[nodiscard]] bool take_in(const Access& access);
  void start_over();

  BufferHistory history_;
  LayerLearner learner_;
  OrderTracker tracker_;
  bool at_pass_start_ = false;
  bool has_strangers_ = false;  // in the present launch: settle() has to do with it
};

}  // namespace superpipe
