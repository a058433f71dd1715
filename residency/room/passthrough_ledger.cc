#include "residency/room/passthrough_ledger.h"

#include <algorithm>
#include <limits>

#include "policy/budget.h"
#include "residency/tuning.h"

namespace superpipe {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

PassthroughLedger::PassthroughLedger(std::optional<Bytes> budget, Bytes headroom, Bytes block)
    : budget_(budget),
      headroom_(budget ? headroom : Bytes{}),
      block_(block),
      sample_above_((budget ? headroom : tuning::kMostRounding).count() / 2),
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
  const Bytes share = share_of(sample, used);
  const Bytes grown_before{sample.grown + sample.taken};
  // What was taken for others' may be this process's, if it did anything.
  const bool others_moved = used - share != baseline_;
  const bool may_be_own = (sample.changes | sample.under_way) != 0 || grown_before > Bytes{};
  is_guessed_ = is_guessed_ || share != before + grown_before || (others_moved && may_be_own);
  counted_ += grown_before;
  counted_ever_ += grown_before;
  grown_.fetch_sub(sample.grown, std::memory_order_relaxed);
  taken_.fetch_sub(sample.taken, std::memory_order_relaxed);
  note_pool_growth(sample, share);
  set_share(share, used);
  sampled_at_ = now;
  was_sampled_ = true;
  const bool moved = sampled_ != before;
  const bool quiet = !moved && sample.changes == 0 && grown_before == Bytes{};
  interval_ = quiet ? std::min(interval_ * 2, tuning::kSampleLongestInterval)
                    : tuning::kSampleShortestInterval;
  return moved || grown_before > Bytes{};
}

// A pool takes more of the device at a time than the allocation for which it had none left. What
// was allocated before that one fitted what the pool had. What an allocation that has not returned
// has taken is no pool's, nor what a graph or loaded code has.
void PassthroughLedger::note_pool_growth(const Sample& sample, Bytes share) noexcept {
  const std::uint8_t changes =
      sample.changes | sample.under_way | under_way() | changes_.load(std::memory_order_acquire);
  const bool may_be_of_others = sample.taken > 0 ||
                                (changes & bit_of(PassthroughChange::kGrowth)) != 0 ||
                                in_flight_.load(std::memory_order_acquire) > 0;
  const Bytes counted{sample.grown};
  const Bytes beyond = saturating_subtract(share, sampled_ + counted);
  if (!budget_ || may_be_of_others || counted == Bytes{} || beyond == Bytes{}) return;
  const Bytes most{budget_->count() / tuning::kPoolPartOfBudget};
  pool_growth_ = std::max(pool_growth_, std::min(beyond + std::min(counted, block_), most));
}

void PassthroughLedger::set_share(Bytes share, Bytes used) noexcept {
  sampled_ = share;
  baseline_ = used - share;
  counted_ = std::min(counted_, share);
  if (budget_) set_budget(*budget_);
  set_yielded(yielded_);
}

std::optional<std::uint64_t> PassthroughLedger::quiet_mark() const noexcept {
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  const bool is_quiet = under_way() == 0 && in_flight_.load(std::memory_order_acquire) == 0 &&
                        foreseen_.load(std::memory_order_acquire) == 0;
  return is_quiet ? std::optional(begun) : std::nullopt;
}

bool PassthroughLedger::settle(Bytes own, Bytes used, bool was_quiet) noexcept {
  if (!own_baseline_) return false;
  const Bytes before = sampled_;
  set_share(std::min(saturating_subtract(own, *own_baseline_), used), used);
  noted_ = Bytes{};
  known_ = sampled_ - counted_;
  is_guessed_ = !was_quiet;
  misses_ = 0;
  // The source of `own` may round to other blocks.
  const Bytes off = std::max(before, sampled_) - std::min(before, sampled_);
  if (off > block_ * tuning::kGuessMostBlocksOff) {
    own_interval_ = tuning::kOwnShortestInterval;
  } else if (was_due_) {
    own_interval_ = std::min(own_interval_ * 2, tuning::kOwnLongestInterval);
  }
  return sampled_ != before;
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
  const Bytes uncounted = saturating_subtract(sampled_ - counted_, known_);
  const Bytes rounding = saturating_subtract(uncounted, noted_);
  Bytes slack;
  if (noted(PassthroughChange::kGrowth)) {
    slack = saturating_subtract(tuning::kMostUncounted, uncounted);
  } else if (allocated > Bytes{}) {
    slack = saturating_subtract(tuning::kMostRounding, rounding);
  }
  const Bytes above = saturating_subtract(used, baseline_);
  const Bytes share = std::min(std::clamp(above, least, sampled_ + allocated + slack), used);
  if (noted(PassthroughChange::kGrowth)) {
    noted_ += saturating_subtract(share, sampled_ + allocated);
  }
  known_ = std::min(known_, saturating_subtract(share, counted_));
  noted_ = std::min(noted_, saturating_subtract(share, counted_ + known_));
  return share;
}

void PassthroughLedger::give_up_sample(const Sample& sample, TimePoint now) noexcept {
  changes_.fetch_or(sample.changes, std::memory_order_acq_rel);
  put_off_sample(now);
}

}  // namespace superpipe
