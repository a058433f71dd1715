#include "policy/order_observer.h"

#include <optional>
#include <utility>

namespace superpipe {

void OrderObserver::on_allocate(BufferId id, Bytes footprint) {
  on_free(id);
  // The history last: a buffer that it has is one that the tracker has room for, though host memory
  // may run out in between.
  tracker_.on_allocate(id);
  history_.on_allocate(id, footprint);
}

void OrderObserver::on_free(BufferId id) {
  const BufferHistory::Buffer* const buffer = history_.find(id);
  if (buffer == nullptr) return;
  tracker_.on_free(id, buffer->footprint);
  history_.on_free(id);
}

OrderObserver::Seen OrderObserver::on_launch(const Access& access) {
  Seen seen;
  seen.working_set = history_.on_launch(access.buffers);
  at_pass_start_ = false;
  has_strangers_ = false;
  if (tracker_.is_following()) {
    follow(access, seen);
  } else {
    learn(access, seen);
  }
  return seen;
}

void OrderObserver::learn(const Access& access, Seen& seen) {
  std::optional<LearnedPass> learned = learner_.observe(access.kernel, access.buffers, history_);
  if (!learned) return;
  tracker_.start(std::move(learned->order), learned->first_launch, history_);
  tracker_.catch_up(learned->since, history_);
  at_pass_start_ = tracker_.at_pass_start();
  has_strangers_ = true;
  seen.learned_order = true;
  seen.began_visit = true;  // or is in its midst: nothing was decided for it yet
  seen.jumped = true;
}

void OrderObserver::follow(const Access& access, Seen& seen) {
  const OrderTracker::Step step =
      tracker_.on_launch(access.kernel, access.buffers, learner_.is_settled(), history_);
  has_strangers_ = step.has_strangers;
  if (!step.left_visit) {
    if (learner_.is_recording()) refine(access, seen);
    return;
  }
  seen.changed_layers = step.changed_layers;
  if (step.is_lost) {
    start_over();
    has_strangers_ = false;
    seen.lost_order = true;
    return;
  }
  at_pass_start_ = tracker_.at_pass_start();
  seen.began_visit = step.began_visit;
  seen.jumped = step.jumped;
  if (step.began_visit) refine(access, seen);
}

void OrderObserver::refine(const Access& access, Seen& seen) {
  auto order =
      learner_.refine(access.kernel, access.buffers,
                      {at_pass_start_, tracker_.last_pass_began(), tracker_.mispredictions()},
                      tracker_.order(), history_);
  if (!order) return;
  tracker_.start(*std::move(order), tracker_.last_pass_began(), history_);
  seen.learned_order = true;
}

bool OrderObserver::take_in(const Access& access) {
  if (tracker_.take_in(access.buffers, learner_.is_settled(), history_)) return false;
  start_over();
  return true;
}

void OrderObserver::start_over() {
  tracker_.stop();
  learner_.start_over();
}

PolicyEngine::Learned OrderObserver::learned() const {
  PolicyEngine::Learned learned;
  const OrderTracker::Sizes& sizes = tracker_.sizes();
  learned.layers_known = tracker_.is_following();
  learned.layer_bytes = sizes.layers;
  learned.pass_bytes = sizes.all_layers + sizes.shared;
  learned.largest_piece = sizes.largest_layer;
  learned.passes = tracker_.passes();
  learned.mispredictions = tracker_.mispredictions();
  learned.at_pass_start = at_pass_start_;
  learned.launches = learner_.launches();
  return learned;
}

PolicyEngine::Outline OrderObserver::outline() const noexcept {
  PolicyEngine::Outline outline;
  if (!tracker_.is_following()) return outline;
  const OrderTracker::Sizes& sizes = tracker_.sizes();
  outline.layers = sizes.layers.size();
  outline.pass_bytes = sizes.all_layers + sizes.shared;
  return outline;
}

std::optional<std::size_t> OrderObserver::layer_of(BufferId id) const noexcept {
  const bool exists = tracker_.is_following() && history_.find(id) != nullptr;
  const std::size_t layer = exists ? tracker_.layer_of(id) : kNoLayer;
  return layer < tracker_.sizes().layers.size() ? std::optional(layer) : std::nullopt;
}

}  // namespace superpipe
