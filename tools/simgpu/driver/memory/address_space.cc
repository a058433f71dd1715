// Allocations, pinned ranges, and the queries. Virtual memory management is in mapping_table.cc.
#include "tools/simgpu/driver/memory/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {

AddressSpace& AddressSpace::instance() {
  static auto* const space = new AddressSpace;
  return *space;
}

AddressSpace::AddressSpace() {
  // Address space only. Smaller where the system limits it; allocations then fail sooner.
  for (std::uint64_t size = std::uint64_t{8} << 40; size >= (std::uint64_t{1} << 32); size /= 2) {
    void* const base =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    madvise(base, size, MADV_DONTDUMP);
    arena_base_ = reinterpret_cast<std::uint64_t>(base);
    arena_size_ = size;
    arena_ = Extents{arena_base_, size};
    return;
  }
  log_line(LogLevel::kError, "cannot reserve address space for device allocations");
}

CUresult AddressSpace::allocate(Context& context, const std::shared_ptr<SmallBlocks>& small,
                                std::uint64_t size, AllocationSource source, CUmemoryPool pool,
                                std::uint64_t* address) {
  PhysicalPtr physical = Physical::create(small, size);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  // A guard page follows, so that what runs past the end faults or is at least nobody else's.
  const std::uint64_t address_size = physical->size() + kPage;
  const std::uint64_t alignment = physical->size() >= kGranularity ? kGranularity : kPage;
  const std::unique_lock lock{mutex_};
  const auto base = arena_.take(address_size, alignment);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!physical->map_at(*base, PROT_READ | PROT_WRITE)) {
    arena_.give_back(*base, address_size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Allocation& allocation = allocations_[*base];
  allocation.base = *base;
  allocation.size = size;
  allocation.address_size = address_size;
  allocation.physical = std::move(physical);
  allocation.context = &context;
  allocation.source = source;
  allocation.pool = pool;
  allocation.id = next_id_++;
  *address = *base;
  return CUDA_SUCCESS;
}

void AddressSpace::forget(std::map<std::uint64_t, Allocation>::iterator allocation) {
  const Allocation& gone = allocation->second;
  (void)mmap(reinterpret_cast<void*>(gone.base), gone.address_size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  arena_.give_back(gone.base, gone.address_size);
  allocations_.erase(allocation);
}

CUresult AddressSpace::remove_allocation(std::uint64_t base) {
  PhysicalPtr physical;  // freed after the lock
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  physical = found->second.physical;
  forget(found);
  return CUDA_SUCCESS;
}

void AddressSpace::remove_allocations_of(const Context& context) {
  std::vector<PhysicalPtr> physical;  // freed after the lock
  const std::unique_lock lock{mutex_};
  for (auto each = allocations_.begin(); each != allocations_.end();) {
    const auto next = std::next(each);
    if (each->second.context == &context && each->second.source == AllocationSource::kMemAlloc) {
      physical.push_back(each->second.physical);
      forget(each);
    }
    each = next;
  }
}

std::vector<Allocation> AddressSpace::pool_allocations_of(const Context& context) {
  std::vector<Allocation> found;
  const std::shared_lock lock{mutex_};
  for (const auto& [base, allocation] : allocations_) {
    if (allocation.context == &context && allocation.source == AllocationSource::kPool &&
        allocation.accessible && !allocation.freeing) {
      found.push_back(allocation);
    }
  }
  return found;
}

Allocation* AddressSpace::allocation_at(std::uint64_t address) {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  const bool inside = address - allocation.base < allocation.size;
  return inside && allocation.accessible ? &allocation : nullptr;
}

std::optional<Allocation> AddressSpace::find_allocation_at(std::uint64_t base) {
  const std::shared_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.freeing || !found->second.accessible) {
    return std::nullopt;
  }
  return found->second;
}

std::optional<Allocation> AddressSpace::find_allocation(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const Allocation* const allocation = allocation_at(address);
  if (allocation == nullptr || allocation->freeing) return std::nullopt;
  return *allocation;
}

std::uint64_t AddressSpace::begin_free(std::uint64_t base) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.freeing || !found->second.accessible) return 0;
  found->second.freeing = true;
  return found->second.id;
}

