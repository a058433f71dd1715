// What an address is: cuPointerGetAttribute and its relatives.
#include <cstring>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/memory_pool.h"

namespace simgpu {
namespace {

/// What is known about one address.
struct PointerFacts {
  std::optional<Allocation> allocation;
  std::optional<AddressRange> mapping;
  std::optional<PinnedRange> pinned;

  [[nodiscard]] bool known() const { return allocation || mapping || pinned; }
  [[nodiscard]] bool in_device_addresses() const { return allocation || mapping; }
  /// Mapped memory that lies on the host is the host's.
  [[nodiscard]] bool on_device() const { return allocation || (mapping && mapping->device >= 0); }
};

PointerFacts facts_of(std::uint64_t address) {
  AddressSpace& space = AddressSpace::instance();
  PointerFacts facts;
  facts.allocation = space.allocations().find(address);
  if (!facts.allocation) facts.mapping = space.mappings().find_mapping(address);
  if (!facts.in_device_addresses()) facts.pinned = space.pinned().find(address);
  return facts;
}

int ordinal_of(const PointerFacts& facts) {
  if (facts.allocation) return facts.allocation->device().ordinal();
  if (facts.mapping) return facts.on_device() ? facts.mapping->device : CU_DEVICE_CPU;
  return facts.pinned ? facts.pinned->context->device().ordinal() : CU_DEVICE_INVALID;
}

/// Memory mapped by cuMemMap belongs to no context, nor does a pool's (CUDA C++ Programming Guide,
/// "Stream Ordered Memory Allocator": the query succeeds, and tells of none).
CUcontext context_of(const PointerFacts& facts) {
  if (facts.allocation) {
    return facts.allocation->pool == nullptr ? facts.allocation->context->handle() : nullptr;
  }
  return facts.pinned ? facts.pinned->context->handle() : nullptr;
}

AddressRange range_of(const PointerFacts& facts) {
  if (facts.mapping) return *facts.mapping;
  AddressRange range;
  range.base = facts.allocation ? facts.allocation->base : facts.pinned->base;
  range.size = facts.allocation ? facts.allocation->size : facts.pinned->size;
  return range;
}

template <typename Value>
CUresult put(void* data, Value value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

/// REQUIRES: facts.known().
CUresult get(void* data, CUpointer_attribute attribute, std::uint64_t address,
             const PointerFacts& facts) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put<CUcontext>(data, context_of(facts));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(data, facts.on_device() ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put<CUdeviceptr>(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (facts.on_device() || (facts.mapping && !facts.mapping->open_to_host)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      return put<void*>(data, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return put<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put<bool>(data, false);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      if (facts.mapping) return put<std::uint64_t>(data, facts.mapping->base);
      return put<std::uint64_t>(data, facts.allocation ? facts.allocation->id : facts.pinned->id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(data, ordinal_of(facts));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put<CUdeviceptr>(data, range_of(facts).base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put<std::size_t>(data, range_of(facts).size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<bool>(data, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<std::uint64_t>(data, CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      const Context* const context = current_context();
      if (facts.mapping && context != nullptr) {
        AddressSpace::instance().mappings().get_access(address, context->device().ordinal(),
                                                       &flags);
      }
      return put<unsigned>(data, static_cast<unsigned>(flags));
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put<CUmemoryPool>(data, facts.allocation && facts.allocation->pool != nullptr
                                         ? facts.allocation->pool->handle
                                         : nullptr);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

std::size_t size_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return sizeof(bool);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return sizeof(unsigned);
    default:
      return 8;
  }
}

/// As cuPointerGetAttributes documents for memory CUDA does not know: zeros, and an invalid
/// ordinal.
void put_unknown(void* data, CUpointer_attribute attribute) {
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    put<int>(data, CU_DEVICE_INVALID);
  } else {
    std::memset(data, 0, size_of(attribute));
  }
}

bool is_known_attribute(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
         attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
         attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                             CUdeviceptr ptr) {
  SIMGPU_ENTER(cuPointerGetAttribute);
  SIMGPU_CONTEXT(context);
  if (data == nullptr || !is_known_attribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const PointerFacts facts = facts_of(ptr);
  if (facts.known()) return get(data, attribute, ptr, facts);
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return put<bool>(data, false);
  return CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes,
                                              CUpointer_attribute* attributes, void** data,
                                              CUdeviceptr ptr) {
  SIMGPU_ENTER(cuPointerGetAttributes);
  SIMGPU_CONTEXT(context);
  if (numAttributes == 0 || attributes == nullptr || data == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned index = 0; index < numAttributes; ++index) {
    if (data[index] == nullptr || !is_known_attribute(attributes[index])) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const PointerFacts facts = facts_of(ptr);
  for (unsigned index = 0; index < numAttributes; ++index) {
    if (!facts.known() || get(data[index], attributes[index], ptr, facts) != CUDA_SUCCESS) {
      put_unknown(data[index], attributes[index]);
    }
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                             CUdeviceptr ptr) {
  SIMGPU_ENTER(cuPointerSetAttribute);
  SIMGPU_CONTEXT(context);
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !facts_of(ptr).known()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;  // accepted, without an effect on copies and fills
}

}  // namespace simgpu
