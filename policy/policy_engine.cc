#include "policy/policy_engine.h"

#include <array>
#include <utility>

#include "policy/budget.h"
#include "policy/policy.h"

namespace superpipe {
namespace {

constexpr std::array<std::pair<PolicyKind, std::string_view>, 6> kPolicyNames = {{
    {PolicyKind::kResident, "resident"},
    {PolicyKind::kNaive, "naive"},
    {PolicyKind::kSuperpipeline, "superpipeline"},
    {PolicyKind::kSuperpipelinePaper, "superpipeline-paper"},
    {PolicyKind::kLru, "lru"},
    {PolicyKind::kAuto, "auto"},
}};

}  // namespace

std::string_view name_of(PolicyKind kind) {
  for (const auto& [known, name] : kPolicyNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<PolicyKind> policy_from_name(std::string_view name) {
  for (const auto& [kind, known] : kPolicyNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

PolicyEngine::PolicyEngine(const PolicyConfig& config)
    : policy_(make_policy(config)),
      budget_(config.budget),
      budget_is_promise_(config.budget_is_promise) {
  tell_available();
}
PolicyEngine::~PolicyEngine() = default;
PolicyEngine::PolicyEngine(PolicyEngine&&) noexcept = default;
PolicyEngine& PolicyEngine::operator=(PolicyEngine&&) noexcept = default;

void PolicyEngine::tell_available() {
  policy_->set_available(budget_ ? std::optional(saturating_subtract(*budget_, passthrough_))
                                 : std::nullopt);
}

void PolicyEngine::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  policy_->on_allocate(id, footprint, pieces);
}
void PolicyEngine::on_host_write(BufferId id) { policy_->on_host_write(id); }
void PolicyEngine::on_free(BufferId id) { policy_->on_free(id); }
void PolicyEngine::on_passthrough_bytes(Bytes bytes) {
  passthrough_ = bytes;
  tell_available();
}
void PolicyEngine::set_budget(Bytes budget) {
  budget_ = budget;
  budget_is_promise_ = true;
  tell_available();
}
Decision PolicyEngine::on_launch(const Access& access) {
  ++launches_;
  Decision decision = policy_->on_launch(access);
  at_pass_start_ = policy_->replay().at_pass_start();
  return decision;
}
AutoPolicy* PolicyEngine::puller() { return policy_->puller(); }
const AutoPolicy* PolicyEngine::puller() const { return policy_->puller(); }
const StreamReplays& PolicyEngine::replay() const { return policy_->replay(); }
Bytes PolicyEngine::managed_limit() const { return policy_->managed_limit(); }
bool PolicyEngine::limit_is_hard() const { return budget_ && budget_is_promise_; }
std::vector<BufferId> PolicyEngine::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  return policy_->choose_victims(candidates, needed);
}
PolicyEngine::Learned PolicyEngine::learned() const { return policy_->learned(); }
PolicyEngine::Outline PolicyEngine::outline() const noexcept { return policy_->outline(); }
std::optional<std::size_t> PolicyEngine::layer_of(BufferId id) const noexcept {
  return policy_->layer_of(id);
}

}  // namespace superpipe
