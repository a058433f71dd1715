// What a policy answers to PolicyEngine.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/policy_engine.h"
#include "policy/stream_replays.h"
#include "policy/units.h"

namespace superpipe {

/// One policy: what comes and what goes. Its functions are those of PolicyEngine, which documents
/// them. Pure, not thread-safe.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  virtual void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) = 0;
  virtual void on_host_write(BufferId /*id*/) {}
  virtual void on_free(BufferId id) = 0;
  [[nodiscard]] virtual Decision on_launch(const Access& access) = 0;
  [[nodiscard]] virtual std::vector<BufferId> choose_victims(std::span<const BufferId> candidates,
                                                             Bytes needed) const = 0;
  [[nodiscard]] virtual const StreamReplays& replay() const = 0;
  /// What replay() tells: no layers.
  [[nodiscard]] virtual PolicyEngine::Learned learned() const;
  [[nodiscard]] virtual PolicyEngine::Outline outline() const noexcept;
  [[nodiscard]] virtual std::optional<std::size_t> layer_of(BufferId /*id*/) const noexcept {
    return std::nullopt;
  }
  /// The bytes of the budget, else there is no limit.
  [[nodiscard]] virtual Bytes managed_limit() const {
    return available_.value_or(Bytes{std::numeric_limits<std::uint64_t>::max()});
  }
  [[nodiscard]] virtual AutoPolicy* puller() { return nullptr; }
  [[nodiscard]] const AutoPolicy* puller() const { return const_cast<Policy*>(this)->puller(); }

  /// The budget less pass-through bytes is `available` from now on; nullopt: there is no budget.
  void set_available(std::optional<Bytes> available) { available_ = available; }

 protected:
  [[nodiscard]] std::optional<Bytes> available() const { return available_; }

 private:
  std::optional<Bytes> available_;
};

/// The policy that `config` asks for. REQUIRES: as PolicyEngine.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const PolicyConfig& config);

}  // namespace superpipe
