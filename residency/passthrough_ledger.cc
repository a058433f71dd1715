#include "residency/passthrough_ledger.h"

#include <algorithm>
#include <limits>

#include "policy/budget.h"

namespace superpipe {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

PassthroughLedger::PassthroughLedger(std::optional<Bytes> budget, Bytes headroom, Bytes block)
    : budget_(budget),
      headroom_(budget ? headroom : Bytes{}),
      block_(block),
      sample_above_((budget ? headroom : kMostRounding).count() / 2),
      most_growth_(budget ? budget->count() : kNoLimit) {}

void PassthroughLedger::set_budget(Bytes budget) noexcept {
  budget_ = budget;
  most_growth_.store(saturating_subtract(budget, sampled_).count(), std::memory_order_relaxed);
}

std::uint8_t PassthroughLedger::under_way() const noexcept {
  std::uint8_t changes = 0;
  for (const auto change :
       {PassthroughChange::kGrowth, PassthroughChange::kFree, PassthroughChange::kLateFree}) {
    const bool any = changes_under_way_[index_of(change)].load(std::memory_order_acquire) > 0;
    if (any) changes |= bit_of(change);
  }
  return changes;
}

PassthroughLedger::Sample PassthroughLedger::begin_sample() noexcept {
  // In this order: a change that has returned meanwhile is found among those that were made.
  const std::uint8_t going_on = under_way();
  const std::uint8_t made = changes_.exchange(0, std::memory_order_acq_rel);
  // An allocation is counted after the driver has made it, so the answer includes what is read
  // here. What is foreseen may not be in it, and counts on.
  return {grown_.load(std::memory_order_acquire), taken_.load(std::memory_order_acquire), made,
          going_on};
}

bool PassthroughLedger::end_sample(const Sample& sample, Bytes used, TimePoint now) noexcept {
  const Bytes before = sampled_;
  sampled_ = share_of(sample, used);
  baseline_ = used - sampled_;
  const Bytes grown_before{sample.grown + sample.taken};
  counted_ = std::min(counted_ + grown_before, sampled_);
  grown_.fetch_sub(sample.grown, std::memory_order_relaxed);
  taken_.fetch_sub(sample.taken, std::memory_order_relaxed);
  if (budget_) set_budget(*budget_);
  set_yielded(yielded_);
  sampled_at_ = now;
  const bool moved = sampled_ != before;
  const bool quiet = !moved && sample.changes == 0 && grown_before == Bytes{};
  interval_ = quiet ? std::min(interval_ * 2, kLongestInterval) : kShortestInterval;
  return moved || grown_before > Bytes{};
}

// How much of `used` this process holds: all that is above what others held before, within the
// bounds of what it can have taken and given back itself.
Bytes PassthroughLedger::share_of(const Sample& sample, Bytes used) noexcept {
  // Also what began after the sample and may be in the device's answer. In this order: a change or
  // allocation goes from the one to the other when the driver has made it.
  const std::uint8_t going_on = under_way();
  const Bytes in_flight{in_flight_.load(std::memory_order_acquire)};
  const std::uint8_t changes =
      sample.changes | sample.under_way | going_on | changes_.load(std::memory_order_acquire);
  const auto noted = [changes](PassthroughChange change) {
    return (changes & bit_of(change)) != 0;
  };

  const bool freed = noted(PassthroughChange::kFree);
  frees_late_ = frees_late_ || noted(PassthroughChange::kLateFree);
  const bool may_have_freed = frees_late_ || freed || was_freed_;
  was_freed_ = freed;
  const Bytes least = may_have_freed ? Bytes{} : counted_;

  const Bytes allocated = in_flight + grown();
  const Bytes uncounted = sampled_ - counted_;
  const Bytes rounding = saturating_subtract(uncounted, noted_);
  Bytes slack;
  if (noted(PassthroughChange::kGrowth)) {
    slack = saturating_subtract(kMostUncounted, uncounted);
  } else if (allocated > Bytes{}) {
    slack = saturating_subtract(kMostRounding, rounding);
  }
  const Bytes above = saturating_subtract(used, baseline_);
  const Bytes share = std::min(std::clamp(above, least, sampled_ + allocated + slack), used);
  if (noted(PassthroughChange::kGrowth)) {
    noted_ += saturating_subtract(share, sampled_ + allocated);
  }
  noted_ = std::min(noted_, saturating_subtract(share, counted_));
  return share;
}

void PassthroughLedger::give_up_sample(const Sample& sample, TimePoint now) noexcept {
  changes_.fetch_or(sample.changes, std::memory_order_acq_rel);
  put_off_sample(now);
}

}  // namespace superpipe
