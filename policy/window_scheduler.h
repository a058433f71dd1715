// Which buffers come and go as a program moves from layer to layer: the policies that have k and
// k'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "policy/pass_order.h"
#include "policy/policy_engine.h"
#include "policy/schedule.h"
#include "policy/units.h"
#include "policy/window_choice.h"

namespace superpipe {

/// Moves a window of k layers over the visits of a pass (docs/policy.md, "Windows"), and knows
/// which buffers it has on the device for that. Decides nothing where all layers may stay. Not
/// thread-safe.
class WindowScheduler {
 public:
  /// REQUIRES: as PolicyEngine. What `config` says of a budget is whether there is one.
  explicit WindowScheduler(PolicyConfig config) : config_(std::move(config)) {}

  /// Schedules the visits of `order` from now on, whatever order was scheduled before; the next
  /// on_visit() evicts all that is not in its window. `footprints`: by buffer. `room`: device bytes
  /// for layers. Nothing is retained. O(buffers in visits * log visits).
  void start(const PassOrder& order, std::span<const Bytes> footprints, Bytes room);
  /// The same order, which buffers have left.
  void update(const PassOrder& order, std::span<const Bytes> footprints, Bytes room);
  /// There is no order.
  void stop();

  /// Where a visit begins.
  struct Start {
    std::uint64_t visit = 0;  ///< in the endless sequence
    bool opens_pass = false;
    bool jumps = false;  ///< it does not follow the visit before: the schedule begins here
  };
  /// A visit begins, with a launch that names the buffers `named`. With a budget and no k, k is
  /// chosen again when it no longer fits into `room`, or, as a pass begins, when more does.
  /// REQUIRES: start() was called. O(buffers in the window and on the device).
  /// @return the evictions and fetches after which the device holds the window. Buffers in `named`
  /// stay in any case.
  [[nodiscard]] Decision on_visit(const Start& start, std::span<const BufferId> named, Bytes room);
  /// A launch names a buffer of a layer: if the schedule does not have it on the device, a demand
  /// fetch brings it. It counts as scheduled from then on, so that a later window evicts it. O(1).
  void on_use(BufferId id);
  /// The buffer is gone. O(buffers on the device) if the schedule has it there.
  void on_free(BufferId id);

  /// Whether anything is moved at all. O(1).
  [[nodiscard]] bool is_active() const { return choice_.active; }
  /// Whether the schedule has the buffer on the device. O(1).
  [[nodiscard]] bool has(BufferId id) const {
    return index_of(id) < buffers_.size() && buffers_[index_of(id)].scheduled;
  }
  /// k and k' as scheduled now, all layers where nothing is moved, and how much they take; zero
  /// without an order. O(1).
  [[nodiscard]] const WindowChoice& choice() const { return choice_; }

 private:
  struct Buffer {
    bool scheduled = false;
    std::uint64_t kept_by = 0;  // the last decision that keeps it, or has dealt with it
  };

  void choose(Bytes room);
  [[nodiscard]] Decision decide(const Window& window, std::span<const BufferId> named);

  PolicyConfig config_;
  VisitNeeds needs_;                     // by visit of a pass; items are buffers
  std::vector<BufferId> layer_buffers_;  // of all layers, in order
  std::vector<Bytes> footprints_;        // by buffer
  std::size_t layers_ = 0;               // that have buffers
  Bytes layers_bytes_;
  WindowChoice choice_;
  std::vector<Buffer> buffers_;      // by id
  std::vector<BufferId> scheduled_;  // oldest first
  std::uint64_t decisions_ = 0;
  bool joins_ = false;   // the next decision joins the schedule in its midst
  bool sweeps_ = false;  // the next decision evicts whatever is not in its window
};

}  // namespace superpipe
