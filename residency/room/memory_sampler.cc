#include "residency/room/memory_sampler.h"

#include <algorithm>

#include "policy/budget.h"
#include "residency/result.h"
#include "residency/tuning.h"

namespace superpipe {

bool MemorySampler::sample(Settling settling) noexcept {
  // Pages may come and go while this process's part is asked for: then the answers do not fit
  // together.
  const Bytes limit_before = parts_.ledger.limit();
  bool moved = sample_once();
  for (int i = 0; i < tuning::kSampleAttempts && last_ &&
                  parts_.passthrough.wants_own(options_.now(), settling);
       ++i) {
    const bool is_last = settling == Settling::kBeforeRefusal && i + 1 == tuning::kSampleAttempts;
    moved = settle(is_last ? Fit::kPagesAlone : Fit::kAll) || moved;
  }
  return moved || parts_.ledger.limit() != limit_before;
}

bool MemorySampler::sample_once() noexcept {
  last_.reset();
  if (!hold_pages_still()) {
    parts_.passthrough.put_off_sample(options_.now());
    return false;
  }
  const auto mark_before = parts_.passthrough.quiet_mark();
  const auto sample = parts_.passthrough.begin_sample();
  Result<DeviceMemory::Usage> usage = Status::kDeviceError;
  {
    const Unlocked unlocked(parts_.waits.mutex);
    usage = parts_.device.usage();
  }
  is_asking_ = false;
  parts_.waits.announce_to_waiters();
  const auto now = options_.now();
  if (!usage.ok()) {
    parts_.passthrough.give_up_sample(sample, now);
    return false;
  }
  ++samples_;
  last_ = {usage->used, parts_.ledger.pages(), parts_.ledger.page_changes(), mark_before,
           parts_.passthrough.quiet_mark()};
  const Bytes besides_pages = saturating_subtract(usage->used, parts_.ledger.pages());
  const Bytes before = parts_.passthrough.sampled();
  const bool moved = parts_.passthrough.end_sample(sample, besides_pages, now);
  parts_.ledger.note_sample(before, parts_.passthrough.sampled());
  if (parts_.passthrough.sampled() != before) on_change_();
  parts_.limit.note_device(usage->total, besides_pages, now);
  note_peak();
  parts_.limit.follow_passthrough();
  return moved;
}

// Finds out what of the device's memory is this process's. No page has to stand still for that,
// which takes long: the answer counts if none has come or gone between the samples before and
// behind it, and this process did nothing else either, or the device holds as much as before. With
// Fit::kPagesAlone it may have done something else: what hooks counted meanwhile is added, where a
// guess beside a neighbour that grows is off by up to 1 GiB.
// REQUIRES: last_.
bool MemorySampler::settle(Fit fit) noexcept {
  const Held before = *last_;
  parts_.passthrough.begin_own(options_.now());
  std::optional<Bytes> own;
  {
    const Unlocked unlocked(parts_.waits.mutex);
    own = parts_.device.own_usage();
  }
  const bool moved = sample_once();
  if (!own) {
    parts_.passthrough.miss_own();
    return moved;
  }
  if (!last_ || last_->page_changes != before.page_changes) return moved;
  const bool was_quiet = before.mark_before && last_->mark_behind == before.mark_before;
  if (fit == Fit::kAll && !was_quiet && last_->used != before.used) return moved;
  // An answer of less than the pages alone was not counted as the device counts.
  if (*own < before.pages) {
    parts_.passthrough.miss_own();
    return moved;
  }
  const Bytes besides_pages = saturating_subtract(last_->used, last_->pages);
  // The answer may have that or not. Too much rather than too little: what is taken for others'
  // now, no sample gives back.
  const Bytes meanwhile =
      last_->used == before.used ? Bytes{} : parts_.passthrough.counted_since_own();
  const bool settled =
      parts_.passthrough.settle(*own - before.pages + meanwhile, besides_pages, was_quiet);
  if (meanwhile > Bytes{}) parts_.passthrough.ask_own_soon();
  if (!settled) return moved;
  note_peak();
  parts_.limit.follow_settled();
  return true;
}

void MemorySampler::note_peak() noexcept { peak_ = std::max(peak_, parts_.passthrough.sampled()); }

// Gets the device's count for this thread alone, with no page coming or going. Threads that waited
// to change a page go first.
// @return false if that takes so long that a driver must be stuck, or the manager ends.
bool MemorySampler::hold_pages_still() noexcept {
  // Of the real time: a clock of a test may stand still meanwhile.
  const auto deadline = Clock::now() + std::min(options_.wait_limit, options_.sample_limit);
  const auto can_go_on = [&]() REQUIRES(manager_lock) {
    return !parts_.waits.are_over() && Clock::now() < deadline;
  };
  while ((is_asking_ || waiting_to_change_ > 0) && can_go_on()) {
    parts_.waits.sleep(tuning::kChangeLongestSleep);
  }
  if (is_asking_ || !can_go_on()) return false;
  is_asking_ = true;  // from here on no thread begins to change a page
  while (parts_.ledger.is_moving() && can_go_on()) {
    parts_.waits.sleep(tuning::kChangeLongestSleep);
  }
  if (!parts_.ledger.is_moving() && can_go_on()) return true;
  is_asking_ = false;
  parts_.waits.announce_to_waiters();
  return false;
}

bool MemorySampler::wait_until_answered() noexcept {
  const auto deadline = Clock::now() + options_.wait_limit;
  ++waiting_to_change_;
  while (is_asking_ && !parts_.waits.are_over() && Clock::now() < deadline) {
    parts_.waits.sleep(tuning::kChangeLongestSleep);
  }
  --waiting_to_change_;
  return !is_asking_ && !parts_.waits.are_over();
}

}  // namespace superpipe
