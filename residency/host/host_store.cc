#include "residency/host/host_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "residency/host/slab_memory.h"
#include "residency/tuning.h"

namespace superpipe {

HostStore::HostStore(DeviceMemory& device, EventPool& events, const HostLimit& limit,
                     std::chrono::milliseconds wait_limit, HostLedger* ledger,
                     std::function<Clock::time_point()> now)
    : device_(device),
      events_(events),
      wait_limit_(wait_limit),
      now_(std::move(now)),
      cap_(limit, ledger) {}

Result<Slab> HostStore::acquire(Bytes size, bool zeroed, User user) {
  Slabs node;
  Wholes entry;
  try {
    node.emplace_back();
    entry.emplace(nullptr, Whole{size});
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  Found taken = take_idle_of(size, user);
  if (!taken.idle.slab) {
    std::unique_lock lock(mutex_);
    // What is pinned for another's eviction is no sooner there than another one.
    const bool was_stocking = stocking_ == size && !stocks_expected_;
    if (was_stocking) {
      returned_.wait_for(lock, wait_limit_, [&] { return stocking_ != size; });
    }
    lock.unlock();
    if (was_stocking) taken = take_idle_of(size, user);
  }
  Idle& found = taken.idle;
  Bytes whole = size;
  if (!found.slab) {
    const Result<Bytes> counted = make_room_for_new(size, taken);
    if (!counted.ok()) return counted.status();
    whole = *counted;
  }
  note_wanted(size, found, whole > size || found.has_slack || taken.is_lent);
  if (!found.slab || found.is_new) note_new(size, user, !found.is_expected);
  if (!found.slab) {
    const Result<Slab> pinned = pin(whole);
    if (!pinned.ok()) {
      cap_.return_slack(whole - size);
      return pinned.status();
    }
    found.slab = *pinned;
    if (whole > size) note_whole(*pinned, !taken.is_beyond_use, std::move(entry));
  } else {
    if (taken.is_lent) note_whole(found.slab, false, std::move(entry));
    // A stocked one reads as zero already, but is not told apart.
    if (zeroed) std::memset(found.slab.data, 0, size.count());
  }
  found.slab.size = size;
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.end(), node);
  return found.slab;
}

// Whether an idle slab is too small for `size`, but not by much.
bool HostStore::is_outgrown(Bytes slab, Bytes size) {
  return slab < size && size - slab <= Bytes{size.count() / tuning::kSlabSlackPart};
}

// Whether an idle slab serves `size`, where there is room for the slack that it then has.
bool HostStore::serves(const Idle& entry, Bytes size) {
  const Bytes slab = entry.slab.size;
  if (slab == size) return true;
  return entry.has_slack && slab > size &&
         slab - size <= Bytes{size.count() / tuning::kSlabSlackPart};
}

// Allocates nothing: `entry` has one element, which becomes the slab's.
void HostStore::note_whole(const Slab& slab, bool has_slack, Wholes entry) noexcept {
  Wholes::node_type node = entry.extract(entry.begin());
  node.key() = slab.data;
  node.mapped() = {slab.size, has_slack};
  const std::lock_guard lock(mutex_);
  whole_.insert(std::move(node));
}

// Another slab may be at its address as soon as it is unmapped.
void HostStore::forget_whole(const Slab& slab) noexcept {
  const std::lock_guard lock(mutex_);
  whole_.erase(slab.data);
}

// Of eight sizes from each power of two to the next, the smallest that is not below `size`.
Bytes HostStore::common_size(Bytes size) {
  const Bytes step{std::bit_floor(size.count()) / tuning::kSlabSlackPart};
  return round_up(size, std::max(step, kMemoryPage));
}

// Counts a slab of `size` as pinned, with slack if it should have some and there is room for that;
// makes room as make_room() does, perhaps twice. @return what is to be pinned; otherwise as
// make_room().
Result<Bytes> HostStore::make_room_for_new(Bytes size, const Found& found) {
  Bytes slack;
  if (found.is_beyond_use) {
    slack = common_size(size) - size;
  } else if (found.is_grown) {
    slack =
        Bytes{size.count() / tuning::kSlabSlackPart / kMemoryPage.count() * kMemoryPage.count()};
  }
  if (slack > Bytes{} && cap_.claim_slack(slack)) {
    if (make_room(size + slack) == Status::kOk) return size + slack;
    cap_.return_slack(slack);
  }
  if (const Status status = make_room(size); status != Status::kOk) return status;
  return size;
}

// An idle slab for that size whose transfers have completed, or none.
HostStore::Found HostStore::take_idle_of(Bytes size, User user) {
  // Candidates leave the list while their events are asked for, so that two
  // threads never get the same one.
  const bool may_take_expected = [&] {
    const std::lock_guard lock(mutex_);
    return user == User::kEviction || !expects_;
  }();
  auto idle = take_idle();
  Found found;
  if (!idle) return found;
  std::size_t outgrown = 0;
  for (auto it = idle->rbegin(); it != idle->rend(); ++it) {
    // One with slack shows that sizes have grown before.
    if (is_outgrown(it->slab.size, size)) {
      outgrown += it->has_slack ? tuning::kSlabFewestOutgrown : 1;
    }
    if (!serves(*it, size) || (it->is_expected && !may_take_expected)) continue;
    if (!is_over(*it) || !cap_.claim_slack(it->slab.size - size)) continue;
    found.idle = {it->slab, {}, it->since, it->is_new, it->is_expected, it->has_slack};
    idle->erase(std::next(it).base());
    break;
  }
  found.is_grown = outgrown >= tuning::kSlabFewestOutgrown;
  found.is_beyond_use = !found.idle.slab && cap_.is_beyond_use(size);
  if (found.is_beyond_use) {
    if (const auto lent = lent_of(*idle, size); lent != idle->end()) {
      found.idle = {lent->slab, {}, lent->since, lent->is_new, false, lent->has_slack};
      found.is_lent = !lent->has_slack;
      idle->erase(lent);
    }
  }
  put_idle(std::move(*idle));
  return found;
}

// The smallest idle slab that can be lent to `size`, its slack claimed; the end: there is none.
HostStore::Slabs::iterator HostStore::lent_of(Slabs& idle, Bytes size) {
  auto best = idle.end();
  for (auto it = idle.begin(); it != idle.end(); ++it) {
    const Bytes slab = it->slab.size;
    const Bytes slack{size.count() / tuning::kSlabSlackPart};
    if (it->is_expected || slab <= size || slab - size > slack) continue;
    if (best != idle.end() && slab >= best->slab.size) continue;
    if (is_over(*it)) best = it;
  }
  return best != idle.end() && cap_.claim_slack(best->slab.size - size) ? best : idle.end();
}

void HostStore::expect(std::span<const Bytes> sizes) {
  const std::lock_guard lock(mutex_);
  expects_ = !sizes.empty();
  std::map<Bytes, std::size_t> counts;
  for (const Bytes size : sizes) expected_.push_back({size, ++counts[size]});
  pinned_for_evictions_ = counts;  // so that counting on allocates nothing
  for (auto& [size, count] : pinned_for_evictions_) count = 0;
}

void HostStore::stop_expecting() noexcept {
  const std::lock_guard lock(mutex_);
  expects_ = false;
  next_expected_ = expected_.size();
  expected_until_ = now_();
  is_watched_ = false;
  if (!idle_.empty() || taken_) note_expiry(expected_until_ + patience_.length());
}

std::vector<Bytes> HostStore::needed_for_evictions() const {
  const std::lock_guard lock(mutex_);
  return noted_;
}

// An eviction needs a slab that no earlier user has given back.
void HostStore::note_new(Bytes size, User user, bool counts) noexcept {
  if (user != User::kEviction) return;
  const std::lock_guard lock(mutex_);
  try {
    if (noted_.size() < kMostNoted) noted_.push_back(size);
  } catch (const std::bad_alloc&) {
    // It is for a later run only.
  }
  if (counts) count_for_eviction(size);
}

void HostStore::count_for_eviction(Bytes size) noexcept {
  const auto count = pinned_for_evictions_.find(size);
  if (count != pinned_for_evictions_.end()) ++count->second;
  while (next_expected_ < expected_.size()) {
    const Expected& next = expected_[next_expected_];
    if (pinned_for_evictions_.at(next.size) < next.ordinal) break;
    ++next_expected_;
  }
}

// Maps and pins a slab that is counted as pinned and changing already, and uncounts it if that
// fails.
Result<Slab> HostStore::pin(Bytes size) noexcept {
  std::byte* const data = map_slab_memory(size);
  Status status = Status::kOutOfHostMemory;
  try {
    if (data != nullptr) status = device_.pin(data, size);
  } catch (const std::bad_alloc&) {
    // It could not even say why it was refused.
  }
  if (status != Status::kOk && data != nullptr) unmap_slab_memory(data, size);
  cap_.end_pin(size, status == Status::kOk);
  if (status != Status::kOk) return status;
  return Slab{data, size};
}

// Remembers that a slab of `size` was acquired, `found` among the idle ones if it has a slab, and
// whether another one should be stocked: not of a size that grows.
void HostStore::note_wanted(Bytes size, const Idle& found, bool grows) noexcept {
  const Clock::time_point now = now_();
  const std::lock_guard lock(mutex_);
  if (!found.slab) {
    patience_.note_missing(size, now);
  } else if (!found.is_expected) {
    patience_.note_asked_for(now - found.since);
  }
  if (!grows && std::ranges::find(lately_, size) != lately_.end()) lacking_ = size;
  lately_[next_] = size;
  next_ = (next_ + 1) % lately_.size();
}

std::optional<Bytes> HostStore::lacking() const {
  const std::lock_guard lock(mutex_);
  if (may_stock_ && next_expected_ < expected_.size()) return expected_[next_expected_].size;
  return lacking_;
}

bool HostStore::has_stock(Bytes size) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      idle_, [size](const Idle& entry) { return entry.is_new && entry.slab.size == size; });
}

