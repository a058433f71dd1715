// `superpipeline`: the replay's transfers, in the room that k layers take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "policy/layer_finder.h"
#include "policy/policy_engine.h"
#include "policy/pull_policies.h"
#include "policy/units.h"

namespace superpipe {

/// Bounds how many bytes may be on the device by what k layers take (LayerFinder), and leaves to
/// the replay of `auto` which pieces those are. So what fits stays from pass to pass, and only the
/// rest moves. With a budget and no k the budget is the bound, and k tells how many layers fit into
/// it.
class LayerBoundReplay final : public ReplayPolicy {
 public:
  /// REQUIRES: as PolicyEngine.
  explicit LayerBoundReplay(const PolicyConfig& config) : k_(config.k) {}

  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_free(BufferId id) override;
  /// As ReplayPolicy's, and LayerFinder's.
  [[nodiscard]] Decision on_launch(const Access& access) override;
  [[nodiscard]] PolicyEngine::Learned learned() const override;
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override;
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept override;
  [[nodiscard]] Bytes managed_limit() const override;

 private:
  void schedule();

  std::optional<int> k_;
  LayerFinder layers_;
  std::size_t scheduled_k_ = 0;  ///< k, or how many layers fit; 0 while the layers are unknown
  Bytes bytes_of_k_;             ///< of so many layers
  Bytes scheduled_for_;          ///< what there was to take then
};

}  // namespace superpipe
