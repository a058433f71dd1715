#include "interposer/passthrough/array_size.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

CUDA_ARRAY3D_DESCRIPTOR array(std::size_t width, std::size_t height, std::size_t depth,
                              CUarray_format format, unsigned int channels) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  description.Width = width;
  description.Height = height;
  description.Depth = depth;
  description.Format = format;
  description.NumChannels = channels;
  return description;
}

TEST(ArraySize, MultipliesExtentsChannelsAndTheirBytes) {
  EXPECT_EQ(array_size(array(1024, 1024, 0, CU_AD_FORMAT_FLOAT, 2), 1), 8_MiB);
  EXPECT_EQ(array_size(array(1024, 0, 0, CU_AD_FORMAT_HALF, 4), 1), 8_KiB);
  EXPECT_EQ(array_size(array(1024, 1024, 2, CU_AD_FORMAT_UNSIGNED_INT8, 4), 1), 8_MiB);
}

TEST(ArraySize, AddsTheLevelsOfAMipmap) {
  // Each level halves every extent, down to one element.
  EXPECT_EQ(array_size(array(1024, 1024, 2, CU_AD_FORMAT_UNSIGNED_INT8, 4), 2), 9_MiB);
  EXPECT_EQ(array_size(array(4, 2, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1), 3), Bytes{8 + 2 + 1});
}

TEST(ArraySize, KeepsTheLayersInEachLevel) {
  auto layered = array(4, 4, 6, CU_AD_FORMAT_UNSIGNED_INT8, 1);
  layered.Flags = CUDA_ARRAY3D_LAYERED;
  EXPECT_EQ(array_size(layered, 2), Bytes{16 * 6 + 4 * 6});
  layered.Flags = CUDA_ARRAY3D_CUBEMAP;
  EXPECT_EQ(array_size(layered, 2), Bytes{16 * 6 + 4 * 6});
}

TEST(ArraySize, IsNothingForArraysWithoutMemoryOfTheirOwn) {
  auto sparse = array(4096, 4096, 0, CU_AD_FORMAT_FLOAT, 4);
  sparse.Flags = CUDA_ARRAY3D_SPARSE;
  EXPECT_EQ(array_size(sparse, 1), std::nullopt);
  sparse.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  EXPECT_EQ(array_size(sparse, 1), std::nullopt);
}

TEST(ArraySize, IsNothingForWhatNoDriverAccepts) {
  EXPECT_EQ(array_size(array(SIZE_MAX, SIZE_MAX, 0, CU_AD_FORMAT_FLOAT, 4), 1), std::nullopt);
  EXPECT_EQ(array_size(array(16, 16, 0, CU_AD_FORMAT_FLOAT, 5), 1), std::nullopt);
  EXPECT_EQ(array_size(array(16, 16, 0, CU_AD_FORMAT_FLOAT, 1), 33), std::nullopt);
}

}  // namespace
}  // namespace superpipe
