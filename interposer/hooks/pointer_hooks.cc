// What a program can ask about a pointer. Ours are virtual memory, and evicted ones not even
// mapped: the driver would not know them, so the answers are those of an ordinary allocation.
#include <cstdint>
#include <cstring>
#include <optional>

#include "interposer/allocators/memory_pools.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"

namespace superpipe {
namespace {

/// The live managed buffer at `address`, if there is one.
std::optional<BufferRange> managed_range(ManagedContext* managed, CUdeviceptr address) noexcept {
  if (managed == nullptr || !managed->in_arena(address)) return std::nullopt;
  return managed->residency().find(address);
}

template <typename T>
CUresult answer(void* data, T value) noexcept {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

/// One attribute of a managed pointer, as cuPointerGetAttribute types it.
/// @return CUDA_ERROR_INVALID_VALUE for what an ordinary allocation does not have.
CUresult attribute_of(ManagedContext& managed, const BufferRange& range, CUdeviceptr address,
                      CUpointer_attribute attribute, void* data) noexcept {
  // Buffers start on granules, so their addresses make ids; odd ones, unlike the driver's.
  const auto id = static_cast<unsigned long long>(range.base | 1);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer(data, managed.context());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(data, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(data, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return answer(data, static_cast<unsigned char>(0));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer(data, static_cast<unsigned char>(1));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return answer(data, id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer(data, static_cast<int>(managed.device()));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return answer(data, static_cast<CUdeviceptr>(range.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return answer(data, static_cast<std::size_t>(range.size.count()));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer(data, static_cast<unsigned long long>(0));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer(data, static_cast<unsigned int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer(data, memory_pools().pool_of(range.base));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

/// What cuPointerGetAttributes writes for an attribute that the pointer lacks: null or false.
void clear_attribute(CUpointer_attribute attribute, void* data) noexcept {
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
    answer(data, static_cast<void*>(nullptr));
  }
}

}  // namespace

CUresult hook::cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize,
                                       CUdeviceptr dptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || !managed->in_arena(dptr)) {
    return driver().cuMemGetAddressRange_v2(pbase, psize, dptr);
  }
  const auto range = managed_range(managed, dptr);
  if (!range) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = range->base;
  if (psize != nullptr) *psize = range->size.count();
  return CUDA_SUCCESS;
}

CUresult hook::cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                     CUdeviceptr ptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  const auto range = managed_range(managed, ptr);
  if (!range || data == nullptr) return driver().cuPointerGetAttribute(data, attribute, ptr);
  return attribute_of(*managed, *range, ptr, attribute, data);
}

CUresult hook::cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                      void** data, CUdeviceptr ptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  const auto range = managed_range(managed, ptr);
  if (!range || attributes == nullptr || data == nullptr) {
    return driver().cuPointerGetAttributes(numAttributes, attributes, data, ptr);
  }
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (attribute_of(*managed, *range, ptr, attributes[i], data[i]) != CUDA_SUCCESS) {
      clear_attribute(attributes[i], data[i]);
    }
  }
  return CUDA_SUCCESS;
}

CUresult hook::cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                     CUdeviceptr ptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  const auto range = managed_range(managed, ptr);
  if (!range || value == nullptr) return driver().cuPointerSetAttribute(value, attribute, ptr);
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t word = ptr;
  const Status status = managed->pins().pin({&word, 1}, "cuPointerSetAttribute");
  return status == Status::kOk ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace superpipe