bool HostStore::stock(Bytes size) noexcept {
  bool is_expected = false;
  {
    const std::lock_guard lock(mutex_);
    is_expected = next_expected_ < expected_.size() && expected_[next_expected_].size == size;
    if (!is_expected && lacking_ == size) lacking_.reset();
  }
  Slabs node;
  try {
    node.emplace_back();
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!begin_stocking(size, is_expected)) return false;
  const Result<Slab> slab = pin(size);
  const std::lock_guard lock(mutex_);
  stocking_.reset();
  stocks_expected_ = false;
  returned_.notify_all();
  // Where the device refuses a pin, the memory that is left is for what needs it.
  may_stock_ = slab.ok();
  if (!slab.ok()) return false;
  node.front().slab = *slab;
  node.front().since = now_();
  node.front().is_new = true;
  node.front().is_expected = is_expected;
  if (is_expected) count_for_eviction(size);
  note_expiry(expiry_of(node.front(), terms()));
  idle_.splice(idle_.begin(), node);
  return true;
}

// Counts `size` as pinned, unless a slab of it is idle, or the stock would take too much. Idle
// slabs of sizes that nothing asks for, of which loading a model may leave many, are not in stock.
bool HostStore::begin_stocking(Bytes size, bool is_expected) {
  auto idle = take_idle();
  if (!idle) return false;
  Bytes idle_bytes;
  for (const Idle& entry : *idle) idle_bytes += entry.slab.size;
  const auto counted = [&] {
    const std::lock_guard lock(mutex_);
    Bytes stocked;
    bool has_one = false;
    for (const Idle& entry : *idle) {
      if (entry.is_expected && expects_) continue;  // in stock for certain evictions alone
      has_one = has_one || entry.slab.size == size;
      if (std::ranges::find(lately_, entry.slab.size) != lately_.end()) stocked += entry.slab.size;
    }
    const bool is_enough =
        has_one || (stocked + size) * tuning::kStockPartOfUse > cap_.pinned() - idle_bytes;
    if (!may_stock_ || (is_enough && !is_expected)) return false;
    if (!cap_.begin_pin_ahead(size, idle_bytes)) {
      // Nor will there be room for the others.
      if (is_expected) next_expected_ = expected_.size();
      return false;
    }
    stocking_ = size;
    stocks_expected_ = is_expected;
    return true;
  };
  const bool begun = counted();
  put_idle(std::move(*idle));
  return begun;
}

