#include "tests/residency/fake_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace superpipe::testing {

Address FakeMemory::reserve(Bytes size) {
  const Address address = next_address_;
  next_address_ += size.count() + (std::uint64_t{1} << 32);
  reservations_[address] = size.count();
  return address;
}

void FakeMemory::release_reservation(Address address, Bytes size) {
  const auto inside = mappings_.lower_bound(address);
  if (inside != mappings_.end() && inside->first < address + size.count()) {
    violate_("reservation released with something mapped in it");
  }
  if (reservations_.erase(address) == 0) violate_("release of what was not reserved");
}

Status FakeMemory::create_pages(PageHandle handle, Bytes size) {
  if (size.count() % granularity_.count() != 0) violate_("pages of an odd size");
  if (used() + size > capacity_) return Status::kOutOfDeviceMemory;
  pages_bytes_ += size;
  peak_ = std::max(peak_, pages_bytes_ + passthrough_);
  auto pages = std::make_shared<Physical>();
  pages->bytes.assign(size.count(), std::byte{0xEE});  // new memory is not zero by itself
  pages_[handle] = std::move(pages);
  return Status::kOk;
}

Status FakeMemory::destroy_pages(PageHandle handle, Bytes size) {
  const auto found = pages_.find(handle);
  if (found == pages_.end()) {
    violate_("destroy of pages that are not there");
    return Status::kDeviceError;
  }
  if (found->second->mappings != 0) violate_("pages destroyed while mapped");
  if (found->second->bytes.size() != size.count()) violate_("pages destroyed with another size");
  pages_bytes_ -= Bytes{found->second->bytes.size()};
  pages_.erase(found);
  return Status::kOk;
}

Status FakeMemory::map(Address address, Bytes size, PageHandle handle, int peers) {
  const auto found = pages_.find(handle);
  if (found == pages_.end() || found->second->bytes.size() != size.count()) {
    violate_("map of what is not there, or not whole");
    return Status::kDeviceError;
  }
  const auto next = mappings_.lower_bound(address);
  const bool overlaps_next = next != mappings_.end() && next->first < address + size.count();
  const bool overlaps_before =
      next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.size > address;
  if (overlaps_next || overlaps_before) {
    violate_("map over a mapping");
    return Status::kDeviceError;
  }
  ++found->second->mappings;
  mappings_[address] = {size.count(), found->second, peers};
  return Status::kOk;
}

Status FakeMemory::renew_access(Address address, Bytes size) {
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.size != size.count()) return Status::kDeviceError;
  found->second.peers = peers_;
  return Status::kOk;
}

Status FakeMemory::unmap(Address address, Bytes size) {
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.size != size.count()) {
    violate_("unmap of what is not mapped");
    return Status::kDeviceError;
  }
  --found->second.pages->mappings;
  mappings_.erase(found);
  return Status::kOk;
}

void FakeMemory::pin(const void* host, Bytes size) {
  pinned_[static_cast<const std::byte*>(host)] = size.count();
}

void FakeMemory::unpin(const void* host) {
  if (pinned_.erase(static_cast<const std::byte*>(host)) == 0) {
    violate_("unpin of what is not pinned");
  }
}

int FakeMemory::peers_without_access(Address address, std::size_t size) const {
  int least = peers_;
  std::size_t done = 0;
  while (done < size) {
    const auto found = mappings_.find(address + done);
    if (found == mappings_.end()) return peers_;
    least = std::min(least, found->second.peers);
    done += found->second.size;
  }
  return peers_ - least;
}

bool FakeMemory::transfer(Address address, std::size_t size, std::byte* out, const std::byte* in) {
  auto it = mappings_.upper_bound(address);
  if (it != mappings_.begin()) --it;
  // A buffer in pieces lies in several mappings, one behind the other.
  while (size > 0) {
    const bool is_mapped =
        it != mappings_.end() && address >= it->first && address - it->first < it->second.size;
    if (!is_mapped) {
      violate_("access to unmapped device memory");
      return false;
    }
    const std::uint64_t offset = address - it->first;
    const std::size_t part = std::min<std::size_t>(size, it->second.size - offset);
    std::byte* const bytes = it->second.pages->bytes.data() + offset;
    if (out != nullptr) std::memcpy(std::exchange(out, out + part), bytes, part);
    if (in != nullptr) std::memcpy(bytes, std::exchange(in, in + part), part);
    address += part;
    size -= part;
    ++it;
  }
  return true;
}

bool FakeMemory::is_mapped_twice(Address address) const {
  const auto found = mappings_.find(address);
  return found != mappings_.end() && found->second.pages->mappings > 1;
}

bool FakeMemory::is_pinned(const void* host, std::size_t size) const {
  const auto* const start = static_cast<const std::byte*>(host);
  auto it = pinned_.upper_bound(start);
  if (it == pinned_.begin()) return false;
  --it;
  return start + size <= it->first + it->second;
}

}  // namespace superpipe::testing
