// CUDA arrays: they have no address, so they are never managed, but they take device memory.
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/traced.h"
#include "interposer/passthrough/array_size.h"
#include "interposer/passthrough/passthrough_allocation.h"

namespace superpipe {
namespace {

/// Has the driver make the array through `call`, and write its handle to `handle`.
template <typename Handle, typename Call>
CUresult create(Handle* handle, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned int levels,
                const Call& call) noexcept {
  const auto size = array_size(array, levels);
  if (handle == nullptr || !size) return call();
  return traced_passthrough(ContextRegistry::of_process().for_current_device(), *size, call);
}

}  // namespace

CUresult hook::cuArrayCreate_v2(CUarray* pHandle,
                                const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) noexcept {
  const auto call = [&] { return driver().cuArrayCreate_v2(pHandle, pAllocateArray); };
  if (pAllocateArray == nullptr) return call();
  CUDA_ARRAY3D_DESCRIPTOR array{};
  array.Width = pAllocateArray->Width;
  array.Height = pAllocateArray->Height;
  array.Format = pAllocateArray->Format;
  array.NumChannels = pAllocateArray->NumChannels;
  return create(pHandle, array, 1, call);
}
CUresult hook::cuArray3DCreate_v2(CUarray* pHandle,
                                  const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) noexcept {
  const auto call = [&] { return driver().cuArray3DCreate_v2(pHandle, pAllocateArray); };
  return pAllocateArray == nullptr ? call() : create(pHandle, *pAllocateArray, 1, call);
}
CUresult hook::cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) noexcept {
  const auto call = [&] {
    return driver().cuMipmappedArrayCreate(pHandle, pMipmappedArrayDesc, numMipmapLevels);
  };
  return pMipmappedArrayDesc == nullptr
             ? call()
             : create(pHandle, *pMipmappedArrayDesc, numMipmapLevels, call);
}

}  // namespace superpipe
