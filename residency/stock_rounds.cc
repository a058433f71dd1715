#include "residency/stock_rounds.h"

#include <algorithm>
#include <new>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {

bool StockRounds::run() noexcept {
  const auto size = core_.host.lacking();
  if (!size) {
    if (digests_.run()) return true;
    unpin();
    return false;
  }
  bool stocked = false;
  {
    const Unlocked unlocked(core_.mutex);
    stocked = core_.host.stock(*size);
  }
  // A thread that lacked another slab meanwhile has woken nothing.
  return stocked || core_.host.lacking().has_value();
}

std::chrono::nanoseconds StockRounds::longest_rest() const {
  constexpr std::chrono::hours kUntilWoken{1};
  std::chrono::nanoseconds rest = digests_.rest().value_or(kUntilWoken);
  if (const auto expiry = core_.host.next_expiry()) {
    const auto left = std::max(*expiry, next_look_) - core_.now();
    rest = std::min(rest, std::max<std::chrono::nanoseconds>(left, tuning::kUnpinShortestRest));
  }
  return rest;
}

// Unpins one slab that nothing has asked for, if the device is idle.
void StockRounds::unpin() noexcept {
  const auto begin = core_.now();
  const auto expiry = core_.host.next_expiry();
  if (!expiry || *expiry > begin || next_look_ > begin) return;
  next_look_ = begin + tuning::kUnpinLookInterval;
  if (!is_device_idle()) return;
  const auto asked = core_.now();
  bool unpinned = false;
  {
    const Unlocked unlocked(core_.mutex);
    unpinned = core_.host.unpin_expired();
  }
  const auto end = core_.now();
  if (unpinned) next_look_ = end + tuning::kUnpinRestTimes * (end - asked);
}

// Whether all that was submitted is known to have completed, and nothing was since the last look.
// Marks the ends of streams that are not marked yet: the next look finds whether they have come.
bool StockRounds::is_device_idle() noexcept try {
  if (has_work()) return false;
  const Submitted now = submitted();
  if (std::exchange(seen_, now) != now) return false;
  (void)completion_.advance();
  bool is_idle = core_.streams.is_all_over();
  if (is_idle) {
    const Unlocked unlocked(core_.mutex);
    is_idle = core_.transfers.is_idle();
  }
  // The mutex was open.
  return is_idle && !has_work() && submitted() == now;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace superpipe