void AddressSpace::finish_free(std::uint64_t base, std::uint64_t id) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.id != id) return;
  found->second.accessible = false;
}

void AddressSpace::revive(std::uint64_t base, std::uint64_t size, Context& context) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return;
  found->second.size = size;
  found->second.context = &context;
  found->second.id = next_id_++;
  found->second.freeing = false;
  found->second.accessible = true;
}

bool AddressSpace::add_pinned(PinnedRange range) {
  const std::unique_lock lock{mutex_};
  const auto after = pinned_.upper_bound(range.base);
  if (after != pinned_.end() && after->first - range.base < range.size) return false;
  if (after != pinned_.begin()) {
    const PinnedRange& before = std::prev(after)->second;
    if (range.base - before.base < before.size) return false;
  }
  range.id = next_id_++;
  pinned_.emplace(range.base, range);
  return true;
}

std::optional<PinnedRange> AddressSpace::remove_pinned(std::uint64_t base, bool registered) {
  const std::unique_lock lock{mutex_};
  const auto found = pinned_.find(base);
  if (found == pinned_.end() || found->second.registered != registered) return std::nullopt;
  const PinnedRange range = found->second;
  pinned_.erase(found);
  return range;
}

std::optional<PinnedRange> AddressSpace::find_pinned(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const auto after = pinned_.upper_bound(address);
  if (after == pinned_.begin()) return std::nullopt;
  const PinnedRange& range = std::prev(after)->second;
  if (address - range.base >= range.size) return std::nullopt;
  return range;
}

std::vector<PinnedRange> AddressSpace::remove_pinned_of(const Context& context) {
  std::vector<PinnedRange> removed;
  const std::unique_lock lock{mutex_};
  for (auto each = pinned_.begin(); each != pinned_.end();) {
    if (each->second.context == &context) {
      removed.push_back(each->second);
      each = pinned_.erase(each);
    } else {
      ++each;
    }
  }
  return removed;
}

AddressRange AddressSpace::find(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  AddressRange range;
  if (const Allocation* const allocation = allocation_at(address)) {
    range.kind = MemoryKind::kAllocated;
    range.base = allocation->base;
    range.size = allocation->size;
    range.device = allocation->physical->device().ordinal();
    return range;
  }
  const auto mapping = mapping_at(address);
  if (mapping != mappings_.end() && mapping->second.readable) {
    auto first = mapping;
    while (first != mappings_.begin()) {
      const auto before = std::prev(first);
      if (before->first + before->second.size != first->first || !before->second.readable) break;
      first = before;
    }
    range.kind = MemoryKind::kMapped;
    range.base = first->first;
    range.device = mapping->second.handle->physical->device().ordinal();
    std::uint64_t end = first->first;
    for (auto each = first; each != mappings_.end() && each->first == end && each->second.readable;
         ++each) {
      end += each->second.size;
      range.writable = range.writable && each->second.writable;
    }
    range.size = end - range.base;
    return range;
  }
  auto after = reservations_.upper_bound(address);
  if (after != reservations_.begin()) {
    const auto reservation = std::prev(after);
    if (address - reservation->first < reservation->second) {
      range.kind = MemoryKind::kReserved;
      range.base = reservation->first;
      range.size = reservation->second;
      range.once_mapped = was_mapped(address);
      return range;
    }
  }
  const auto pinned_after = pinned_.upper_bound(address);
  if (pinned_after != pinned_.begin()) {
    const PinnedRange& pinned = std::prev(pinned_after)->second;
    if (address - pinned.base < pinned.size) {
      range.kind = MemoryKind::kPinned;
      range.base = pinned.base;
      range.size = pinned.size;
    }
  }
  return range;
}

bool AddressSpace::touches_device(std::uint64_t address, std::uint64_t size) {
  const std::shared_lock lock{mutex_};
  const std::uint64_t last = address + std::max<std::uint64_t>(size, 1) - 1;
  if (last >= arena_base_ && address < arena_base_ + arena_size_) return true;
  const auto after = reservations_.upper_bound(last);
  if (after == reservations_.begin()) return false;
  const auto reservation = std::prev(after);
  return reservation->first + reservation->second > address;
}

