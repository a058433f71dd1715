// cuMemAlloc and its relatives.
#include <algorithm>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/graph_allocation.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/device_memory.h"
#include "tools/simgpu/driver/memory/pool_table.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kPitchAlignment = 512;

CUresult allocate(CUdeviceptr* out, std::uint64_t size) {
  SIMGPU_CONTEXT(context);
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  // Memory that pools keep for reuse is given up before an allocation fails.
  std::uint64_t address = 0;
  CUresult result = allocate_device(*context, size, &address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    empty_pools_of(context->device());
    result = allocate_device(*context, size, &address);
  }
  *out = address;  // 0 where it failed, as with drivers
  return result;
}

CUresult mem_alloc(CUdeviceptr* out, std::uint64_t size) {
  SIMGPU_ENTER(cuMemAlloc);
  return allocate(out, size);
}

CUresult mem_alloc_pitch(CUdeviceptr* out, std::uint64_t* pitch, std::uint64_t width,
                         std::uint64_t height, unsigned element_size) {
  SIMGPU_ENTER(cuMemAllocPitch);
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      (element_size != 4 && element_size != 8 && element_size != 16) ||
      width > (std::uint64_t{1} << 40)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::uint64_t bytes = align_up(width, kPitchAlignment);
  if (height > (std::uint64_t{1} << 62) / bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate(out, bytes * height);
  if (result == CUDA_SUCCESS) *pitch = bytes;
  return result;
}

/// Waits for all work, as the driver does: whatever still uses the memory finishes first. But not
/// where the memory came from a pool: the program must have waited itself.
CUresult mem_free(CUdeviceptr address) {
  SIMGPU_ENTER(cuMemFree);
  SIMGPU_CONTEXT(context);
  if (address == 0) return CUDA_SUCCESS;
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (GraphAllocation::find(address) != nullptr) {
    CUresult result = synchronize(*context);
    if (result == CUDA_SUCCESS) GraphAllocation::free_at(address, nullptr, &result);
    return result;
  }
  PoolPtr pool;
  Context* owner = nullptr;
  {
    // Nobody here may hold it any more when it is freed.
    const auto allocation = AddressSpace::instance().allocations().find_at(address);
    if (!allocation) return CUDA_ERROR_INVALID_VALUE;
    pool = allocation->pool;
    owner = &*allocation->context;
  }
  if (pool != nullptr) return pool->free_now(address);
  if (const CUresult result = synchronize(*owner); result != CUDA_SUCCESS) return result;
  return free_device(address);
}

CUresult get_info(std::uint64_t* free, std::uint64_t* total) {
  SIMGPU_ENTER(cuMemGetInfo);
  SIMGPU_CONTEXT(context);
  const Device& device = context->device();
  const std::uint64_t others = device.used_by_others();
  const std::uint64_t taken = std::min(device.capacity(), device.used() + others);
  if (free != nullptr) *free = device.capacity() - taken;
  if (total != nullptr) *total = device.capacity();
  return CUDA_SUCCESS;
}

CUresult get_address_range(CUdeviceptr* base, std::uint64_t* size, CUdeviceptr address) {
  SIMGPU_ENTER(cuMemGetAddressRange);
  SIMGPU_CONTEXT(context);
  const auto allocation = AddressSpace::instance().allocations().find(address);
  if (!allocation) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation->base;
  if (size != nullptr) *size = allocation->size;
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return mem_alloc(dptr, bytesize);
}

SIMGPU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                          size_t Height, unsigned int ElementSizeBytes) {
  return mem_alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
}

SIMGPU_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) { return mem_free(dptr); }

SIMGPU_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return get_info(free, total);
}

SIMGPU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize,
                                               CUdeviceptr dptr) {
  return get_address_range(pbase, psize, dptr);
}

}  // namespace simgpu
