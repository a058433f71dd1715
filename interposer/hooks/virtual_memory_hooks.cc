// The program's own virtual memory: not managed, but its pages count against the budget.
#include <cstdint>

#include "interposer/driver/codes.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/submit.h"
#include "interposer/passthrough/device_changes.h"
#include "interposer/passthrough/page_accounts.h"
#include "interposer/passthrough/unmanaged_allocation.h"

namespace superpipe {
namespace {

/// Whether the pages that `prop` describes lie on the managed device.
bool counts_against_budget(const ManagedContext& managed,
                           const CUmemAllocationProp* prop) noexcept {
  return prop != nullptr && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop->location.id == managed.device();
}

}  // namespace

CUresult hook::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                           const CUmemAllocationProp* prop, unsigned long long flags) noexcept {
  const auto call = [&] { return driver().cuMemCreate(handle, size, prop, flags); };
  // The first allocation of a program may be of this kind. Pages belong to no context.
  (void)ContextRegistry::of_process().for_allocation();
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || handle == nullptr || !counts_against_budget(*managed, prop)) {
    return call();
  }
  return allocate_unmanaged(managed, {Bytes{size}}, call, [handle, size](ManagedContext& counted) {
    counted.unmanaged().pages().create(*handle, Bytes{size});
  });
}

CUresult hook::cuMemRelease(CUmemGenericAllocationHandle handle) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return driver().cuMemRelease(handle);
  const DeviceChanges::Section section;
  PageAccounts::Pages pages = managed->unmanaged().pages().take_reference(handle);
  const CUresult result = driver().cuMemRelease(handle);
  if (result != CUDA_SUCCESS) managed->unmanaged().pages().put_back(handle, pages);
  pages.reset();  // counted inside the section
  return result;
}

CUresult hook::cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) noexcept {
  const CUresult result = driver().cuMemMap(ptr, size, offset, handle, flags);
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr && result == CUDA_SUCCESS) {
    managed->unmanaged().pages().map(ptr, Bytes{size}, handle);
  }
  return result;
}

CUresult hook::cuMemUnmap(CUdeviceptr ptr, size_t size) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return driver().cuMemUnmap(ptr, size);
  // What buffers stand on is not the program's to take away.
  if (managed->in_arena(ptr)) return CUDA_ERROR_INVALID_VALUE;
  const DeviceChanges::Section section;
  auto mappings = managed->unmanaged().pages().take_mappings(ptr, Bytes{size});
  const CUresult result = driver().cuMemUnmap(ptr, size);
  if (result != CUDA_SUCCESS) managed->unmanaged().pages().put_back(mappings);
  mappings.clear();  // counted inside the section
  return result;
}

CUresult hook::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                           void* addr) noexcept {
  NamedWords named;
  named.add(addr);
  return submit_pinning(named, "cuMemRetainAllocationHandle", [&] {
    const CUresult result = driver().cuMemRetainAllocationHandle(handle, addr);
    ManagedContext* const managed = ContextRegistry::managed();
    if (managed != nullptr && result == CUDA_SUCCESS) {
      managed->unmanaged().pages().retain(*handle, reinterpret_cast<std::uintptr_t>(addr));
    }
    return result;
  });
}

CUresult hook::cuMemExportToShareableHandle(void* shareableHandle,
                                            CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) noexcept {
  const CUresult result =
      driver().cuMemExportToShareableHandle(shareableHandle, handle, handleType, flags);
  // Whoever imports it holds the pages too.
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed != nullptr && result == CUDA_SUCCESS) {
    managed->unmanaged().pages().keep_for_good(handle);
  }
  return result;
}

}  // namespace superpipe
