#include "residency/pieces/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>
#include <vector>

namespace superpipe {

namespace {

// Reservations below are those of tests, or of a device with hardly any address space.
constexpr Bytes kLeastThatAvoidsIntegers = 64_GiB;

}  // namespace

AddressRanges::AddressRanges(Address base, Bytes size, Bytes granule)
    : avoids_integers_(size >= kLeastThatAvoidsIntegers),
      next_(base),
      end_(base + size.count()),
      granule_(granule) {}

// Moves the begin of what is new behind the next addresses that look like two integers, if a range
// of `want` bytes would have some of them. What is left out before them is free for smaller ones.
void AddressRanges::step_over_integers(std::uint64_t want) {
  constexpr std::uint64_t kDistance = std::uint64_t{1} << 32;
  if (!avoids_integers_ || want > kDistance - 2 * kSmallInteger) return;
  const Address zero = (next_ + kSmallInteger) & ~(kDistance - 1);  // the last one begun
  const Address first = looks_like_two_integers(next_) ? zero : zero + kDistance;
  const Address begin = std::max(next_, first - kSmallInteger);
  const Address behind = first + kSmallInteger;
  if (next_ + want <= begin || behind > end_ || end_ - behind < want) return;
  if (begin > next_) free_by_size_[begin - next_].push_back(next_);
  next_ = behind;
}

std::optional<Address> AddressRanges::take(Bytes size) {
  const std::uint64_t want = round_up(size, granule_).count();
  auto* same_size = &free_by_size_[want];
  if (same_size->empty() && end_ - next_ < want) {
    merge_free_ranges();
    same_size = &free_by_size_[want];
  }
  if (same_size->empty()) step_over_integers(want);
  if (!same_size->empty()) {
    const Address address = same_size->back();
    spare_.splice(spare_.end(), *same_size, std::prev(same_size->end()));
    return address;
  }
  if (end_ - next_ >= want) {
    spare_.emplace_back();
    const Address address = next_;
    next_ += want;
    return address;
  }
  for (auto& [have, addresses] : free_by_size_) {
    if (have < want || addresses.empty()) continue;
    auto& rests = free_by_size_[have - want];
    spare_.emplace_back();
    const Address address = addresses.back();
    addresses.back() = address + want;
    rests.splice(rests.end(), addresses, std::prev(addresses.end()));
    return address;
  }
  return std::nullopt;
}

void AddressRanges::give_back(Address address, Bytes size) noexcept {
  auto& same_size = free_by_size_.find(round_up(size, granule_).count())->second;
  spare_.front() = address;
  same_size.splice(same_size.end(), spare_, spare_.begin());
}

// All that may throw comes before anything changes.
void AddressRanges::merge_free_ranges() {
  std::vector<std::pair<Address, std::uint64_t>> ranges;
  std::unordered_map<std::uint64_t, std::list<Address>> merged;
  for (const auto& [size, addresses] : free_by_size_) {
    merged.try_emplace(size);
    for (const Address address : addresses) ranges.emplace_back(address, size);
  }
  std::sort(ranges.begin(), ranges.end());
  Address next = next_;
  for (std::size_t i = 0; i < ranges.size();) {
    const Address start = ranges[i].first;
    std::uint64_t size = 0;
    while (i < ranges.size() && ranges[i].first == start + size) size += ranges[i++].second;
    if (start + size == next) {
      next = start;
    } else {
      merged[size].push_back(start);
    }
  }
  free_by_size_.swap(merged);
  next_ = next;
}

Arena::Arena(Address base, Bytes size, Bytes granule)
    : base_(base),
      size_(size.count()),
      shift_(static_cast<unsigned>(std::countr_zero(granule.count()))),
      granule_(granule),
      ranges_(base, size, granule) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  void* const table =
      mmap(nullptr, (size_ >> shift_) * sizeof(std::atomic<std::uint32_t>), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table != MAP_FAILED) table_ = static_cast<std::atomic<std::uint32_t>*>(table);
}

Arena::~Arena() {
  if (table_ != nullptr) munmap(table_, (size_ >> shift_) * sizeof(std::atomic<std::uint32_t>));
}

std::optional<Address> Arena::take(Bytes footprint) {
  const auto range = ranges_.take(footprint + 2 * granule_);
  if (!range) return std::nullopt;
  return *range + granule_.count();
}

void Arena::give_back(Address address, Bytes footprint) noexcept {
  ranges_.give_back(address - granule_.count(), footprint + 2 * granule_);
}

void Arena::set_owner(Address address, Bytes footprint, std::uint32_t index) {
  const std::uint64_t first = (address - base_) >> shift_;
  const std::uint64_t last = first + (footprint.count() >> shift_);
  for (std::uint64_t i = first - 1; i < last; ++i) {
    table_[i].store(index + 1, std::memory_order_release);
  }
}

}  // namespace superpipe
