#include "interposer/passthrough/array_size.h"

#include <algorithm>
#include <cstdint>

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

}  // namespace

std::optional<Bytes> array_size(const CUDA_ARRAY3D_DESCRIPTOR& array,
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

}  // namespace superpipe
