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

PassthroughLedger::Sample PassthroughLedger::begin_sample() noexcept {
  // An allocation is counted after the driver has made it, so the answer includes what is read
  // here.
  const std::uint8_t changes = changes_.exchange(0, std::memory_order_acq_rel);
  return {grown_.load(std::memory_order_acquire), changes};
}

bool PassthroughLedger::end_sample(const Sample& sample, Bytes used, TimePoint now) noexcept {
  const Bytes before = sampled_;
  sampled_ = share_of(sample, used);
  baseline_ = used - sampled_;
  counted_ = std::min(counted_ + Bytes{sample.grown}, sampled_);
  grown_.fetch_sub(sample.grown, std::memory_order_relaxed);
  if (budget_) {
    const std::uint64_t budget = budget_->count();
    most_growth_.store(budget - std::min(budget, sampled_.count()), std::memory_order_relaxed);
  }
  sampled_at_ = now;
  const bool moved = sampled_ != before;
  const bool quiet = !moved && sample.changes == 0 && sample.grown == 0;
  interval_ = quiet ? std::min(interval_ * 2, kLongestInterval) : kShortestInterval;
  return moved || sample.grown != 0;
}

// How much of `used` this process holds: all that is above what others held before, within the
// bounds of what it can have taken and given back itself.
Bytes PassthroughLedger::share_of(const Sample& sample, Bytes used) noexcept {
  // In this order: an allocation goes from the one to the other once the driver has made it.
  const Bytes in_flight{in_flight_.load(std::memory_order_acquire)};
  const Bytes allocated = in_flight + grown();
  Bytes most = sampled_ + allocated;
  if (allocated > Bytes{}) most += kMostRounding;
  // What was noted before the last sample may have come after it: a first launch loads its code.
  const bool noted = sample.has(PassthroughChange::kGrowth);
  if (noted || may_have_grown_) most += kMostNoted;
  may_have_grown_ = noted;

  const bool frees_late = sample.has(PassthroughChange::kLateFree);
  const bool freed = frees_late || sample.has(PassthroughChange::kFree);
  frees_late_ = frees_late_ || frees_late;
  may_shrink_ = may_shrink_ || freed;
  const Bytes least = may_shrink_ ? Bytes{} : sampled_;

  const Bytes above = saturating_subtract(used, baseline_);
  const Bytes share = std::min(std::clamp(above, least, most), used);
  // A free that was noted since the last sample may still be on its way.
  if (share < sampled_ && !freed) may_shrink_ = frees_late_;
  return share;
}

void PassthroughLedger::give_up_sample(const Sample& sample, TimePoint now) noexcept {
  changes_.fetch_or(sample.changes, std::memory_order_acq_rel);
  sampled_at_ = now;
}

}  // namespace superpipe
