#include "tools/simgpu/driver/memory/memory_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/memory/unwritten.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

/// Makes reused memory read as if nobody had written it, in stream order. It takes the time of a
/// memset, but no engine: a real device does not do it. A program that has freed the memory before
/// that is wrong, but the fill is not its access, and does nothing then.
Operation fill_unwritten(std::uint64_t address, std::uint64_t bytes) {
  Operation fill;
  fill.duration = static_cast<Nanoseconds>(static_cast<double>(bytes) / configuration().d2d_gbps);
  fill.work = [claim = AddressSpace::instance().claim(address), bytes,
               unwritten = Unwritten::next()] {
    const Resolution memory = AddressSpace::instance().resolve(claim, bytes, true, -1);
    for (const Segment& segment : memory.segments) unwritten.write(segment.bytes, segment.size);
  };
  return fill;
}

/// What a pool that holds `reserved` bytes takes of the device at a time, unless an allocation
/// needs more. Drivers are taken to reserve 32 MiB at a time; where models are small, so that
/// simgpu keeps up with them, that would be more than the models. So it is an eighth of what there
/// is.
std::uint64_t usual_chunk(std::uint64_t reserved) {
  constexpr std::uint64_t kLargest = std::uint64_t{32} << 20;
  const std::uint64_t asked = configuration().pool_chunk_bytes;
  if (asked != 0) return align_up(asked, kGranularity);
  return std::clamp(reserved / 8 / kGranularity * kGranularity, kGranularity, kLargest);
}

std::shared_ptr<EarlierOperations> earlier(std::vector<CompletionPtr> operations) {
  if (operations.empty()) return nullptr;
  return std::make_shared<EarlierOperations>(std::move(operations));
}

bool is_for_everybody(const FreePoint& freed) { return freed.done == nullptr; }

}  // namespace

