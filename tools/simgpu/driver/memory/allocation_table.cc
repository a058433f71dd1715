#include "tools/simgpu/driver/memory/allocation_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/memory/pool_blocks.h"
#include "tools/simgpu/driver/memory/start_address.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

/// Where allocations lie if they are to lie low, as those of drivers were seen to.
constexpr std::uint64_t kLowArena = 0xa'2000'0000;
constexpr std::uint64_t kSmallestArena = std::uint64_t{1} << 32;

}  // namespace

bool EarlierOperations::settled() {
  if (settled_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock{mutex_};
  std::erase_if(operations_, [](const CompletionPtr& operation) { return operation->settled(); });
  if (!operations_.empty()) return false;
  operations_.shrink_to_fit();
  settled_.store(true, std::memory_order_release);
  return true;
}

AllocationTable::AllocationTable() {
  // Address space only. Smaller where the system limits it; allocations then fail sooner.
  const Configuration& settings = configuration();
  const bool low = settings.arena == ArenaPolicy::kLow;
  void* const wanted = low ? reinterpret_cast<void*>(kLowArena) : nullptr;
  const std::uint64_t largest =
      low ? align_up(16 * settings.card.memory_bytes * static_cast<std::uint64_t>(settings.devices),
                     kGranularity)
          : std::uint64_t{8} << 40;
  for (std::uint64_t size = std::max(largest, kSmallestArena); size >= kSmallestArena; size /= 2) {
    void* const base =
        mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    madvise(base, size, MADV_DONTDUMP);
    const auto start = reinterpret_cast<std::uint64_t>(base);
    arena_base_ = low || size == kSmallestArena ? start : next_start(start);
    arena_size_ = start + size - arena_base_;
    arena_ = Extents{arena_base_, arena_size_};
    return;
  }
  log_line(LogLevel::kError, "cannot reserve address space for device allocations");
}

CUresult AllocationTable::allocate(Context& context, const std::shared_ptr<SmallBlocks>& small,
                                   std::uint64_t size, std::uint64_t* address) {
  PhysicalPtr physical = Physical::create(small, size);
  if (physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::unique_lock lock{mutex_};
  const auto base = map_locked(physical);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& allocation = allocations_[*base];
  allocation.base = *base;
  allocation.size = size;
  allocation.address_size = physical->size() + kPage;
  allocation.life = std::make_shared<AllocationLife>(
      AllocationLife{.base = *base, .size = size, .physical = std::move(physical)});
  allocation.context = &context;
  allocation.source = AllocationSource::kMemAlloc;
  allocation.id = next_object_id();
  *address = *base;
  return CUDA_SUCCESS;
}

std::optional<std::uint64_t> AllocationTable::map_locked(const PhysicalPtr& memory) {
  // A guard page follows, so that an access past the end faults.
  const std::uint64_t address_size = memory->size() + kPage;
  const std::uint64_t alignment = memory->size() >= kGranularity ? kGranularity : kPage;
  const auto base = arena_.take(address_size, alignment);
  if (!base) return std::nullopt;
  if (!memory->map_at(*base, PROT_READ | PROT_WRITE)) {
    arena_.give_back(*base, address_size);
    return std::nullopt;
  }
  return base;
}

void AllocationTable::unmap_locked(std::uint64_t base, std::uint64_t address_size) {
  (void)mmap(reinterpret_cast<void*>(base), address_size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  arena_.give_back(base, address_size);
}

void AllocationTable::erase(Allocations::iterator allocation) {
  unmap_locked(allocation->second.base, allocation->second.address_size);
  allocations_.erase(allocation);
}

CUresult AllocationTable::remove(std::uint64_t base) {
  std::shared_ptr<const AllocationLife> life;  // ends after the lock
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.source != AllocationSource::kMemAlloc) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  life = std::move(found->second.life);
  erase(found);
  return CUDA_SUCCESS;
}

void AllocationTable::remove_all_of(const Context& context) {
  std::vector<std::shared_ptr<const AllocationLife>> lives;  // end after the lock
  const std::unique_lock lock{mutex_};
  for (auto each = allocations_.begin(); each != allocations_.end();) {
    const auto next = std::next(each);
    if (each->second.context == &context && each->second.source == AllocationSource::kMemAlloc) {
      lives.push_back(std::move(each->second.life));
      erase(each);
    }
    each = next;
  }
}

std::optional<std::uint64_t> AllocationTable::map_chunk(const PhysicalPtr& memory) {
  const std::unique_lock lock{mutex_};
  const auto base = map_locked(memory);
  if (base) chunks_.emplace(*base, memory->size());
  return base;
}

void AllocationTable::unmap_chunk(std::uint64_t base, std::uint64_t size) {
  const std::unique_lock lock{mutex_};
  chunks_.erase(base);
  forget_freed(base, base + size);
  unmap_locked(base, size + kPage);
}

void AllocationTable::forget_freed(std::uint64_t begin, std::uint64_t end) {
  freed_.erase(freed_.lower_bound(begin), freed_.lower_bound(end));
}

void AllocationTable::add_block(Context& context, std::shared_ptr<MemoryPool> pool,
                                AllocationLife life) {
  const std::unique_lock lock{mutex_};
  // Its end included: who is given that from now on is probably given the end.
  forget_freed(life.base, life.base + align_up(life.size, kPoolBlock) + 1);
  Allocation& allocation = allocations_[life.base];
  allocation.base = life.base;
  allocation.size = life.size;
  allocation.life = std::make_shared<AllocationLife>(std::move(life));
  allocation.context = &context;
  allocation.source = AllocationSource::kPool;
  allocation.pool = std::move(pool);
  allocation.id = next_object_id();
}

std::shared_ptr<const AllocationLife> AllocationTable::remove_block(const MemoryPool& pool,
                                                                    std::uint64_t base) {
  const std::unique_lock lock{mutex_};
  const auto found = allocations_.find(base);
  if (found == allocations_.end() || found->second.pool.get() != &pool) return nullptr;
  std::shared_ptr<const AllocationLife> life = std::move(found->second.life);
  allocations_.erase(found);
  freed_.insert(base);
  return life;
}

std::vector<Allocation> AllocationTable::pool_allocations_of(const Context& context) {
  std::vector<Allocation> found;
  const std::shared_lock lock{mutex_};
  for (const auto& [base, allocation] : allocations_) {
    if (allocation.context == &context && allocation.source == AllocationSource::kPool) {
      found.push_back(allocation);
    }
  }
  return found;
}

std::optional<Allocation> AllocationTable::find_at(std::uint64_t base) {
  const std::shared_lock lock{mutex_};
  const auto found = allocations_.find(base);
  return found == allocations_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<Allocation> AllocationTable::find(std::uint64_t address) {
  const std::shared_lock lock{mutex_};
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(after)->second;
  return address - allocation.base < allocation.size ? std::optional{allocation} : std::nullopt;
}

FreeBlock AllocationTable::free_block_at(std::uint64_t address) {
  // Without the lock: most words name mapped memory.
  if (!touches(address, 1)) return FreeBlock::kNo;
  const std::shared_lock lock{mutex_};
  const auto chunk = chunks_.upper_bound(address);
  if (chunk == chunks_.begin() || address - std::prev(chunk)->first >= std::prev(chunk)->second) {
    return FreeBlock::kNo;
  }
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return FreeBlock::kYes;
  const Allocation& allocation = std::prev(after)->second;
  const std::uint64_t offset = address - allocation.base;
  const std::uint64_t with_padding = align_up(allocation.size, kPoolBlock);
  if (offset != with_padding) return offset < with_padding ? FreeBlock::kNo : FreeBlock::kYes;
  if (!freed_.contains(address)) return FreeBlock::kNo;
  return offset == allocation.size ? FreeBlock::kPerhaps : FreeBlock::kYes;
}

bool AllocationTable::touches(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t last = address + std::max<std::uint64_t>(size, 1) - 1;
  return last >= arena_base_ && address < arena_base_ + arena_size_;
}

}  // namespace simgpu
