#include "tools/simgpu/driver/memory/memory_pool.h"

#include <algorithm>
#include <cstring>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

/// Zeroes reused memory in stream order, so that what a program never wrote cannot make two runs
/// differ. It takes the time of a memset, but no engine: a real device does not do it.
Operation zero_fill(std::uint64_t address, std::uint64_t bytes) {
  Operation fill;
  fill.label = "a stream-ordered allocation";
  fill.duration = static_cast<Nanoseconds>(static_cast<double>(bytes) / configuration().d2d_gbps);
  fill.work = [claim = AddressSpace::instance().claim(address), bytes] {
    const Resolution memory = AddressSpace::instance().resolve(claim, bytes, true, -1);
    for (const Segment& segment : memory.segments) std::memset(segment.bytes, 0, segment.size);
  };
  return fill;
}

}  // namespace

CUresult MemoryPool::allocate(const StreamPtr& stream, std::uint64_t size, std::uint64_t* address) {
  std::unique_lock lock{mutex_};
  if (const auto block = find_reusable(stream.get(), size, false); block != free_.end()) {
    return reuse(block, stream, size, address);
  }
  AddressSpace& space = AddressSpace::instance();
  Context& context = context_of(*stream);
  const auto take = [&] {
    return space.allocations().allocate(context, small_, size, AllocationSource::kPool, handle,
                                        address);
  };
  CUresult result = take();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    trim_locked(0);
    result = take();
  }
  while (result == CUDA_ERROR_OUT_OF_MEMORY && internal_dependencies_) {
    const auto block = find_reusable(stream.get(), size, true);
    if (block != free_.end()) return reuse(block, stream, size, address);
    // Nothing fits: wait for the blocks that are still being freed, even those whose free has
    // completed just now. The lock is released meanwhile, so that another call may take what
    // becomes free.
    std::vector<CompletionPtr> pending;
    for (const FreeBlock& free : free_) {
      if (free.freed != nullptr) pending.push_back(free.freed);
    }
    if (pending.empty()) break;
    lock.unlock();
    for (const CompletionPtr& freed : pending) freed->wait();
    lock.lock();
    trim_locked(0);
    result = take();
  }
  if (result != CUDA_SUCCESS) return result;
  const std::uint64_t bytes = space.allocations().find_at(*address)->physical->size();
  reserved_ += bytes;
  reserved_high_ = std::max(reserved_high_, reserved_);
  add_used(bytes);
  return CUDA_SUCCESS;
}

std::vector<MemoryPool::FreeBlock>::iterator MemoryPool::find_reusable(const Stream* stream,
                                                                       std::uint64_t size,
                                                                       bool pending_too) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    // At most an eighth is wasted: a small request must not take a large block.
    if (block->bytes < size || block->bytes > align_up(size + size / 8, kPage)) continue;
    const bool done = block->freed == nullptr || block->freed->complete();
    if (!(block->stream == stream || (opportunistic_ && done) || pending_too)) continue;
    if (best == free_.end() || block->bytes <= best->bytes) best = block;
  }
  return best;
}

CUresult MemoryPool::reuse(std::vector<FreeBlock>::iterator block, const StreamPtr& stream,
                           std::uint64_t size, std::uint64_t* address) {
  const FreeBlock taken = *block;
  free_.erase(block);
  AddressSpace::instance().allocations().revive(taken.address, size, context_of(*stream));
  Operation fill = zero_fill(taken.address, size);
  if (taken.freed != nullptr && !taken.freed->complete()) fill.waits.push_back(taken.freed);
  enqueue(stream, std::move(fill));
  add_used(taken.bytes);
  *address = taken.address;
  return CUDA_SUCCESS;
}

void MemoryPool::add_used(std::uint64_t bytes) {
  used_ += bytes;
  used_high_ = std::max(used_high_, used_);
}

CUresult MemoryPool::free(const StreamPtr& stream, std::uint64_t address) {
  const std::lock_guard lock{mutex_};
  AddressSpace& space = AddressSpace::instance();
  const auto allocation = space.allocations().find_at(address);
  const std::uint64_t id = space.allocations().begin_free(address);
  if (!allocation || id == 0) return CUDA_ERROR_INVALID_VALUE;
  Operation release;
  release.label = "a stream-ordered free";
  release.work = [address, id] { AddressSpace::instance().allocations().finish_free(address, id); };
  CompletionPtr freed = enqueue(stream, std::move(release));
  const std::uint64_t bytes = allocation->physical->size();
  used_ -= bytes;
  free_.push_back({address, bytes, stream.get(), std::move(freed)});
  return CUDA_SUCCESS;
}

CUresult MemoryPool::free_now(std::uint64_t address) {
  const std::lock_guard lock{mutex_};
  AddressSpace& space = AddressSpace::instance();
  const auto allocation = space.allocations().find_at(address);
  const std::uint64_t id = space.allocations().begin_free(address);
  if (!allocation || id == 0) return CUDA_ERROR_INVALID_VALUE;
  space.allocations().finish_free(address, id);
  const std::uint64_t bytes = allocation->physical->size();
  used_ -= bytes;
  free_.push_back({address, bytes, nullptr, nullptr});
  trim_locked(abandoned_ ? 0 : threshold_);
  return CUDA_SUCCESS;
}

void MemoryPool::trim(std::uint64_t keep) {
  const std::lock_guard lock{mutex_};
  trim_locked(keep);
}

void MemoryPool::trim_to_threshold() {
  const std::lock_guard lock{mutex_};
  trim_locked(abandoned_ ? 0 : threshold_);
}

void MemoryPool::abandon() {
  const std::lock_guard lock{mutex_};
  abandoned_ = true;
  trim_locked(0);
}

void MemoryPool::trim_locked(std::uint64_t keep) {
  for (auto block = free_.begin(); block != free_.end() && reserved_ > keep;) {
    if (block->freed != nullptr && !block->freed->complete()) {
      ++block;
      continue;
    }
    AddressSpace::instance().allocations().remove(block->address);
    reserved_ -= block->bytes;
    block = free_.erase(block);
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
      *static_cast<cuuint64_t*>(value) = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = reserved_high_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = used_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = used_high_;
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
      reserved_high_ = reserved_;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      used_high_ = used_;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace simgpu