CUresult MemoryPool::allocate(const StreamPtr& stream, std::uint64_t size, std::uint64_t* address) {
  if (size > device_.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t bytes = align_up(size, kPoolBlock);
  std::unique_lock lock{mutex_};
  const auto taken = take(lock, stream, bytes);
  if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
  used_.add(bytes);
  const auto chunk = std::prev(chunks_.upper_bound(taken->address));
  std::vector<CompletionPtr> after = pending_of(stream);
  after.insert(after.end(), taken->pending.begin(), taken->pending.end());
  AddressSpace::instance().allocations().add_block(context_of(*stream), shared_from_this(),
                                                   {.base = taken->address,
                                                    .size = size,
                                                    .physical = chunk->second,
                                                    .offset = taken->address - chunk->first,
                                                    .after = earlier(std::move(after))});
  lock.unlock();
  // Fresh bytes need no work, but what other streams order behind the allocation has to find an
  // operation there to wait for: on the legacy stream, all blocking streams do.
  Operation begin = taken->fresh ? Operation{} : fill_unwritten(taken->address, size);
  begin.label = "a stream-ordered allocation";
  begin.waits = taken->pending;
  enqueue(stream, std::move(begin));
  *address = taken->address;
  return CUDA_SUCCESS;
}

std::optional<PoolBlocks::Taken> MemoryPool::take(std::unique_lock<std::mutex>& lock,
                                                  const StreamPtr& stream, std::uint64_t size) {
  if (auto taken = take_freed(stream, size)) return taken;
  if (grow(size)) return blocks_.take(size, is_for_everybody);
  for (bool none_pending = false;;) {
    trim_locked(0);
    if (grow(size)) return blocks_.take(size, is_for_everybody);
    if (!internal_dependencies_) return std::nullopt;
    if (auto taken = blocks_.take(size, [](const FreePoint&) { return true; })) return taken;
    if (none_pending) return std::nullopt;
    // Nothing fits: wait for what is still being freed. The lock is released meanwhile, so that
    // another call may take what becomes free.
    const std::vector<CompletionPtr> pending = blocks_.pending();
    none_pending = pending.empty();
    lock.unlock();
    for (const CompletionPtr& freed : pending) freed->wait();
    lock.lock();
  }
}

std::optional<PoolBlocks::Taken> MemoryPool::take_freed(const StreamPtr& stream,
                                                        std::uint64_t size) {
  if (opportunistic_) {
    blocks_.free_for_everybody([](const FreePoint& freed) { return freed.complete(); });
  }
  const std::uint64_t own = number_of(*stream);
  auto taken = blocks_.take(size, [own](const FreePoint& freed) {
    return is_for_everybody(freed) || freed.point.stream == own;
  });
  if (taken || !follow_events_) return taken;
  return blocks_.take(size, [&](const FreePoint& freed) {
    return is_for_everybody(freed) || comes_after(stream, freed.point);
  });
}

bool MemoryPool::grow(std::uint64_t size) {
  const std::uint64_t smallest = align_up(size, kGranularity);
  // Where nothing uses a chunk that is too small for the request, its physical memory becomes part
  // of the new one.
  std::uint64_t recycled = 0;
  for (const PoolBlocks::Chunk& idle : blocks_.idle_chunks(is_for_everybody)) {
    if (recycled >= smallest) break;
    recycled += idle.size;
    remove_chunk(idle);
  }
  const std::uint64_t usual = usual_chunk(reserved_.current);
  return (usual > smallest && add_chunk(usual)) || add_chunk(smallest);
}

bool MemoryPool::add_chunk(std::uint64_t size) {
  PhysicalPtr memory = Physical::create(device_.small_allocations(), size);
  if (memory == nullptr) return false;
  const auto base = AddressSpace::instance().allocations().map_chunk(memory);
  if (!base) return false;
  blocks_.add_chunk({.base = *base, .size = size});
  chunks_.emplace(*base, std::move(memory));
  reserved_.add(size);
  return true;
}

void MemoryPool::remove_chunk(const PoolBlocks::Chunk& chunk) {
  blocks_.remove_chunk(chunk.base);
  AddressSpace::instance().allocations().unmap_chunk(chunk.base, chunk.size);
  chunks_.erase(chunk.base);
  reserved_.current -= chunk.size;
}

CUresult MemoryPool::free(const StreamPtr& stream, std::uint64_t address) {
  auto life = AddressSpace::instance().allocations().remove_block(*this, address);
  if (life == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t bytes = align_up(life->size, kPoolBlock);
  Operation release;
  release.label = "a stream-ordered free";
  release.work = [life = std::move(life)] {};  // which ends when the operation does
  StreamMark mark;
  CompletionPtr freed = enqueue(stream, std::move(release), &mark);
  const std::lock_guard lock{mutex_};
  used_.current -= bytes;
  blocks_.give_back(address, bytes, {.point = mark.point, .done = std::move(freed)});
  return CUDA_SUCCESS;
}

CUresult MemoryPool::free_now(std::uint64_t address) {
  std::uint64_t bytes = 0;
  {
    const auto life = AddressSpace::instance().allocations().remove_block(*this, address);
    if (life == nullptr) return CUDA_ERROR_INVALID_VALUE;
    bytes = align_up(life->size, kPoolBlock);
  }
  const std::lock_guard lock{mutex_};
  used_.current -= bytes;
  blocks_.give_back(address, bytes, {});
  if (abandoned_) trim_locked(0);
  return CUDA_SUCCESS;
}

void MemoryPool::trim(std::uint64_t keep) {
  const std::lock_guard lock{mutex_};
  trim_locked(keep);
}

void MemoryPool::note_synchronisation(const std::function<bool(StreamPoint)>& waited) {
  const std::lock_guard lock{mutex_};
  if (chunks_.empty()) return;
  blocks_.free_for_everybody(
      [&](const FreePoint& freed) { return freed.complete() && waited(freed.point); });
  trim_locked(abandoned_ ? 0 : threshold_);
}

void MemoryPool::abandon() {
  const std::lock_guard lock{mutex_};
  abandoned_ = true;
  trim_locked(0);
}

bool MemoryPool::gone() {
  const std::lock_guard lock{mutex_};
  return abandoned_ && chunks_.empty();
}

void MemoryPool::trim_locked(std::uint64_t keep) {
  if (reserved_.current <= keep) return;
  const auto is_complete = [](const FreePoint& freed) { return freed.complete(); };
  for (const PoolBlocks::Chunk& idle : blocks_.idle_chunks(is_complete)) {
    if (reserved_.current - idle.size >= keep) remove_chunk(idle);
  }
}

CUresult MemoryPool::get_attribute(CUmemPool_attribute attribute, void* value) {
  const std::lock_guard lock{mutex_};
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      *static_cast<int*>(value) = follow_events_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      *static_cast<int*>(value) = opportunistic_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = internal_dependencies_ ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = threshold_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = reserved_.current;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = reserved_.high;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = used_.current;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = used_.high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemoryPool::set_attribute(CUmemPool_attribute attribute, const void* value) {
  const std::lock_guard lock{mutex_};
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      follow_events_ = *static_cast<const int*>(value) != 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      opportunistic_ = *static_cast<const int*>(value) != 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      internal_dependencies_ = *static_cast<const int*>(value) != 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      threshold_ = *static_cast<const cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // may only be reset
      if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      reserved_.high = reserved_.current;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      used_.high = used_.current;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace simgpu
