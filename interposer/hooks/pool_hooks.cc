// Memory pools: we serve their allocations, so what they report has ours added.
#include <cstdint>
#include <cstring>

#include "interposer/allocators/framework_environment.h"
#include "interposer/allocators/memory_pools.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/passthrough/passthrough_allocation.h"

namespace superpipe {
namespace {

/// Adds `ours` to the cuuint64_t at `value`.
void add_to(void* value, std::uint64_t ours) noexcept {
  cuuint64_t sum = 0;
  std::memcpy(&sum, value, sizeof sum);
  sum += ours;
  std::memcpy(value, &sum, sizeof sum);
}

/// Whether `attr` lets a stream reuse memory that another one has freed.
bool is_reuse_by_other_streams(CUmemPool_attribute attr) noexcept {
  return attr == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
         attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
         attr == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/// Whether PyTorch takes its memory from the driver's pool because superpipe chose that.
bool pool_is_our_choice() noexcept {
  return chose_pytorch_allocator_at_start() && is_pytorch_loaded();
}

}  // namespace

CUresult hook::cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) noexcept {
  const CUresult result = driver().cuMemPoolCreate(pool, poolProps);
  if (result != CUDA_SUCCESS) return result;
  // What is shared with other processes, or lies elsewhere, must be the driver's own memory.
  const bool ordinary = poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                        poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  memory_pools().on_created(*pool, ordinary ? poolProps->location.id : MemoryPool::kElsewhere);
  return result;
}

CUresult hook::cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags) noexcept {
  const CUresult result =
      driver().cuMemPoolImportFromShareableHandle(pool_out, handle, handleType, flags);
  if (result == CUDA_SUCCESS) memory_pools().on_created(*pool_out, MemoryPool::kElsewhere);
  return result;
}

CUresult hook::cuMemPoolDestroy(CUmemoryPool pool) noexcept {
  // Looked up first: once the driver has destroyed it, another thread may get a pool at its handle.
  const MemoryPoolPtr known = memory_pools().at(pool);
  const CUresult result = change_passthrough(PassthroughChange::kLateFree,
                                             [pool] { return driver().cuMemPoolDestroy(pool); });
  if (result == CUDA_SUCCESS && known != nullptr) known->on_destroyed();
  return result;
}

CUresult hook::cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                     void* value) noexcept {
  const CUresult result = driver().cuMemPoolGetAttribute(pool, attr, value);
  if (result != CUDA_SUCCESS) return result;
  const MemoryPoolPtr known = memory_pools().at(pool);
  const MemoryPool::Usage ours = known == nullptr ? MemoryPool::Usage{} : known->usage();
  switch (attr) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      add_to(value, ours.current);
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      add_to(value, ours.high);
      break;
    default:
      break;
  }
  return result;
}

CUresult hook::cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                     void* value) noexcept {
  // PyTorch's own allocator keeps what a stream has freed for that stream, and programs rely on it
  // (FSDP2 does): another stream may still read the memory, as long as it is done before the first
  // one's next work. Where superpipe chose the driver's pool, that keeps to it, too. PyTorch sets
  // these attributes before its first allocation.
  int no = 0;
  if (value != nullptr && is_reuse_by_other_streams(attr) && pool_is_our_choice()) value = &no;
  const CUresult result = driver().cuMemPoolSetAttribute(pool, attr, value);
  const bool resets =
      attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
  if (result != CUDA_SUCCESS || !resets) return result;
  if (const MemoryPoolPtr known = memory_pools().at(pool)) known->reset_high();
  return result;
}

CUresult hook::cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) noexcept {
  if (ManagedContext* const managed = ContextRegistry::managed()) managed->residency().trim();
  return change_passthrough(PassthroughChange::kFree,
                            [&] { return driver().cuMemPoolTrimTo(pool, minBytesToKeep); });
}

}  // namespace superpipe
