// CUDA arrays: without an address, never managed, but on the device, so they count.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/passthrough/unmanaged_allocation.h"

namespace superpipe {
namespace {

/// Bytes of one channel of an element. Formats that are not listed are planar, packed or
/// block-compressed, of a byte or less.
std::uint64_t channel_bytes(CUarray_format format) noexcept {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 1;
  }
}

/// The least that `levels` mipmap levels of an array take. The driver pads rows and tiles, which
/// cannot be seen from outside; the blocks that UnmanagedMemory rounds to cover most of it.
/// @return nullopt if nothing is allocated, or what was asked is not to be taken seriously.
std::optional<Bytes> array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& array,
                                 unsigned int levels) noexcept {
  if ((array.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
    return std::nullopt;
  }
  constexpr std::uint64_t kLargestExtent = std::uint64_t{1} << 18;  // their product fits 64 bits
  constexpr unsigned int kMostLevels = 32;
  if (std::max({array.Width, array.Height, array.Depth}) > kLargestExtent ||
      array.NumChannels > 4 || levels > kMostLevels) {
    return std::nullopt;
  }
  const bool layered = (array.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const auto extent = [](std::uint64_t size, unsigned int level) {
    return std::max<std::uint64_t>(size >> level, 1);
  };
  Bytes total;
  for (unsigned int level = 0; level < levels; ++level) {
    total += Bytes{extent(array.Width, level) * extent(array.Height, level) *
                   extent(array.Depth, layered ? 0 : level) * array.NumChannels *
                   channel_bytes(array.Format)};
  }
  return total;
}

/// Has the driver make the array through `call`; it writes the array's handle to `handle`.
template <typename Handle, typename Call>
CUresult create(Handle* handle, const CUDA_ARRAY3D_DESCRIPTOR& array, unsigned int levels,
                const Call& call) noexcept {
  const auto size = array_bytes(array, levels);
  ManagedContext* const managed = ContextRegistry::of_process().for_current_device();
  if (handle == nullptr || !size || managed == nullptr) return call();
  return allocate_unmanaged(managed, {*size}, call, [handle, &size](ManagedContext& counted) {
    counted.unmanaged().remember(reinterpret_cast<std::uintptr_t>(*handle), {*size});
  });
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

CUresult hook::cuArrayDestroy(CUarray hArray) noexcept {
  return free_unmanaged(ContextRegistry::managed(), reinterpret_cast<std::uintptr_t>(hArray),
                        [&] { return driver().cuArrayDestroy(hArray); });
}
CUresult hook::cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) noexcept {
  return free_unmanaged(ContextRegistry::managed(),
                        reinterpret_cast<std::uintptr_t>(hMipmappedArray),
                        [&] { return driver().cuMipmappedArrayDestroy(hMipmappedArray); });
}

}  // namespace superpipe
