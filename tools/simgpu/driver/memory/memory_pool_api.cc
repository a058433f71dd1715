// The driver functions of memory pools and stream-ordered allocation.
#include <array>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/memory/memory_pool.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

using PoolPtr = std::shared_ptr<MemoryPool>;

/// Every pool, and which one each device allocates from. Never destroyed.
struct Pools {
  HandleTable<CUmemoryPool, MemoryPool> table;
  std::mutex mutex;
  std::array<std::vector<PoolPtr>, kMaxDevices>
      of_device;  ///< the default first; abandoned ones included
  std::array<PoolPtr, kMaxDevices> current;

  static Pools& instance() {
    static auto* const pools = new Pools;
    return *pools;
  }
  PoolPtr make(Device& device, bool is_default) {
    auto pool = std::make_shared<MemoryPool>(device, is_default);
    pool->handle = table.add(pool);
    of_device[static_cast<std::size_t>(device.ordinal())].push_back(pool);
    return pool;
  }
  PoolPtr default_of(Device& device) {
    const std::lock_guard lock{mutex};
    auto& pools = of_device[static_cast<std::size_t>(device.ordinal())];
    return pools.empty() ? make(device, true) : pools.front();
  }
  PoolPtr current_of(Device& device) {
    PoolPtr first = default_of(device);
    const std::lock_guard lock{mutex};
    PoolPtr& chosen = current[static_cast<std::size_t>(device.ordinal())];
    return chosen == nullptr ? first : chosen;
  }
  void choose(Device& device, PoolPtr pool) {
    const std::lock_guard lock{mutex};
    current[static_cast<std::size_t>(device.ordinal())] = std::move(pool);
  }
};

CUresult check_location(const CUmemLocation* location, CUmemAllocationType type, Device** device) {
  if (location == nullptr || type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  *device = find_device(location->id);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, std::uint64_t size, const PoolPtr& pool, CUstream handle,
                  NullStream null_stream) {
  SIMGPU_CONTEXT(context);
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  const PoolPtr from =
      pool != nullptr ? pool : Pools::instance().current_of(context_of(*stream).device());
  std::uint64_t address = 0;
  const CUresult result = from->allocate(stream, size, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult allocate_async(CUdeviceptr* out, std::uint64_t size, CUstream stream,
                        NullStream null_stream) {
  SIMGPU_ENTER(cuMemAllocAsync);
  return allocate(out, size, nullptr, stream, null_stream);
}

CUresult allocate_from_pool(CUdeviceptr* out, std::uint64_t size, CUmemoryPool handle,
                            CUstream stream, NullStream null_stream) {
  SIMGPU_ENTER(cuMemAllocFromPoolAsync);
  const PoolPtr pool = find_pool(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return allocate(out, size, pool, stream, null_stream);
}

CUresult free_async(CUdeviceptr address, CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuMemFreeAsync);
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  const auto allocation = AddressSpace::instance().allocations().find_at(address);
  if (!allocation || allocation->source != AllocationSource::kPool) return CUDA_ERROR_INVALID_VALUE;
  const PoolPtr pool = pool_of(*allocation);
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : pool->free(stream, address);
}

}  // namespace

PoolPtr pool_of(const Allocation& allocation) {
  // A destroyed pool keeps serving what was allocated from it, though its handle is gone.
  Pools& pools = Pools::instance();
  const std::lock_guard lock{pools.mutex};
  for (const auto& list : pools.of_device) {
    for (const PoolPtr& pool : list) {
      if (pool->handle == allocation.pool) return pool;
    }
  }
  return nullptr;
}

static std::vector<PoolPtr> pools_of(const Device& device) {
  Pools& pools = Pools::instance();
  const std::lock_guard lock{pools.mutex};
  return pools.of_device[static_cast<std::size_t>(device.ordinal())];
}

void trim_pools_of(const Device& device) {
  for (const PoolPtr& pool : pools_of(device)) pool->trim_to_threshold();
}

void empty_pools_of(const Device& device) {
  for (const PoolPtr& pool : pools_of(device)) pool->trim(0);
}

void release_pool_memory_of(const Context& context) {
  for (const Allocation& left :
       AddressSpace::instance().allocations().pool_allocations_of(context)) {
    if (const PoolPtr pool = pool_of(left)) pool->free_now(left.base);
  }
  empty_pools_of(context.device());
}

PoolPtr find_pool(CUmemoryPool handle) {
  PoolPtr found = Pools::instance().table.find(handle);
  if (found == nullptr) {
    log_line(LogLevel::kWarning, "there is no memory pool %p: a real driver may crash",
             static_cast<void*>(handle));
  }
  return found;
}

SIMGPU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return allocate_async(dptr, bytesize, hStream, NullStream::kLegacy);
}
SIMGPU_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return allocate_async(dptr, bytesize, hStream, NullStream::kPerThread);
}
SIMGPU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize,
                                               CUmemoryPool pool, CUstream hStream) {
  return allocate_from_pool(dptr, bytesize, pool, hStream, NullStream::kLegacy);
}
SIMGPU_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize,
                                                    CUmemoryPool pool, CUstream hStream) {
  return allocate_from_pool(dptr, bytesize, pool, hStream, NullStream::kPerThread);
}
SIMGPU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return free_async(dptr, hStream, NullStream::kLegacy);
}
SIMGPU_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  return free_async(dptr, hStream, NullStream::kPerThread);
}

