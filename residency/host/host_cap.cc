#include "residency/host/host_cap.h"

#include <algorithm>

#include "residency/tuning.h"

namespace superpipe {

bool HostCap::reserve(Bytes size) {
  if (reserve_within(size, std::nullopt)) return true;
  const std::optional<Supply> supply = supply_for(size);
  if (!supply) return false;
  if (reserve_within(size, supply)) return true;
  host_->note_in_vain(size);
  return false;
}

// As reserve(), under the caps as they are, or as they would be if they were made of `supply`.
// Where the higher ones are needed, they rise.
bool HostCap::reserve_within(Bytes size, const std::optional<Supply>& supply) {
  Bytes limit;
  std::optional<HostCaps> caps;
  {
    const std::lock_guard lock(mutex_);
    ledger_refused_ = false;
    limit = limit_;
    if (supply) {
      const Bytes own = std::min(supply->pinned, reserved_ + size);
      limit = std::max(limit, host_store_limit(supply->host, allowed_, own));
      caps = host_caps(supply->host, own);
    }
    if (size > limit || reserved_ + slack_ > limit - size) return false;
    reserved_ += size;
  }
  // The ledger may read a file. No thread that needs a slab should wait for that.
  const bool is_entered = ledger_ == nullptr || ledger_->take(size, caps);
  const std::lock_guard lock(mutex_);
  if (is_entered) {
    most_reserved_ = std::max(most_reserved_, reserved_);
    if (supply) {
      limit_ = std::max(limit_, std::min(limit, reserved_ + slack_ + tuning::kHostCapRise));
    }
  } else {
    reserved_ -= size;
    ledger_refused_ = true;
  }
  return is_entered;
}

// What is pinned or unpinned while the host is asked must not count twice.
std::optional<HostCap::Supply> HostCap::supply_for(Bytes size) noexcept {
  if (host_ == nullptr) return std::nullopt;
  const Bytes before = surely_pinned();
  const std::optional<HostMemory> seen = host_->look(size);
  if (!seen) return std::nullopt;
  return Supply{*seen, std::min(before, surely_pinned())};
}

Bytes HostCap::surely_pinned() const {
  const std::lock_guard lock(mutex_);
  return saturating_subtract(pinned_, changing_);
}

void HostCap::unreserve(Bytes size) {
  {
    const std::lock_guard lock(mutex_);
    reserved_ -= size;
  }
  if (ledger_ != nullptr) ledger_->give_back(size);
}

Bytes HostCap::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

Bytes HostCap::reachable() const {
  const std::optional<Bytes> room = ledger_ != nullptr ? ledger_->room() : std::nullopt;
  const std::lock_guard lock(mutex_);
  const Bytes limit = limit_ - slack_;
  return room ? std::min(limit, reserved_ + *room) : limit;
}

std::string HostCap::words_of_others() const {
  const auto refusal = ledger_ != nullptr ? ledger_->last_refusal() : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!ledger_refused_ || !refusal || refusal->others == Bytes{}) return "";
  return "; your other processes have reserved " + std::to_string(refusal->others.count() >> 20) +
         " MiB of the " + std::to_string(refusal->cap.count() >> 20) + " MiB that all share";
}

bool HostCap::claim_slack(Bytes slack) {
  if (slack == Bytes{}) return true;
  const std::lock_guard lock(mutex_);
  const bool has_room =
      (slack_ + slack) * tuning::kSlackPartOfCap <= limit_ && reserved_ + slack_ + slack <= limit_;
  if (has_room) slack_ += slack;
  return has_room;
}

void HostCap::return_slack(Bytes slack) {
  const std::lock_guard lock(mutex_);
  slack_ -= slack;
}

// Counts `size` as pinned where it fits beside `taken`. REQUIRES: the lock is held.
bool HostCap::count_pin(Bytes size, Bytes taken) {
  if (size > limit_ || taken > limit_ - size) return false;
  pinned_ += size;
  changing_ += size;
  return true;
}

bool HostCap::begin_pin(Bytes size) {
  const std::lock_guard lock(mutex_);
  return count_pin(size, pinned_);
}

bool HostCap::begin_pin_ahead(Bytes size, Bytes idle) {
  const std::lock_guard lock(mutex_);
  return count_pin(size, std::max(pinned_, reserved_ + slack_ + idle));
}

void HostCap::end_pin(Bytes size, bool pinned) {
  const std::lock_guard lock(mutex_);
  changing_ -= size;
  if (!pinned) pinned_ -= size;
}

void HostCap::begin_unpin(Bytes size) {
  const std::lock_guard lock(mutex_);
  changing_ += size;
}

void HostCap::end_unpin(Bytes size, bool unpinned) {
  const std::lock_guard lock(mutex_);
  changing_ -= size;
  if (unpinned) pinned_ -= size;
}

Bytes HostCap::pinned() const {
  const std::lock_guard lock(mutex_);
  return pinned_;
}

bool HostCap::is_beyond_use(Bytes size) const {
  const std::lock_guard lock(mutex_);
  return pinned_ + size > tuning::kPinnedTimesReserved * most_reserved_;
}

Bytes HostCap::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

void HostCap::lower() noexcept {
  const std::lock_guard lock(mutex_);
  limit_ = std::min(
      limit_, std::max(first_limit_, std::max(reserved_ + slack_, pinned_) + tuning::kHostCapRise));
}

}  // namespace superpipe
