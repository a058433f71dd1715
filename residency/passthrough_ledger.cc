#include "residency/passthrough_ledger.h"

#include <algorithm>
#include <limits>

namespace superpipe {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

PassthroughLedger::PassthroughLedger(std::optional<Bytes> budget, Bytes headroom, Bytes block)
    : budget_(budget),
      headroom_(budget ? headroom : Bytes{}),
      block_(block),
      sample_above_(headroom.count() / 2),
      most_growth_(budget ? budget->count() : kNoLimit) {}

PassthroughLedger::Sample PassthroughLedger::begin_sample() noexcept {
  // An allocation is counted after the driver has made it, so the answer includes what is read
  // here.
  const bool changed = changed_.exchange(false, std::memory_order_acq_rel);
  return {grown_.load(std::memory_order_acquire), changed};
}

bool PassthroughLedger::end_sample(const Sample& sample, Bytes used, TimePoint now) noexcept {
  const Bytes before = sampled_;
  const Bytes expected = baseline_ + sampled_ + Bytes{sample.grown};
  if (used > expected + kMostUncounted) {
    baseline_ += used - expected;  // another process has taken it
  } else if (used < baseline_) {
    baseline_ = used;  // another process has given memory back
  }
  sampled_ = used - baseline_;
  counted_ = std::min(counted_ + Bytes{sample.grown}, sampled_);
  grown_.fetch_sub(sample.grown, std::memory_order_relaxed);
  if (budget_) {
    const std::uint64_t budget = budget_->count();
    most_growth_.store(budget - std::min(budget, sampled_.count()), std::memory_order_relaxed);
  }
  sampled_at_ = now;
  const bool moved = sampled_ != before;
  const bool quiet = !moved && !sample.changed && sample.grown == 0;
  interval_ = quiet ? std::min(interval_ * 2, kLongestInterval) : kShortestInterval;
  return moved || sample.grown != 0;
}

void PassthroughLedger::give_up_sample(const Sample& sample, TimePoint now) noexcept {
  if (sample.changed) (void)note_change();
  sampled_at_ = now;
}

}  // namespace superpipe
