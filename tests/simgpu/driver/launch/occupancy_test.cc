// Occupancy against numbers worked out by hand from the limits of compute capability 9.0.
#include "tools/simgpu/driver/launch/occupancy.h"

#include <gtest/gtest.h>

#include "tools/simgpu/driver/code/function_attributes.h"

namespace simgpu {
namespace {

int blocks(int threads, int registers = 0, std::size_t shared = 0) {
  return resident_blocks({.threads = threads, .registers = registers, .shared_bytes = shared});
}

TEST(ResidentBlocks, IsLimitedByThreads) {
  EXPECT_EQ(blocks(1024), 2);
  EXPECT_EQ(blocks(256), 8);
  EXPECT_EQ(blocks(33), 32);  // two warps: 2048 / 64
}

TEST(ResidentBlocks, IsLimitedByBlockCount) { EXPECT_EQ(blocks(1), 32); }

TEST(ResidentBlocks, IsLimitedByRegisters) {
  EXPECT_EQ(blocks(256, 32), 8);    // 8 warps of 1024 registers: 8 blocks fill 65536
  EXPECT_EQ(blocks(256, 33), 6);    // rounded up to 1280 a warp
  EXPECT_EQ(blocks(1024, 128), 0);  // 131072 registers: not even one
}

TEST(ResidentBlocks, IsLimitedBySharedMemory) {
  EXPECT_EQ(blocks(32, 0, 232448), 1);  // the most a block can have
  EXPECT_EQ(blocks(32, 0, 232449), 0);
  EXPECT_EQ(blocks(32, 0, 49152), 4);  // with 1 KiB for the system each
}

TEST(ResidentBlocks, IsZeroForBlocksThatNoDeviceHas) {
  EXPECT_EQ(blocks(0), 0);
  EXPECT_EQ(blocks(1025), 0);
}

TEST(SharedBytesFor, FillsTheMultiprocessorExactly) {
  for (int wanted = 1; wanted <= 8; ++wanted) {
    const std::size_t bytes = shared_bytes_for(wanted, {.threads = 256});
    EXPECT_EQ(blocks(256, 0, bytes), wanted);
    EXPECT_LT(blocks(256, 0, bytes + 128), wanted);
  }
  EXPECT_EQ(shared_bytes_for(9, {.threads = 256}), 0U);
}

TEST(FunctionAttributes, DescribesTheKernel) {
  KernelImage image;
  image.static_shared_bytes = 512;
  image.registers = 40;
  image.max_threads = 128;
  const FunctionAttributes attributes(image);
  EXPECT_EQ(attributes.value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
  EXPECT_EQ(attributes.value(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 512);
  EXPECT_EQ(attributes.value(CU_FUNC_ATTRIBUTE_NUM_REGS), 40);
  EXPECT_EQ(attributes.value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES), 49152 - 512);
  EXPECT_EQ(attributes.value(CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
}

TEST(FunctionAttributes, SetsDynamicSharedMemoryUpToTheOptIn) {
  KernelImage image;
  image.static_shared_bytes = 512;
  FunctionAttributes attributes(image);
  constexpr auto kDynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(attributes.set(kDynamic, 232448 - 512), CUDA_SUCCESS);
  EXPECT_EQ(attributes.value(kDynamic), 232448 - 512);
  EXPECT_EQ(attributes.set(kDynamic, 232448 - 511), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attributes.set(kDynamic, -1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attributes.value(kDynamic), 232448 - 512);
}

TEST(FunctionAttributes, RefusesReadOnlyAndUnknownOnes) {
  FunctionAttributes attributes(KernelImage{});
  int value = 17;
  EXPECT_EQ(attributes.set(CU_FUNC_ATTRIBUTE_NUM_REGS, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attributes.set(CU_FUNC_ATTRIBUTE_MAX, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attributes.get(CU_FUNC_ATTRIBUTE_MAX, &value), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(attributes.get(CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value, 17);
}

}  // namespace
}  // namespace simgpu
