#include "policy/layer_bound_replay.h"

#include <algorithm>

#include "policy/budget.h"
#include "policy/schedule.h"

namespace superpipe {
namespace {

// Each layer is visited once.
VisitNeeds one_visit_each(std::size_t layers) {
  VisitNeeds needs;
  for (std::uint32_t layer = 0; layer < layers; ++layer) needs.push_back({layer});
  return needs;
}

}  // namespace

void LayerBoundReplay::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  ReplayPolicy::on_allocate(id, footprint, pieces);
  layers_.on_allocate(footprint);
}

void LayerBoundReplay::on_free(BufferId id) {
  layers_.on_free(id, history().footprint_of(id));
  ReplayPolicy::on_free(id);
}

Decision LayerBoundReplay::on_launch(const Access& access) {
  const Bytes need = observe(access);
  const LayerFinder::Change change = layers_.on_launch(replay(), history(), need);
  const bool begins = replay().at_pass_start() && scheduled_for_ != Policy::managed_limit();
  if (change != LayerFinder::Change::kNothing || begins) schedule();
  return {};
}

void LayerBoundReplay::schedule() {
  scheduled_for_ = Policy::managed_limit();
  const std::size_t count = layers_.count();
  const VisitNeeds needs = one_visit_each(count);
  if (k_) {
    scheduled_k_ = std::min(static_cast<std::size_t>(*k_), count);
  } else {
    const Bytes room = saturating_subtract(scheduled_for_, layers_.besides());
    const std::size_t fit = largest_fitting_k(needs, layers_.bytes(), room);
    scheduled_k_ = std::max(fit, std::min<std::size_t>(count, 1));
  }
  bytes_of_k_ = max_window_bytes(needs, layers_.bytes(), scheduled_k_);
}

Bytes LayerBoundReplay::managed_limit() const {
  const Bytes most = Policy::managed_limit();
  return k_ ? std::min(layers_.need_of(*k_, scheduled_k_, bytes_of_k_), most) : most;
}

PolicyEngine::Learned LayerBoundReplay::learned() const {
  PolicyEngine::Learned learned = ReplayPolicy::learned();
  layers_.tell(learned);
  if (learned.layers_known) learned.pass_bytes = replay().pass_bytes();
  learned.k = static_cast<int>(scheduled_k_);
  return learned;
}

PolicyEngine::Outline LayerBoundReplay::outline() const noexcept {
  PolicyEngine::Outline outline = ReplayPolicy::outline();
  outline.layers = layers_.count();
  outline.k = static_cast<int>(scheduled_k_);
  return outline;
}

std::optional<std::size_t> LayerBoundReplay::layer_of(BufferId id) const noexcept {
  return layers_.found_layer_of(id);
}

}  // namespace superpipe
