// The policies that count in bytes, lru and auto: residency asks AutoPolicy for each transfer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/buffer_history.h"
#include "policy/policy.h"
#include "policy/policy_engine.h"
#include "policy/resident_policy.h"
#include "policy/units.h"

namespace superpipe {

/// `lru`: what is needed comes when it is needed, and the least recently used goes for it. Layers
/// and passes are learned for reports.
class LruPolicy final : public ResidentPolicy {
 public:
  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_free(BufferId id) override;
  [[nodiscard]] Decision on_launch(const Access& access) override;
  [[nodiscard]] AutoPolicy* puller() override { return &puller_; }

 private:
  AutoPolicy puller_{AutoPolicy::Foresight::kNone};
};

/// `auto`: its replay of the past tells the next uses, and where passes begin. It knows no layers.
class ReplayPolicy : public Policy {
 public:
  ReplayPolicy() = default;
  /// It expects what was recorded.
  explicit ReplayPolicy(const RecordedRun& recorded) : puller_(recorded) {}

  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_host_write(BufferId id) override { puller_.on_filled(id); }
  void on_free(BufferId id) override;
  [[nodiscard]] Decision on_launch(const Access& access) override;
  [[nodiscard]] bool at_pass_start() const override { return puller_.replay().at_pass_start(); }
  /// The furthest expected next use first, the least recently used of those that are not expected.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override;
  [[nodiscard]] PolicyEngine::Learned learned() const override;
  /// No layers, but the bytes of a pass.
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override {
    PolicyEngine::Outline outline;
    outline.pass_bytes = puller_.replay().pass_bytes();
    return outline;
  }
  [[nodiscard]] AutoPolicy* puller() override { return &puller_; }

 protected:
  /// Learns from the launch. @return the footprints of all that it names.
  Bytes observe(const Access& access);
  [[nodiscard]] const StreamReplays& replay() const { return puller_.replay(); }
  /// Of a buffer that exists; else zero.
  [[nodiscard]] Bytes footprint_of(BufferId id) const;
  /// The footprint of the largest buffer that exists. O(ids).
  [[nodiscard]] Bytes largest_live() const { return history_.largest(); }

 private:
  BufferHistory history_;
  AutoPolicy puller_{AutoPolicy::Foresight::kReplay};
};

}  // namespace superpipe
