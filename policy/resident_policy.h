// The policy that moves nothing, and what every policy has that learns passes for reports alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/eviction.h"
#include "policy/order_observer.h"
#include "policy/policy.h"
#include "policy/policy_engine.h"
#include "policy/units.h"

namespace superpipe {

/// Decides nothing. It learns layers and passes for the summary and the statistics, which tell how
/// long a pass takes, what it could take, and how large layers are.
class ResidentPolicy : public Policy {
 public:
  void on_allocate(BufferId id, Bytes footprint, std::uint32_t /*pieces*/) override {
    observer_.on_allocate(id, footprint);
  }
  void on_host_write(BufferId id) override { observer_.on_host_write(id); }
  void on_free(BufferId id) override { observer_.on_free(id); }
  [[nodiscard]] Decision on_launch(const Access& access) override {
    (void)observer_.on_launch(access);
    (void)observer_.settle(access);
    return {};
  }
  [[nodiscard]] bool at_pass_start() const override { return observer_.at_pass_start(); }
  /// The least recently used first.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override {
    return plan_eviction_or_all(observer_.history().by_last_use(candidates), needed);
  }
  [[nodiscard]] PolicyEngine::Learned learned() const override { return observer_.learned(); }
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override {
    return observer_.outline();
  }
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept override {
    return observer_.layer_of(id);
  }

 private:
  OrderObserver observer_;
};

}  // namespace superpipe
