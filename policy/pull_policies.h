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

/// `lru`: what is needed comes when it is needed, and the least recently used goes for it.
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
  /// The furthest expected next use first, the least recently used of those that are not expected.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override;
  [[nodiscard]] const StreamReplays& replay() const final { return puller_.replay(); }
  [[nodiscard]] AutoPolicy* puller() override { return &puller_; }

 protected:
  /// Learns from the launch. @return the footprints of all that it names.
  Bytes observe(const Access& access);
  [[nodiscard]] const BufferHistory& history() const { return history_; }

 private:
  BufferHistory history_;
  AutoPolicy puller_{AutoPolicy::Foresight::kReplay};
};

}  // namespace superpipe