void HostStore::release(Slab slab, std::vector<EventRef> after) noexcept {
  if (!slab) return;
  const std::lock_guard lock(mutex_);
  idle_.splice(idle_.end(), spare_, spare_.begin());
  const bool has_slack = make_whole(slab);
  idle_.back() = {slab, std::move(after), now_()};
  idle_.back().has_slack = has_slack;
  note_expiry(idle_.back().since + patience_.length());
}

// Gives a slab that is in no use any more its slack back, which is as idle as the rest of it.
// @return whether it was pinned with any.
bool HostStore::make_whole(Slab& slab) noexcept {
  const auto known = whole_.find(slab.data);
  if (known == whole_.end()) return false;
  cap_.return_slack(known->second.size - slab.size);
  slab.size = known->second.size;
  if (known->second.has_slack) return true;
  whole_.erase(known);
  return false;
}

void HostStore::keep_untracked(Slab slab) noexcept {
  const std::lock_guard lock(mutex_);
  const bool has_slack = make_whole(slab);
  untracked_.splice(untracked_.end(), spare_, spare_.begin());
  untracked_.back() = {slab, {}, now_()};
  untracked_.back().has_slack = has_slack;
}

void HostStore::release_untracked() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Idle& entry : untracked_) note_expiry(entry.since + patience_.length());
  idle_.splice(idle_.end(), untracked_);
}

