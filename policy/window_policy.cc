#include "policy/window_policy.h"

#include <algorithm>

#include "policy/budget.h"
#include "policy/eviction.h"

namespace superpipe {
namespace {

// Added to the visits ahead: a layer outside the window goes before whatever is in use
// (OrderTracker::weigh() has transients at less than that).
constexpr std::uint64_t kOutsideWindow = std::uint64_t{1} << 40;

}  // namespace

void WindowPolicy::on_allocate(BufferId id, Bytes footprint, std::uint32_t /*pieces*/) {
  scheduler_.on_free(id);
  observer_.on_allocate(id, footprint);
  if (!observer_.tracker().is_following()) largest_need_ = std::max(largest_need_, footprint);
}

void WindowPolicy::on_free(BufferId id) {
  scheduler_.on_free(id);
  observer_.on_free(id);
}

Decision WindowPolicy::on_launch(const Access& access) {
  const OrderObserver::Seen seen = observer_.on_launch(access);
  largest_need_ = std::max(largest_need_, seen.working_set);
  if (seen.lost_order) {
    stop();
    return {};
  }
  const OrderTracker& tracker = observer_.tracker();
  if (!tracker.is_following()) return {};
  if (seen.learned_order || seen.changed_layers) schedule(seen);
  Decision decision;
  if (seen.began_visit) {
    decision = scheduler_.on_visit({tracker.visit(), observer_.at_pass_start(), seen.jumped},
                                   access.buffers, room_for_layers());
  }
  if (scheduler_.is_active()) {
    for (const BufferId id : access.buffers) {
      if (tracker.layer_of(id) != kNoLayer && !scheduler_.has(id)) scheduler_.on_use(id);
    }
  }
  if (observer_.settle(access)) stop();
  return decision;
}

void WindowPolicy::schedule(const OrderObserver::Seen& seen) {
  const PassOrder& order = observer_.tracker().order();
  const std::vector<Bytes> footprints = observer_.history().footprints();
  if (seen.learned_order) {
    scheduler_.start(order, footprints, room_for_layers());
    largest_need_ = Bytes{};
  } else {
    scheduler_.update(order, footprints, room_for_layers());
  }
}

void WindowPolicy::stop() {
  scheduler_.stop();
  largest_need_ = observer_.history().largest();
}

Bytes WindowPolicy::room_for_layers() const {
  const OrderTracker& tracker = observer_.tracker();
  return saturating_subtract(available().value_or(Bytes{}),
                             tracker.sizes().shared + tracker.transient_peak());
}

Bytes WindowPolicy::managed_limit() const {
  if (!k_) return Policy::managed_limit();
  const OrderTracker& tracker = observer_.tracker();
  const Bytes by_k = tracker.is_following() ? scheduler_.choice().window_bytes +
                                                  tracker.sizes().shared + tracker.transient_peak()
                                            : largest_need_ * static_cast<std::uint64_t>(*k_);
  return std::min(std::max(by_k, largest_need_), Policy::managed_limit());
}

std::vector<BufferId> WindowPolicy::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  const OrderTracker& tracker = observer_.tracker();
  std::vector<ResidentBuffer> resident = tracker.weigh(candidates, observer_.history());
  for (ResidentBuffer& buffer : resident) {
    if (buffer.next_use == kNeverUsedAgain || tracker.layer_of(buffer.id) == kNoLayer) continue;
    if (scheduler_.is_active() && !scheduler_.has(buffer.id)) buffer.next_use += kOutsideWindow;
  }
  return plan_eviction_or_all(resident, needed);
}

PolicyEngine::Learned WindowPolicy::learned() const {
  PolicyEngine::Learned learned = observer_.learned();
  learned.k = static_cast<int>(learned.layers_known ? scheduler_.choice().schedule.k : 0);
  learned.k_prime =
      static_cast<int>(learned.layers_known ? scheduler_.choice().schedule.k_prime : 0);
  return learned;
}

PolicyEngine::Outline WindowPolicy::outline() const noexcept {
  PolicyEngine::Outline outline = observer_.outline();
  if (outline.layers == 0) return outline;
  outline.k = static_cast<int>(scheduler_.choice().schedule.k);
  outline.k_prime = static_cast<int>(scheduler_.choice().schedule.k_prime);
  return outline;
}

}  // namespace superpipe
