#include "residency/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace superpipe {

AddressRanges::AddressRanges(Address base, Bytes size, Bytes granule)
    : next_(base), end_(base + size.count()), granule_(granule) {}

std::optional<Address> AddressRanges::take(Bytes size) {
  const std::uint64_t want = round_up(size, granule_).count();
  if (const auto found = free_by_size_.find(want);
      found != free_by_size_.end() && !found->second.empty()) {
    const Address address = found->second.back();
    found->second.pop_back();
    return address;
  }
  if (end_ - next_ >= want) {
    const Address address = next_;
    next_ += want;
    return address;
  }
  merge_free_ranges();
  if (end_ - next_ >= want) return take(size);
  for (auto& [have, addresses] : free_by_size_) {
    if (have < want || addresses.empty()) continue;
    const Address address = addresses.back();
    const std::uint64_t rest = have - want;
    addresses.pop_back();
    if (rest > 0) free_by_size_[rest].push_back(address + want);
    return address;
  }
  return std::nullopt;
}

void AddressRanges::give_back(Address address, Bytes size) {
  free_by_size_[round_up(size, granule_).count()].push_back(address);
}

void AddressRanges::merge_free_ranges() {
  std::vector<std::pair<Address, std::uint64_t>> ranges;
  for (const auto& [size, addresses] : free_by_size_) {
    for (const Address address : addresses) ranges.emplace_back(address, size);
  }
  std::sort(ranges.begin(), ranges.end());
  free_by_size_.clear();
  for (std::size_t i = 0; i < ranges.size();) {
    const Address start = ranges[i].first;
    std::uint64_t size = 0;
    while (i < ranges.size() && ranges[i].first == start + size) size += ranges[i++].second;
    if (start + size == next_) {
      next_ = start;
    } else {
      free_by_size_[size].push_back(start);
    }
  }
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

std::optional<Address> Arena::take(Bytes footprint) { return ranges_.take(footprint + granule_); }

void Arena::give_back(Address address, Bytes footprint) {
  ranges_.give_back(address, footprint + granule_);
}

void Arena::set_owner(Address address, Bytes footprint, std::uint32_t index) {
  const std::uint64_t first = (address - base_) >> shift_;
  const std::uint64_t last = first + (footprint.count() >> shift_);
  for (std::uint64_t i = first; i < last; ++i) {
    table_[i].store(index + 1, std::memory_order_release);
  }
}

}  // namespace superpipe
