#include "policy/policy.h"

#include "policy/layer_bound_replay.h"
#include "policy/pull_policies.h"
#include "policy/resident_policy.h"
#include "policy/window_policy.h"

namespace superpipe {

std::unique_ptr<Policy> make_policy(const PolicyConfig& config) {
  switch (config.kind) {
    case PolicyKind::kSuperpipeline:
      return std::make_unique<LayerBoundReplay>(config);
    case PolicyKind::kNaive:
    case PolicyKind::kSuperpipelinePaper:
      return std::make_unique<WindowPolicy>(config);
    case PolicyKind::kLru:
      return std::make_unique<LruPolicy>();
    case PolicyKind::kAuto:
      if (config.recorded) return std::make_unique<ReplayPolicy>(*config.recorded);
      return std::make_unique<ReplayPolicy>();
    case PolicyKind::kResident:
      break;
  }
  return std::make_unique<ResidentPolicy>();
}

PolicyEngine::Learned Policy::learned() const {
  PolicyEngine::Learned learned;
  learned.passes = replay().passes();
  learned.mispredictions = replay().jumps();
  learned.at_pass_start = replay().at_pass_start();
  learned.following = replay().following();
  return learned;
}

PolicyEngine::Outline Policy::outline() const noexcept {
  PolicyEngine::Outline outline;
  outline.pass_bytes = replay().pass_bytes();
  return outline;
}

}  // namespace superpipe
