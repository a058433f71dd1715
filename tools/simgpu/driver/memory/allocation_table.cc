#include "tools/simgpu/driver/memory/allocation_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {

AllocationTable::AllocationTable() {
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

CUresult AllocationTable::allocate(Context& context, const std::shared_ptr<SmallBlocks>& small,
                                   std::uint64_t size, AllocationSource source, CUmemoryPool pool,
                                   std::uint64_t* address) {
  PhysicalPtr physical = Physical::create(small, size);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  // A guard page follows, so that an access past the end faults.
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
  allocation.id = next_object_id();
  *address = *base;
  return CUDA_SUCCESS;
}

void AllocationTable::erase(std::map<std::uint64_t, Allocation>::iterator allocation) {
  const Allocation& gone = allocation->second;
  (void)mmap(reinterpret_cast<void*>(gone.base), gone.address_size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  arena_.give_back(gone.base, gone.address_size);
  allocations_.erase(allocation);
}

CUresult AllocationTable::remove(std::uint64_t base) {
  PhysicalPtr physical;  // freed after the lock
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  physical = found->second.physical;
  erase(found);
  return CUDA_SUCCESS;
}

void AllocationTable::remove_all_of(const Context& context) {
  std::vector<PhysicalPtr> physical;  // freed after the lock
  const std::unique_lock lock{mutex_};
  for (auto each = allocations_.begin(); each != allocations_.end();) {
    const auto next = std::next(each);
    if (each->second.context == &context && each->second.source == AllocationSource::kMemAlloc) {
      physical.push_back(each->second.physical);
      erase(each);
    }
    each = next;
  }
}

std::vector<Allocation> AllocationTable::pool_allocations_of(const Context& context) {
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

Allocation* AllocationTable::accessible_at(std::uint64_t address) {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  const bool inside = address - allocation.base < allocation.size;
  return inside && allocation.accessible ? &allocation : nullptr;
}

std::optional<Allocation> AllocationTable::find_at(std::uint64_t base) {
  const std::shared_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.freeing || !found->second.accessible) {
    return std::nullopt;
  }
  return found->second;
}

std::optional<Allocation> AllocationTable::find_accessible(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const Allocation* const allocation = accessible_at(address);
  return allocation == nullptr ? std::nullopt : std::optional{*allocation};
}

std::optional<Allocation> AllocationTable::find(std::uint64_t address) {
  std::optional<Allocation> found = find_accessible(address);
  if (found && found->freeing) found.reset();
  return found;
}

bool AllocationTable::holds(std::uint64_t base, const PhysicalPtr& memory) {
  const std::shared_lock lock{mutex_};
  const auto found = allocations_.find(base);
  return found != allocations_.end() && found->second.physical == memory &&
         found->second.accessible;
}

bool AllocationTable::touches(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t last = address + std::max<std::uint64_t>(size, 1) - 1;
  return last >= arena_base_ && address < arena_base_ + arena_size_;
}

std::uint64_t AllocationTable::begin_free(std::uint64_t base) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.freeing || !found->second.accessible) return 0;
  found->second.freeing = true;
  return found->second.id;
}

void AllocationTable::finish_free(std::uint64_t base, std::uint64_t id) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.id != id) return;
  found->second.accessible = false;
}

void AllocationTable::revive(std::uint64_t base, std::uint64_t size, Context& context) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end()) return;
  found->second.size = size;
  found->second.context = &context;
  found->second.id = next_object_id();
  found->second.freeing = false;
  found->second.accessible = true;
}

}  // namespace simgpu