void HostStore::trim() { destroy(take_complete(~std::size_t{0})); }

HostStore::Terms HostStore::terms() const {
  return {now_(), patience_.length(), expects_, expected_until_};
}

// Slabs that certain evictions alone may have wait for these, however long they take to come.
HostStore::Clock::time_point HostStore::expiry_of(const Idle& entry, const Terms& terms) {
  if (entry.is_expected && terms.expects) return terms.now + tuning::kSlabLongestIdle;
  const Clock::time_point since =
      entry.is_expected ? std::max(entry.since, terms.expected_until) : entry.since;
  return since + terms.patience;
}

// A slab that is idle from now on expires at that time.
void HostStore::note_expiry(Clock::time_point expiry) noexcept {
  earliest_ = earliest_ ? std::min(*earliest_, expiry) : expiry;
}

std::optional<HostStore::Clock::time_point> HostStore::next_expiry() {
  const std::lock_guard lock(mutex_);
  std::optional<Clock::time_point> next = earliest_;
  if (taken_ && earliest_taken_) next = next ? std::min(*next, *earliest_taken_) : earliest_taken_;
  is_watched_ = next.has_value();
  return next;
}

bool HostStore::has_unwatched() const {
  const std::lock_guard lock(mutex_);
  return !is_watched_ && (taken_ || !idle_.empty());
}

bool HostStore::unpin_expired() noexcept {
  const Slabs expired = take_expired();
  if (expired.empty()) return false;
  destroy(expired);
  cap_.lower();
  return true;
}

// @return nullopt: another thread has the list, and its calls of the device do not come back.
std::optional<HostStore::Slabs> HostStore::take_idle() {
  std::unique_lock lock(mutex_);
  if (!returned_.wait_for(lock, wait_limit_, [this] { return !taken_; })) return std::nullopt;
  taken_ = true;
  earliest_taken_ = std::exchange(earliest_, std::nullopt);
  return std::exchange(idle_, {});
}

