// The program's own virtual memory: it is not managed, but its pages count against the budget.
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/traced.h"
#include "interposer/passthrough/passthrough_allocation.h"

namespace superpipe {
namespace {

/// Whether the pages that `prop` describes lie on the device of `managed`.
bool lie_on_managed_device(const ManagedContext& managed,
                           const CUmemAllocationProp* prop) noexcept {
  return prop != nullptr && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         prop->location.id == managed.device();
}

/// Whether `address` is a buffer's. The program has it from cuMemAlloc, or from a pool, and the
/// driver refuses what such memory is not good for.
bool is_managed_address(CUdeviceptr address) noexcept {
  const ManagedContext* const managed = ContextRegistry::managed();
  return managed != nullptr && managed->in_arena(address);
}

}  // namespace

CUresult hook::cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                           const CUmemAllocationProp* prop, unsigned long long flags) noexcept {
  const auto call = [&] { return driver().cuMemCreate(handle, size, prop, flags); };
  // A program's first allocation may be of this kind. Pages belong to no context.
  (void)ContextRegistry::of_process().for_allocation();
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || handle == nullptr || !lie_on_managed_device(*managed, prop)) {
    return call();
  }
  const CUresult result = traced_passthrough(managed, Bytes{size}, call);
  if (result == CUDA_SUCCESS) managed->note_own_pages(Bytes{size});
  return result;
}

CUresult hook::cuMemUnmap(CUdeviceptr ptr, size_t size) noexcept {
  if (is_managed_address(ptr)) return CUDA_ERROR_INVALID_VALUE;
  return change_passthrough(PassthroughChange::kFree,
                            [&] { return driver().cuMemUnmap(ptr, size); });
}

CUresult hook::cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) noexcept {
  if (is_managed_address(ptr)) return CUDA_ERROR_INVALID_VALUE;
  return driver().cuMemMap(ptr, size, offset, handle, flags);
}

CUresult hook::cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                              size_t count) noexcept {
  if (is_managed_address(ptr)) return CUDA_ERROR_INVALID_VALUE;
  return driver().cuMemSetAccess(ptr, size, desc, count);
}

CUresult hook::cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                           void* addr) noexcept {
  if (is_managed_address(reinterpret_cast<CUdeviceptr>(addr))) return CUDA_ERROR_INVALID_VALUE;
  return driver().cuMemRetainAllocationHandle(handle, addr);
}

}  // namespace superpipe
