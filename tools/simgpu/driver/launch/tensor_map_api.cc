// The driver functions of tensor maps (CUDA Driver API, Tensor Map Object Management).
#include <cstdint>
#include <cstring>

#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/tensor_map.h"

namespace simgpu {
namespace {

constexpr cuuint32_t kMostDimensions = 5;
constexpr cuuint64_t kLargestExtent = cuuint64_t{1} << 32;
constexpr cuuint64_t kLargestStride = cuuint64_t{1} << 40;
constexpr cuuint32_t kLargestBox = 256;
constexpr cuuint32_t kLargestStep = 8;
constexpr int kTypes = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B + 1;

/// What all ways to encode a map are given.
struct Tensor {
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void* address;
  const cuuint64_t* extents;
  const cuuint64_t* strides;  ///< in bytes, of all dimensions but the first
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
};

/// Adds `value` to a digest.
void add(std::uint64_t& digest, std::uint64_t value) {
  digest = (digest ^ value) * 0x100000001B3ULL;
}

bool is_aligned(const void* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

bool is_valid(const Tensor& tensor, cuuint32_t least_rank) {
  const bool by_32 = tensor.interleave == CU_TENSOR_MAP_INTERLEAVE_32B;
  if (static_cast<int>(tensor.type) < 0 || static_cast<int>(tensor.type) >= kTypes ||
      tensor.rank < least_rank || tensor.rank > kMostDimensions || tensor.address == nullptr ||
      !is_aligned(tensor.address, by_32 ? 32 : 16) || tensor.extents == nullptr ||
      tensor.steps == nullptr || (tensor.rank > 1 && tensor.strides == nullptr)) {
    return false;
  }
  for (cuuint32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.extents[i] == 0 || tensor.extents[i] > kLargestExtent || tensor.steps[i] == 0 ||
        tensor.steps[i] > kLargestStep) {
      return false;
    }
  }
  for (cuuint32_t i = 0; i + 1 < tensor.rank; ++i) {
    if (tensor.strides[i] % (by_32 ? 32 : 16) != 0 || tensor.strides[i] >= kLargestStride) {
      return false;
    }
  }
  return true;
}

std::uint64_t digest_of(const Tensor& tensor) {
  std::uint64_t digest = 0xCBF29CE484222325ULL;
  add(digest, static_cast<std::uint64_t>(tensor.type));
  add(digest, static_cast<std::uint64_t>(tensor.interleave));
  for (cuuint32_t i = 0; i < tensor.rank; ++i) {
    add(digest, tensor.extents[i]);
    add(digest, tensor.steps[i]);
    if (i + 1 < tensor.rank) add(digest, tensor.strides[i]);
  }
  return digest;
}

void write(CUtensorMap* target, const void* address, std::uint64_t shape) {
  TensorMap map{};
  map.mark = TensorMap::kMark;
  map.shape = shape;
  set_address(map, reinterpret_cast<std::uintptr_t>(address));
  std::memcpy(target, &map, sizeof(map));
}

/// Encodes `tensor` as convolutions use it, with `channels` and `pixels` of a column.
CUresult encode_columns(CUtensorMap* target, const Tensor& tensor, cuuint32_t channels,
                        cuuint32_t pixels, bool corners_given) {
  constexpr cuuint32_t kMostPixels = 1024;
  if (target == nullptr || !is_aligned(target, kTensorMapAlignment) || !is_valid(tensor, 3) ||
      !corners_given || channels == 0 || channels > kLargestBox || pixels == 0 ||
      pixels > kMostPixels) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t digest = digest_of(tensor);
  add(digest, channels);
  add(digest, pixels);
  write(target, tensor.address, digest);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuTensorMapEncodeTiled(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    const cuuint32_t* boxDim, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  SIMGPU_ENTER(cuTensorMapEncodeTiled);
  const Tensor tensor{tensorDataType, tensorRank,     globalAddress, globalDim,
                      globalStrides,  elementStrides, interleave};
  if (tensorMap == nullptr || !is_aligned(tensorMap, kTensorMapAlignment) || boxDim == nullptr ||
      !is_valid(tensor, 1)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t digest = digest_of(tensor);
  for (cuuint32_t i = 0; i < tensorRank; ++i) {
    if (boxDim[i] == 0 || boxDim[i] > kLargestBox) return CUDA_ERROR_INVALID_VALUE;
    add(digest, boxDim[i]);
  }
  for (const int choice :
       {static_cast<int>(swizzle), static_cast<int>(l2Promotion), static_cast<int>(oobFill)}) {
    add(digest, static_cast<std::uint64_t>(choice));
  }
  write(tensorMap, globalAddress, digest);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuTensorMapEncodeIm2col(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    const int* pixelBoxLowerCorner, const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  SIMGPU_ENTER(cuTensorMapEncodeIm2col);
  return encode_columns(tensorMap,
                        {tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                         elementStrides, interleave},
                        channelsPerPixel, pixelsPerColumn,
                        pixelBoxLowerCorner != nullptr && pixelBoxUpperCorner != nullptr);
}

SIMGPU_EXPORT CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides, int, int,
    cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides,
    CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  SIMGPU_ENTER(cuTensorMapEncodeIm2colWide);
  return encode_columns(tensorMap,
                        {tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                         elementStrides, interleave},
                        channelsPerPixel, pixelsPerColumn, /*corners_given=*/true);
}

SIMGPU_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) {
  SIMGPU_ENTER(cuTensorMapReplaceAddress);
  if (tensorMap == nullptr || !is_aligned(tensorMap, kTensorMapAlignment) ||
      address_of_tensor(tensorMap) == 0 || globalAddress == nullptr ||
      !is_aligned(globalAddress, 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TensorMap map{};
  std::memcpy(&map, tensorMap, sizeof(map));
  set_address(map, reinterpret_cast<std::uintptr_t>(globalAddress));
  std::memcpy(tensorMap, &map, sizeof(map));
  return CUDA_SUCCESS;
}

}  // namespace simgpu