Resolution AddressSpace::resolve(std::uint64_t address, std::uint64_t size, bool write, int device,
                                 bool submitting) {
  const std::shared_lock lock{mutex_};
  Resolution result;
  result.first_bad = address;
  if (const Allocation* const allocation = allocation_at(address)) {
    const std::uint64_t offset = address - allocation->base;
    if (submitting && allocation->freeing) return result;
    // The host runs ahead: it may have freed a pool's block in stream order and got it back with a
    // smaller size, while work on what it was before is still to come.
    const bool is_ahead = !submitting && allocation->source == AllocationSource::kPool;
    const std::uint64_t limit = is_ahead ? allocation->physical->size() : allocation->size;
    if (size > limit - offset) {
      result.first_bad = allocation->base + limit;
      return result;
    }
    result.segments.push_back(
        {allocation->physical->window() + offset, size, allocation->physical});
    result.accessible = true;
    return result;
  }
  std::uint64_t position = address;
  for (auto mapping = mapping_at(address); size != 0; ++mapping) {
    result.first_bad = position;
    if (mapping == mappings_.end() || mapping->first > position) return result;
    const Mapping& found = mapping->second;
    const PhysicalPtr& physical = found.handle->physical;
    const int owner = physical->device().ordinal();
    const auto allows = [&](int ordinal) {
      const unsigned flags = found.access[static_cast<std::size_t>(ordinal)];
      return write ? flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE : flags != 0;
    };
    if (!(device < 0 ? (write ? found.writable : found.readable)
                     : allows(device) || allows(owner))) {
      return result;
    }
    const std::uint64_t offset = position - mapping->first;
    const std::uint64_t length = std::min(size, found.size - offset);
    result.segments.push_back({physical->window() + offset, length, physical});
    position += length;
    size -= length;
  }
  result.accessible = true;
  return result;
}

AddressRange find_range(std::uint64_t address) { return AddressSpace::instance().find(address); }

bool is_device_address(std::uint64_t address) { return find_range(address).accessible(); }

bool is_accessible(std::uint64_t address, std::uint64_t size, bool write,
                   std::uint64_t* first_bad) {
  if (size == 0) return true;
  const Resolution found = AddressSpace::instance().resolve(address, size, write, -1, false);
  if (!found.accessible && first_bad != nullptr) *first_bad = found.first_bad;
  return found.accessible;
}

CUresult allocate_device(Context& context, std::uint64_t size, std::uint64_t* address) {
  return AddressSpace::instance().allocate(context, context.device().small_allocations(), size,
                                           AllocationSource::kMemAlloc, nullptr, address);
}

CUresult allocate_for_module(Context& context, std::uint64_t size, std::uint64_t* address) {
  return AddressSpace::instance().allocate(context, context.device().modules(), size,
                                           AllocationSource::kMemAlloc, nullptr, address);
}

CUresult free_device(std::uint64_t address) {
  return AddressSpace::instance().remove_allocation(address);
}

bool write_device(std::uint64_t address, const void* source, std::uint64_t size) {
  if (size == 0) return true;
  const Resolution found = AddressSpace::instance().resolve(address, size, true, -1, false);
  const auto* bytes = static_cast<const unsigned char*>(source);
  if (!found.accessible) return false;
  for (const Segment& segment : found.segments) {
    std::memcpy(segment.bytes, bytes, segment.size);
    bytes += segment.size;
  }
  return true;
}

bool read_device(void* target, std::uint64_t address, std::uint64_t size) {
  if (size == 0) return true;
  const Resolution found = AddressSpace::instance().resolve(address, size, false, -1, false);
  auto* bytes = static_cast<unsigned char*>(target);
  if (!found.accessible) return false;
  for (const Segment& segment : found.segments) {
    std::memcpy(bytes, segment.bytes, segment.size);
    bytes += segment.size;
  }
  return true;
}

}  // namespace simgpu
