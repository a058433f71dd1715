// The driver functions of memory pools and stream-ordered allocation.
#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/graph_allocation.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/pool_table.h"
#include "tools/simgpu/driver/streams/stream_object.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {
namespace {

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
  CUdeviceptr captured = 0;
  if (const auto answer = capture_allocation(stream, size, &captured)) {
    if (*answer == CUDA_SUCCESS) *out = captured;
    return *answer;
  }
  await_room(stream);
  const PoolPtr from =
      pool != nullptr ? pool : PoolTable::instance().current_of(context_of(*stream).device());
  std::uint64_t address = 0;
  const CUresult result = from->allocate(stream, size, &address);
  *out = address;  // 0 where it failed, as with drivers
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
  // A stream that is named tells the context; the default ones need a current one.
  const StreamPtr named = find_made_stream(handle);
  Context* const context = named != nullptr ? &named->context : current_context();
  if (const CUresult broken = check_context(context); broken != CUDA_SUCCESS) return broken;
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = capture_free(stream, address)) return *answer;
  CUresult of_graph = CUDA_SUCCESS;
  if (GraphAllocation::free_at(address, stream, &of_graph)) return of_graph;
  auto allocation = AddressSpace::instance().allocations().find_at(address);
  if (!allocation || allocation->source != AllocationSource::kPool) return CUDA_ERROR_INVALID_VALUE;
  const PoolPtr pool = allocation->pool;
  allocation.reset();  // its life is to end with the free
  await_room(stream);
  return pool->free(stream, address);
}

}  // namespace

SIMGPU_STREAM_VARIANTS(cuMemAllocAsync, _ptsz,
                       (CUdeviceptr * dptr, size_t bytesize, CUstream hStream), allocate_async,
                       dptr, bytesize, hStream);
SIMGPU_STREAM_VARIANTS(cuMemAllocFromPoolAsync, _ptsz,
                       (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
                       allocate_from_pool, dptr, bytesize, pool, hStream);
SIMGPU_STREAM_VARIANTS(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), free_async,
                       dptr, hStream);

SIMGPU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  SIMGPU_ENTER(cuMemPoolCreate);
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  if (const CUresult result = check_location(&poolProps->location, poolProps->allocType, &device);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  *pool = PoolTable::instance().create(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  SIMGPU_ENTER(cuMemPoolDestroy);
  const auto found = find_pool(pool);
  if (found == nullptr || found->is_default()) return CUDA_ERROR_INVALID_VALUE;
  PoolTable::instance().destroy(found);
  found->abandon();
  if (found->gone()) PoolTable::instance().forget(found);
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
    // The owner's access cannot be taken away, and other devices have all access or none.
    const bool is_open = map[index].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!is_open && (own || map[index].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (size_t index = 0; index < count; ++index) {
    found->open_to(map[index].location.id, map[index].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
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
  if (find_device(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = found->is_open_to(location->id) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetDefaultMemPool);
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool_out = PoolTable::instance().default_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  SIMGPU_ENTER(cuDeviceGetMemPool);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = PoolTable::instance().current_of(*device)->handle;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  SIMGPU_ENTER(cuDeviceSetMemPool);
  Device* const device = find_device(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = find_pool(pool);
  if (found == nullptr || &found->device() != device) return CUDA_ERROR_INVALID_VALUE;
  PoolTable::instance().choose(*device, found);
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
  *pool_out = PoolTable::instance().default_of(*device)->handle;
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
  *pool = PoolTable::instance().current_of(*device)->handle;
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
  PoolTable::instance().choose(*device, found);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
