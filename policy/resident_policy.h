// The policy that moves nothing, and what policies have that use the past for reports alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/buffer_history.h"
#include "policy/eviction.h"
#include "policy/policy.h"
#include "policy/policy_engine.h"
#include "policy/stream_replays.h"
#include "policy/units.h"

namespace superpipe {

/// Decides nothing. It remembers launches for the summary and the statistics, which tell how long a
/// pass takes, what it could take, and how large layers are.
class ResidentPolicy : public Policy {
 public:
  void on_allocate(BufferId id, Bytes footprint, std::uint32_t /*pieces*/) override {
    history_.on_allocate(id, footprint);
    replay_.on_allocate(id, footprint);
  }
  void on_free(BufferId id) override {
    history_.on_free(id);
    replay_.on_free(id);
  }
  [[nodiscard]] Decision on_launch(const Access& access) override {
    (void)observe(access);
    return {};
  }
  /// The least recently used first.
  [[nodiscard]] std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                     Bytes needed) const override {
    return plan_eviction_or_all(history_.by_last_use(candidates), needed);
  }
  [[nodiscard]] const StreamReplays& replay() const final { return replay_; }

 protected:
  /// Remembers the launch. @return the footprints of all that it names.
  Bytes observe(const Access& access) {
    replay_.on_launch(access.kernel, access.buffers, access.stream);
    return history_.on_launch(access.buffers);
  }
  [[nodiscard]] const BufferHistory& history() const { return history_; }

 private:
  BufferHistory history_;
  StreamReplays replay_;
};

}  // namespace superpipe
