// Tensor maps: remembered, so that the launches that are given one use the buffer behind it.
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/memory_kind.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/submit.h"

namespace superpipe {
namespace {

/// Has the driver write a map of the tensor at `address` through `call`, and remembers it.
///
/// A map that is written where the device can read it by itself may be used without a launch that
/// shows its bytes: its buffer is pinned.
template <typename Call>
CUresult encode(CUtensorMap* map, void* address, const char* function, const Call& call) noexcept {
  NamedWords named;
  named.add(address);
  if (map == nullptr || named.words().empty()) return call();
  if (is_pinned(map)) {
    const CUresult result = submit_pinning(named, function, call);
    if (result == CUDA_SUCCESS)
      (void)named.managed()->tensor_maps().remember(map, named.words().words()[0]);
    return result;
  }
  CUresult result = call();
  if (result != CUDA_SUCCESS) {
    // No driver is known to look whether anything is mapped there. One that does finds it now.
    UsedWords used;
    used.add_reads(reinterpret_cast<CUdeviceptr>(address));
    result = submit_using(used, kLegacyStream, call);
  }
  if (result != CUDA_SUCCESS) return result;
  if (named.managed()->tensor_maps().remember(map, named.words().words()[0])) return result;
  return submit_pinning(named, function, [] { return CUDA_SUCCESS; });
}

}  // namespace

CUresult hook::cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                      cuuint32_t tensorRank, void* globalAddress,
                                      const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                      const cuuint32_t* boxDim, const cuuint32_t* elementStrides,
                                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                      CUtensorMapL2promotion l2Promotion,
                                      CUtensorMapFloatOOBfill oobFill) noexcept {
  return encode(tensorMap, globalAddress, "cuTensorMapEncodeTiled", [&] {
    return driver().cuTensorMapEncodeTiled(tensorMap, tensorDataType, tensorRank, globalAddress,
                                           globalDim, globalStrides, boxDim, elementStrides,
                                           interleave, swizzle, l2Promotion, oobFill);
  });
}

CUresult hook::cuTensorMapEncodeIm2col(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                       cuuint32_t tensorRank, void* globalAddress,
                                       const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                       const int* pixelBoxLowerCorner,
                                       const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                       cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2Promotion,
                                       CUtensorMapFloatOOBfill oobFill) noexcept {
  return encode(tensorMap, globalAddress, "cuTensorMapEncodeIm2col", [&] {
    return driver().cuTensorMapEncodeIm2col(
        tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
        pixelBoxLowerCorner, pixelBoxUpperCorner, channelsPerPixel, pixelsPerColumn, elementStrides,
        interleave, swizzle, l2Promotion, oobFill);
  });
}

CUresult hook::cuTensorMapEncodeIm2colWide(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) noexcept {
  return encode(tensorMap, globalAddress, "cuTensorMapEncodeIm2colWide", [&] {
    return driver().cuTensorMapEncodeIm2colWide(
        tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
        pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, channelsPerPixel, pixelsPerColumn,
        elementStrides, interleave, mode, swizzle, l2Promotion, oobFill);
  });
}

// A copy of the map as it was may still be about, so that this is one map more.
CUresult hook::cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) noexcept {
  return encode(tensorMap, globalAddress, "cuTensorMapReplaceAddress",
                [&] { return driver().cuTensorMapReplaceAddress(tensorMap, globalAddress); });
}

}  // namespace superpipe