void HostStore::put_idle(Slabs idle) {
  const std::lock_guard lock(mutex_);
  taken_ = false;
  returned_.notify_all();
  idle_.splice(idle_.begin(), idle);
  if (earliest_taken_) note_expiry(*earliest_taken_);
  earliest_taken_.reset();
  if (idle_.empty()) earliest_.reset();
}

// Whether the transfers of an idle slab are known to have completed.
bool HostStore::is_over(const Idle& entry) noexcept {
  try {
    const auto complete = events_.all_complete(entry.after);
    return complete.ok() && *complete;
  } catch (const std::bad_alloc&) {
    return false;  // the device could not even say what is wrong
  }
}

// Takes out the oldest idle slabs whose transfers have completed, `most` at most. They are the
// caller's to destroy.
HostStore::Slabs HostStore::take_complete(std::size_t most) {
  Slabs taken;
  auto idle = take_idle();
  if (!idle) return taken;
  for (auto it = idle->begin(); it != idle->end() && taken.size() < most;) {
    const auto entry = it++;
    if (is_over(*entry)) taken.splice(taken.end(), *idle, entry);
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_ += taken.size();
    for (const Idle& entry : taken) cap_.begin_unpin(entry.slab.size);
  }
  put_idle(std::move(*idle));
  return taken;
}

// Takes out one slab that has been idle for too long, if its transfers have completed. It is the
// caller's to destroy.
HostStore::Slabs HostStore::take_expired() {
  Slabs taken;
  auto idle = take_idle();
  if (!idle) return taken;
  const Terms terms = [this] {
    const std::lock_guard lock(mutex_);
    return this->terms();
  }();
  std::optional<Clock::time_point> next;
  for (auto it = idle->begin(); it != idle->end() && taken.empty();) {
    const auto entry = it++;
    if (expiry_of(*entry, terms) <= terms.now) {
      if (is_over(*entry)) {
        taken.splice(taken.end(), *idle, entry);
        continue;
      }
      entry->since = terms.now;
    }
    const Clock::time_point expiry = expiry_of(*entry, terms);
    next = next ? std::min(*next, expiry) : expiry;
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_ += taken.size();
    for (const Idle& entry : taken) {
      cap_.begin_unpin(entry.slab.size);
      patience_.note_unpinned(entry.slab.size, entry.since);
    }
    // Only after a look at all of them is it known which one expires first.
    if (taken.empty()) earliest_taken_ = next;
  }
  put_idle(std::move(*idle));
  return taken;
}

// REQUIRES: take_complete() or take_expired() gave them.
void HostStore::destroy(const Slabs& slabs) noexcept {
  for (const Idle& entry : slabs) {
    const Slab& slab = entry.slab;
    // Memory that the device still has registered must stay mapped: better leaked than reused under
    // it.
    bool unpinned = false;
    try {
      unpinned = device_.unpin(slab.data) == Status::kOk;
    } catch (const std::bad_alloc&) {
      // It could not even say why it was refused.
    }
    if (unpinned) {
      forget_whole(slab);
      unmap_slab_memory(slab.data, slab.size);
    }
    cap_.end_unpin(slab.size, unpinned);
    const std::lock_guard lock(mutex_);
    --leaving_;
  }
}

// Counts `size` as pinned if the cap allows, after destroying idle slabs, oldest first. Waits,
// bounded, for what is being stocked, which can be destroyed when it is there.
// @return kNotYet, kOutOfHostMemory.
Status HostStore::make_room(Bytes size) {
  bool has_waited = false;
  while (!cap_.begin_pin(size)) {
    if (const Slabs oldest = take_complete(1); !oldest.empty()) {
      destroy(oldest);
      continue;
    }
    std::unique_lock lock(mutex_);
    if (stocking_ && !std::exchange(has_waited, true)) {
      returned_.wait_for(lock, wait_limit_, [this] { return !stocking_; });
      continue;
    }
    const bool is_coming = !idle_.empty() || taken_ || stocking_ || leaving_ > 0;
    return is_coming && size <= cap_.limit() ? Status::kNotYet : Status::kOutOfHostMemory;
  }
  return Status::kOk;
}

}  // namespace superpipe
