// The driver functions of virtual memory management.
#include <cstdlib>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace simgpu {
namespace {

/// The sticky error of the current context. These functions need no context, but where there is one
/// with a sticky error it refuses them, too.
CUresult current_sticky_error() {
  const Context* const context = current_context();
  return context == nullptr ? CUDA_SUCCESS : context->sticky_error();
}

/// The host has one node.
constexpr int kHostNode = 0;

bool is_on_host(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

bool is_host_place(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location.id == kHostNode);
}

CUresult check_properties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool on_host = is_on_host(prop->location);
  if ((on_host && configuration().host_pages == HostPagePolicy::kOff) ||
      prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
      prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (on_host) return is_host_place(prop->location) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return find_device(prop->location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

/// A page on the host, or what the driver answers that SIMGPU_HOST_PAGES says simgpu is.
CUresult create_on_host(const CUmemAllocationProp& prop, std::size_t size, PhysicalPtr* physical) {
  const HostPagePolicy policy = configuration().host_pages;
  const bool of_node = prop.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (policy == HostPagePolicy::kCrash) std::abort();
  if (policy == HostPagePolicy::kRefused || (policy == HostPagePolicy::kNoNuma && of_node)) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  *physical = Physical::create_on_host(size);
  if (*physical == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  charge_host_page(size);
  return CUDA_SUCCESS;
}

CUresult create_on_device(const CUmemAllocationProp& prop, std::size_t size,
                          PhysicalPtr* physical) {
  *physical = Physical::create(find_device(prop.location.id)->small_allocations(), size);
  return *physical == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

bool is_granular(std::uint64_t value) { return value % kGranularity == 0; }

bool is_granular_range(std::uint64_t address, std::uint64_t size) {
  return size != 0 && is_granular(address) && is_granular(size) && address + size > address;
}

bool is_valid_access(const CUmemAccessDesc& access) {
  return (access.location.type == CU_MEM_LOCATION_TYPE_DEVICE
              ? find_device(access.location.id) != nullptr
              : is_host_place(access.location)) &&
         (access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

}  // namespace

#define SIMGPU_UNBROKEN()                                                                     \
  if (const CUresult simgpu_broken = current_sticky_error(); simgpu_broken != CUDA_SUCCESS) { \
    return simgpu_broken;                                                                     \
  }                                                                                           \
  static_assert(true, "take a semicolon")

SIMGPU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment,
                                           CUdeviceptr addr, unsigned long long flags) {
  SIMGPU_ENTER(cuMemAddressReserve);
  SIMGPU_UNBROKEN();
  if (ptr == nullptr || size == 0 || !is_granular(size) || flags != 0 ||
      (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t address = 0;
  const CUresult result =
      AddressSpace::instance().mappings().reserve(size, alignment, addr, &address);
  if (result == CUDA_SUCCESS) *ptr = address;
  return result;
}

SIMGPU_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  SIMGPU_ENTER(cuMemAddressFree);
  SIMGPU_UNBROKEN();
  return AddressSpace::instance().mappings().release_reservation(ptr, size);
}

SIMGPU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                                   const CUmemAllocationProp* prop, unsigned long long flags) {
  SIMGPU_ENTER(cuMemCreate);
  SIMGPU_UNBROKEN();
  if (handle == nullptr || size == 0 || !is_granular(size) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  PhysicalPtr physical;
  if (const CUresult result = is_on_host(prop->location) ? create_on_host(*prop, size, &physical)
                                                         : create_on_device(*prop, size, &physical);
      result != CUDA_SUCCESS) {
    return result;
  }
  *handle = AddressSpace::instance().mappings().add_handle(std::move(physical), *prop);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  SIMGPU_ENTER(cuMemRelease);
  SIMGPU_UNBROKEN();
  return AddressSpace::instance().mappings().release_handle(handle);
}

SIMGPU_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                   void* addr) {
  SIMGPU_ENTER(cuMemRetainAllocationHandle);
  SIMGPU_UNBROKEN();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::instance().mappings().retain_handle_at(reinterpret_cast<std::uint64_t>(addr),
                                                              handle);
}

SIMGPU_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                              CUmemGenericAllocationHandle handle) {
  SIMGPU_ENTER(cuMemGetAllocationPropertiesFromHandle);
  SIMGPU_UNBROKEN();
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::instance().mappings().handle_properties(handle, prop);
}

SIMGPU_EXPORT CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                                     const CUmemAllocationProp* prop,
                                                     CUmemAllocationGranularity_flags option) {
  SIMGPU_ENTER(cuMemGetAllocationGranularity);
  SIMGPU_UNBROKEN();
  if (granularity == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = check_properties(prop); result != CUDA_SUCCESS) return result;
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  SIMGPU_ENTER(cuMemMap);
  SIMGPU_UNBROKEN();
  if (!is_granular_range(ptr, size) || offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::instance().mappings().map(ptr, size, handle);
}

SIMGPU_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  SIMGPU_ENTER(cuMemUnmap);
  SIMGPU_UNBROKEN();
  if (!is_granular_range(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
  if (HostPages::instance().in_use()) charge_busy_unmap();
  return AddressSpace::instance().mappings().unmap(ptr, size);
}

SIMGPU_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                      size_t count) {
  SIMGPU_ENTER(cuMemSetAccess);
  SIMGPU_UNBROKEN();
  if (!is_granular_range(ptr, size) || desc == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t index = 0; index < count; ++index) {
    if (is_on_host(desc[index].location) && configuration().host_pages == HostPagePolicy::kOff) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!is_valid_access(desc[index])) {
      return desc[index].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                     find_device(desc[index].location.id) == nullptr
                 ? CUDA_ERROR_INVALID_DEVICE
                 : CUDA_ERROR_INVALID_VALUE;
    }
  }
  return AddressSpace::instance().mappings().set_access(ptr, size, desc, count);
}

SIMGPU_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                      CUdeviceptr ptr) {
  SIMGPU_ENTER(cuMemGetAccess);
  SIMGPU_UNBROKEN();
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MappingTable& mappings = AddressSpace::instance().mappings();
  const bool has_pages = configuration().host_pages != HostPagePolicy::kOff;
  if (has_pages && is_host_place(*location)) return mappings.get_host_access(ptr, flags);
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (find_device(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return mappings.get_access(ptr, location->id, flags);
}

}  // namespace simgpu
