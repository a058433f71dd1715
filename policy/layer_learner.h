// From launches to layers: finds a pass that repeats, groups its buffers, and looks a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/buffer_history.h"
#include "policy/launch_history.h"
#include "policy/order_learner.h"
#include "policy/pass_launches.h"
#include "policy/pass_order.h"
#include "policy/units.h"

namespace superpipe {

/// A pass that was found.
struct LearnedPass {
  PassOrder order;
  std::uint64_t first_launch = 0;  ///< the number of its first launch, as BufferHistory counts
  LaunchHistory since;  ///< the launches after it, the present one included: it is in the midst
};

/// Learns the layers of a program and the order in which a pass visits them (docs/policy.md, "From
/// launches to a pass").
///
/// The first pass that repeats tells the order. One more whole pass is then recorded and grouped
/// again: by then it is seen which of those buffers that the first pass allocated (gradients,
/// optimizer states) are persistent. Not thread-safe.
class LayerLearner {
 public:
  /// A launch while no order is known. `history` has it already. Amortised O(buffers of the
  /// launch), and as group_layers() when something repeats.
  /// @return the pass, when one is found that makes at least two layers and uses enough of the
  /// model.
  [[nodiscard]] std::optional<LearnedPass> observe(KernelId kernel,
                                                   std::span<const BufferId> buffers,
                                                   const BufferHistory& history);

  /// Where in the known order a launch is.
  struct Place {
    bool opens_pass = false;
    std::uint64_t last_pass_began = 0;  ///< the number of the launch that opened the last pass
    std::size_t mispredictions = 0;     ///< so far
  };
  /// A launch while the order `known` is followed. Records a whole pass, as soon as one opens, and
  /// groups its buffers when the next one does. Amortised as observe().
  /// @return the order of the recorded pass, once, if it is another one than `known`.
  [[nodiscard]] std::optional<PassOrder> refine(KernelId kernel, std::span<const BufferId> buffers,
                                                const Place& place, const PassOrder& known,
                                                const BufferHistory& history);
  /// Whether refine() is recording.
  [[nodiscard]] bool is_recording() const { return refinement_ == Refinement::kRecording; }
  /// Whether refine() has no more to do.
  [[nodiscard]] bool is_settled() const { return refinement_ == Refinement::kSettled; }

  /// A whole pass in the order that was learned, one of the first; null while none is known.
  [[nodiscard]] const std::shared_ptr<const PassLaunches>& launches() const { return launches_; }

  /// The order did not last: observe() begins anew, and asks for longer recurrences.
  void start_over();

 private:
  enum class Refinement { kWaiting, kRecording, kSettled };

  OrderLearner passes_;
  std::vector<BufferId> written_;  // used by observe() alone: kept to save an allocation a launch
  Refinement refinement_ = Refinement::kWaiting;
  LaunchHistory recording_;
  std::size_t mispredictions_before_ = 0;  // when recording_ began
  std::shared_ptr<const PassLaunches> launches_;
};

/// The footprints of the persistent buffers that `pass` names, by id, zero for all others: those
/// that exist and were there before its first launch, number `first_launch`, or, if the host filled
/// them, before the launch that names them first. Pure. O(ids + accesses).
[[nodiscard]] std::vector<Bytes> persistent_footprints(std::span<const LaunchRecord> pass,
                                                       std::uint64_t first_launch,
                                                       const BufferHistory& history);

}  // namespace superpipe
