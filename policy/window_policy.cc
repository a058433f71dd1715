#include "policy/window_policy.h"

#include <algorithm>
#include <utility>

#include "policy/budget.h"
#include "policy/eviction.h"

namespace superpipe {
namespace {

// Added to the next use: a layer outside the window goes before all that is expected.
constexpr std::uint64_t kOutsideWindow = std::uint64_t{1} << 40;

}  // namespace

void WindowPolicy::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  ResidentPolicy::on_allocate(id, footprint, pieces);
  layers_.on_allocate(footprint);
}

void WindowPolicy::on_free(BufferId id) {
  layers_.on_free(id, history().footprint_of(id));
  scheduler_.on_free(id);
  ResidentPolicy::on_free(id);
}

Decision WindowPolicy::on_launch(const Access& access) {
  const Bytes need = observe(access);
  const LayerFinder::Change change = layers_.on_launch(replay(), history(), need);
  if (change == LayerFinder::Change::kFound) start();
  if (change == LayerFinder::Change::kForgotten) stop();
  if (layers_.count() == 0) return {};
  Decision decision;
  if (const auto visit = follow(access)) {
    decision = scheduler_.on_visit(*visit, access.buffers, room_for_layers());
  }
  if (scheduler_.is_active()) {
    for (const BufferId id : access.buffers) {
      if (layers_.layer_of(id) != kNoLayer && !scheduler_.has(id)) scheduler_.on_use(id);
    }
  }
  return decision;
}

void WindowPolicy::start() {
  follower_.start(layers_.order());
  scheduler_.start(layers_.order(), history().footprints(), room_for_layers());
  is_empty_.assign(layers_.count(), false);
  gone_ = layers_.gone();
  is_new_ = true;
}

void WindowPolicy::stop() {
  follower_.stop();
  scheduler_.stop();
}

/// Buffers of layers have gone.
void WindowPolicy::update() {
  gone_ = layers_.gone();
  layers_.drop_gone();
  const PassOrder& order = layers_.order();
  scheduler_.update(order, history().footprints(), room_for_layers());
  for (std::size_t layer = 0; layer < order.layers.size(); ++layer) {
    is_empty_[layer] = order.layers[layer].empty();
  }
}

/// The visit that the launch begins; nullopt if it begins none. Where it is not expected the next
/// launch of a layer has to go on from there, or it was a stray one.
std::optional<WindowScheduler::Start> WindowPolicy::follow(const Access& access) {
  const std::uint32_t home = home_of(access.buffers);
  if (home == kNoLayer) return std::nullopt;
  if (gone_ != layers_.gone()) update();
  const bool is_new = std::exchange(is_new_, false);
  const std::uint64_t stray = std::exchange(stray_, 0);
  const bool is_same_layer = home == follower_.layer();
  if (is_same_layer && !is_new && !opens_pass(access)) return std::nullopt;
  OrderFollower::Step step{is_new ? std::uint64_t{0} : std::uint64_t{1}, true};
  if (!is_same_layer) step = follower_.step_to(home, is_empty_);
  if (step.visits == 0 && !is_new) return std::nullopt;
  const bool follows_stray = stray > 0 && step.visits >= stray && step.visits <= stray + 1;
  if (!step.predicted && !is_new && !follows_stray) {
    stray_ = step.visits;
    return std::nullopt;
  }
  const bool begins_pass = step.visits > 0 && follower_.advance(step);
  // Where skips are so frequent that each would throw away what was just fetched, they count as no
  // jumps.
  const bool jumps = step.visits > 1 && (step.predicted || follower_.is_confident());
  return WindowScheduler::Start{follower_.visit(), begins_pass, is_new || jumps};
}

/// Whether a launch of the present visit's layer begins the next pass.
bool WindowPolicy::opens_pass(const Access& access) const {
  const PassOrder& order = layers_.order();
  if (!follower_.may_end_pass() || access.kernel != order.first_kernel) return false;
  for (const BufferId id : access.buffers) {
    if (layers_.layer_of(id) != kNoLayer) return id == order.first_buffer;
  }
  return false;
}

/// The layer that a launch belongs to; kNoLayer if it names none.
std::uint32_t WindowPolicy::home_of(std::span<const BufferId> buffers) {
  std::uint32_t home = kNoLayer;
  bool is_mixed = false;
  for (const BufferId id : buffers) {
    const std::uint32_t layer = layers_.layer_of(id);
    if (layer == kNoLayer) continue;
    is_mixed = is_mixed || (home != layer && home != kNoLayer);
    home = layer;
  }
  if (!is_mixed) return home;
  for (const BufferId id : buffers) {
    const std::uint32_t layer = layers_.layer_of(id);
    if (layer != kNoLayer) shares_.add(layer, history().footprint_of(id));
  }
  return shares_.take_home();
}

Bytes WindowPolicy::room_for_layers() const {
  return saturating_subtract(available().value_or(Bytes{}), layers_.besides());
}

Bytes WindowPolicy::managed_limit() const {
  const Bytes most = Policy::managed_limit();
  if (!k_) return most;
  const WindowChoice& choice = scheduler_.choice();
  const std::size_t scheduled = layers_.count() == 0 ? 0 : choice.schedule.k;
  return std::min(layers_.need_of(*k_, scheduled, choice.window_bytes), most);
}

std::vector<BufferId> WindowPolicy::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  if (layers_.count() == 0) return ResidentPolicy::choose_victims(candidates, needed);
  std::vector<ResidentBuffer> resident = history().by_last_use(candidates);
  for (ResidentBuffer& buffer : resident) {
    const bool is_in_window = scheduler_.is_active() && scheduler_.has(buffer.id);
    const std::uint64_t next_use = replay().next_use(buffer.id);
    if (next_use != LaunchReplay::kNever) {
      buffer.next_use = next_use - replay().present();
      const bool is_outside = layers_.layer_of(buffer.id) != kNoLayer && !is_in_window;
      if (scheduler_.is_active() && is_outside) buffer.next_use += kOutsideWindow;
    } else if (is_in_window) {
      buffer.next_use = kOutsideWindow - 1;
    }
  }
  return plan_eviction_or_all(resident, needed);
}

PolicyEngine::Learned WindowPolicy::learned() const {
  PolicyEngine::Learned learned = Policy::learned();
  layers_.tell(learned);
  if (!learned.layers_known) return learned;
  learned.pass_bytes = replay().pass_bytes();
  learned.k = static_cast<int>(scheduler_.choice().schedule.k);
  learned.k_prime = static_cast<int>(scheduler_.choice().schedule.k_prime);
  return learned;
}

PolicyEngine::Outline WindowPolicy::outline() const noexcept {
  PolicyEngine::Outline outline = Policy::outline();
  outline.layers = layers_.count();
  if (outline.layers == 0) return outline;
  outline.k = static_cast<int>(scheduler_.choice().schedule.k);
  outline.k_prime = static_cast<int>(scheduler_.choice().schedule.k_prime);
  return outline;
}

std::optional<std::size_t> WindowPolicy::layer_of(BufferId id) const noexcept {
  return layers_.found_layer_of(id);
}

}  // namespace superpipe
