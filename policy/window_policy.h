// The policies that move windows of layers: naive and superpipeline-paper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/layer_finder.h"
#include "policy/layer_grouping.h"
#include "policy/order_follower.h"
#include "policy/policy_engine.h"
#include "policy/resident_policy.h"
#include "policy/units.h"
#include "policy/window_scheduler.h"

namespace superpipe {

/// Moves a window of k layers over the visits of a pass, as soon as the layers are known
/// (LayerFinder); until then, and for what is in no layer, residency fetches on demand.
class WindowPolicy final : public ResidentPolicy {
 public:
  /// REQUIRES: moves_windows(config.kind), and as PolicyEngine.
  explicit WindowPolicy(const PolicyConfig& config) : k_(config.k), scheduler_(config) {}

  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_free(BufferId id) override;
  [[nodiscard]] Decision on_launch(const Access& access) override;
  /// The least recently used first while no layers are known. Else what is not expected, then the
  /// buffers of layers outside the window, then the others, of each the furthest next use first.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override;
  [[nodiscard]] PolicyEngine::Learned learned() const override;
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override;
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept override;
  [[nodiscard]] Bytes managed_limit() const override;

 private:
  [[nodiscard]] Bytes room_for_layers() const;
  void start();
  void stop();
  void update();
  [[nodiscard]] std::optional<WindowScheduler::Start> follow(const Access& access);
  [[nodiscard]] bool opens_pass(const Access& access) const;
  [[nodiscard]] std::uint32_t home_of(std::span<const BufferId> buffers);

  std::optional<int> k_;
  LayerFinder layers_;
  OrderFollower follower_;
  WindowScheduler scheduler_;
  LayerShares shares_;          // used by home_of() alone: kept to save an allocation a launch
  std::vector<bool> is_empty_;  // by layer
  std::uint64_t gone_ = 0;      // layers_.gone(), as of the schedule
  std::uint64_t stray_ = 0;     // so many visits ahead was the last launch, and is not followed
  bool is_new_ = false;         // the order: nothing was decided by it
};

}  // namespace superpipe