SIMGPU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  SIMGPU_ENTER(cuMemPoolCreate);
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = check_location(&poolProps->location, poolProps->allocType, &device);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  Pools::instance().default_of(*device);  // which is the first of the device's list
  const std::lock_guard lock{Pools::instance().mutex};
  *pool = Pools::instance().make(*device, false)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  SIMGPU_ENTER(cuMemPoolDestroy);
  const auto found = find_pool(pool);
  if (found == nullptr || found->is_default()) return CUDA_ERROR_INVALID_VALUE;
  if (Pools::instance().current_of(found->device()) == found) {
    Pools::instance().choose(found->device(), nullptr);
  }
  Pools::instance().table.remove(pool);
  found->abandon();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  SIMGPU_ENTER(cuMemPoolTrimTo);
  const auto found = find_pool(pool);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  found->trim(minBytesToKeep);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                             void* value) {
  SIMGPU_ENTER(cuMemPoolGetAttribute);
  const auto found = find_pool(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return found->get_attribute(attr, value);
}

SIMGPU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr,
                                             void* value) {
  SIMGPU_ENTER(cuMemPoolSetAttribute);
  const auto found = find_pool(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return found->set_attribute(attr, value);
}

SIMGPU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map,
                                          size_t count) {
  SIMGPU_ENTER(cuMemPoolSetAccess);
  const auto found = find_pool(pool);
  if (found == nullptr || (map == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t index = 0; index < count; ++index) {
    if (map[index].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (find_device(map[index].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const bool own = map[index].location.id == found->device().ordinal();
    // The owner's access cannot be taken away, and there is no peer access to give.
    if (own && map[index].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!own && map[index].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                          CUmemLocation* location) {
  SIMGPU_ENTER(cuMemPoolGetAccess);
  const auto found = find_pool(memPool);
  if (found == nullptr || flags == nullptr || location == nullptr ||
      location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = location->id == found->device().ordinal() ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetDefaultMemPool);
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool_out = Pools::instance().default_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetMemPool);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = Pools::instance().current_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  SIMGPU_ENTER(cuDeviceSetMemPool);
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = find_pool(pool);
  if (found == nullptr || &found->device() != device) return CUDA_ERROR_INVALID_VALUE;
  Pools::instance().choose(*device, found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location,
                                              CUmemAllocationType type) {
  SIMGPU_ENTER(cuMemGetDefaultMemPool);
  Device* device = nullptr;
  if (const CUresult result = check_location(location, type, &device); result != CUDA_SUCCESS) {
    return result;
  }
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool_out = Pools::instance().default_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                       CUmemAllocationType type) {
  SIMGPU_ENTER(cuMemGetMemPool);
  Device* device = nullptr;
  if (const CUresult result = check_location(location, type, &device); result != CUDA_SUCCESS) {
    return result;
  }
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = Pools::instance().current_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                       CUmemoryPool pool) {
  SIMGPU_ENTER(cuMemSetMemPool);
  Device* device = nullptr;
  if (const CUresult result = check_location(location, type, &device); result != CUDA_SUCCESS) {
    return result;
  }
  const auto found = find_pool(pool);
  if (found == nullptr || &found->device() != device) return CUDA_ERROR_INVALID_VALUE;
  Pools::instance().choose(*device, found);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
