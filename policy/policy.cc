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

}  // namespace superpipe
