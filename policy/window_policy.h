// The policies that move windows of layers: naive and superpipeline-paper.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/order_observer.h"
#include "policy/policy.h"
#include "policy/policy_engine.h"
#include "policy/units.h"
#include "policy/window_scheduler.h"

namespace superpipe {

/// Moves a window of k layers as soon as the layers are known; until then, and for what is in no
/// layer, residency fetches on demand.
class WindowPolicy final : public Policy {
 public:
  /// REQUIRES: moves_windows(config.kind), and as PolicyEngine.
  explicit WindowPolicy(const PolicyConfig& config) : k_(config.k), scheduler_(config) {}

  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_host_write(BufferId id) override { observer_.on_host_write(id); }
  void on_free(BufferId id) override;
  [[nodiscard]] Decision on_launch(const Access& access) override;
  [[nodiscard]] bool at_pass_start() const override { return observer_.at_pass_start(); }
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override;
  [[nodiscard]] PolicyEngine::Learned learned() const override;
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override;
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept override {
    return observer_.layer_of(id);
  }
  [[nodiscard]] Bytes managed_limit() const override;

 private:
  [[nodiscard]] Bytes room_for_layers() const;
  void schedule(const OrderObserver::Seen& seen);
  void stop();

  std::optional<int> k_;
  OrderObserver observer_;
  WindowScheduler scheduler_;
  // The largest buffer or launch since learning began, or since the order is known the largest
  // launch.
  Bytes largest_need_;
};

}  // namespace superpipe
