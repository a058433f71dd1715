#include "residency/room/page_limit.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "policy/budget.h"

namespace superpipe {

namespace {

/// Far above any device, far below an overflow.
constexpr Bytes kUnlimited{std::uint64_t{1} << 60};

}  // namespace

void PageLimit::refresh() {
  if (const Bytes now_reserved = parts_.passthrough.reserved(); now_reserved != reserved_) {
    reserved_ = now_reserved;
    parts_.policy.on_passthrough_bytes(reserved_);
  }
  const Bytes before = parts_.ledger.limit();
  parts_.ledger.set_limit(std::min(parts_.policy.managed_limit(), kUnlimited),
                          parts_.policy.limit_is_hard());
  // Pass-through memory has grown: what makes room for it needs host memory from now on.
  if (moves_ && parts_.ledger.limit() < before) (void)can_shrink_to(parts_.ledger.limit());
}

void PageLimit::tell_new_policy(PolicyEngine& policy) const {
  if (budget_was_set_) policy.set_budget(*parts_.passthrough.budget());
  policy.on_passthrough_bytes(reserved_);
}

BudgetAnswer PageLimit::set_budget(Bytes budget) noexcept {
  if (options_.policy.k) return BudgetAnswer::kCountsLayers;
  PassthroughLedger& passthrough = parts_.passthrough;
  const std::optional<Bytes> before = passthrough.budget();
  if (!moves_ || !before) return BudgetAnswer::kNothingMoves;
  if (budget < passthrough.bytes() + passthrough.headroom() + granule_) {
    return BudgetAnswer::kTooSmall;
  }
  passthrough.set_budget(budget);
  // What is foreseen may change it at any time.
  const Bytes allowed = passthrough.allowed();
  passthrough.set_yielded(pressure_.yielded(allowed));
  if (budget < *before && !can_shrink_to(saturating_subtract(allowed, passthrough.yielded()))) {
    passthrough.set_budget(*before);
    yield_what_pressure_says();
    return BudgetAnswer::kHostMemoryShort;
  }
  parts_.policy.set_budget(budget);
  budget_was_set_ = true;
  if (budget != *before) ++budget_changes_;
  refresh();
  lowered_ = lowered_ || !parts_.ledger.is_within_limit();
  return BudgetAnswer::kChanged;
}

bool PageLimit::can_shrink_to(Bytes limit) noexcept {
  if (!parts_.backing.has_begun() && parts_.ledger.live() <= limit) return true;
  return parts_.backing.shrink_to(limit);
}

bool PageLimit::claim(Bytes bytes) noexcept {
  const bool forgoes = parts_.passthrough.forgo_pool_growth();
  if (!pressure_.claim(bytes) && !forgoes) return false;
  const Bytes before = parts_.ledger.limit();
  yield_what_pressure_says();
  refresh();
  return parts_.ledger.limit() > before;
}

void PageLimit::note_device(Bytes total, Bytes besides_pages,
                            std::chrono::steady_clock::time_point now) noexcept {
  if (!moves_ || !parts_.passthrough.budget()) return;
  const DevicePressure before = pressure_;
  const bool shifted = pressure_.note(total, besides_pages, parts_.passthrough.allowed(), now);
  if (shifted || parts_.passthrough.yielded() > Bytes{}) yield(before, shifted);
}

// Has the limit follow the room that other processes leave, which was `before`. Where host memory
// is short of what would have to leave, pages stay, and the driver will say when the device is
// full.
void PageLimit::yield(const DevicePressure& before, bool shifted) noexcept {
  const Bytes allowed = parts_.passthrough.allowed();
  const Bytes yielded = pressure_.yielded(allowed);
  if (yielded > parts_.passthrough.yielded() && !can_shrink_to(allowed - yielded)) {
    pressure_ = before;
    parts_.warnings.once("unyielding", [] {
      return std::string(
          "other processes need device memory, but the host store is too small for what would have "
          "to leave the device (SUPERPIPE_HOST_MEM, memory available, cgroup limit)");
    });
    return;
  }
  parts_.passthrough.set_yielded(yielded);
  if (shifted) parts_.passthrough.sample_again_soon();
}

void PageLimit::follow_passthrough() noexcept {
  const Bytes limit_before = parts_.ledger.limit();
  refresh();
  // What others take can look like pass-through memory of this process, so both count.
  if (parts_.passthrough.budget() && parts_.ledger.limit() < limit_before) {
    lowered_ = lowered_ || !parts_.ledger.is_within_limit();
  }
}

void PageLimit::follow_settled() noexcept {
  yield_what_pressure_says();
  parts_.passthrough.sample_again_soon();
  follow_passthrough();
}

}  // namespace superpipe
