#include <gtest/gtest.h>

#include <cstring>

#include "interposer/driver/streams.h"
#include "interposer/kernels/tensor_maps.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

int encoded = 0;
CUresult encode_result = CUDA_SUCCESS;

/// Writes a map that nobody can read an address from.
CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address, const cuuint64_t*,
                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ++encoded;
  if (encode_result != CUDA_SUCCESS) return encode_result;
  std::memset(map, 0, sizeof(*map));
  const auto hidden = ~reinterpret_cast<std::uintptr_t>(address);
  std::memcpy(map, &hidden, sizeof(hidden));
  return CUDA_SUCCESS;
}

/// Kernels take a map and a pointer. Only `pinned_` is pinned host memory.
class TensorMapHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    encoded = 0;
    encode_result = CUDA_SUCCESS;
    pinned = &pinned_;
    driver().cuTensorMapEncodeTiled = &encode;
    driver().cuTensorMapReplaceAddress = [](CUtensorMap* map, void* address) {
      return encode(map, {}, 0, address, nullptr, nullptr, nullptr, nullptr, {}, {}, {}, {});
    };
    driver().cuPointerGetAttribute = [](void* data, CUpointer_attribute, CUdeviceptr address) {
      if (address != reinterpret_cast<CUdeviceptr>(pinned)) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<unsigned*>(data) = CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    };
    driver().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset,
                                     std::size_t* size) {
      if (index > 1) return CUDA_ERROR_INVALID_VALUE;
      *offset = index * sizeof(CUtensorMap);
      *size = index == 0 ? sizeof(CUtensorMap) : sizeof(CUdeviceptr);
      return CUDA_SUCCESS;
    };
  }

  static CUresult encode_tiled(CUtensorMap* map, CUdeviceptr address) {
    return hook::cuTensorMapEncodeTiled(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, reinterpret_cast<void*>(address), nullptr, nullptr,
        nullptr, nullptr, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  static ResidencyStats stats() { return ContextRegistry::managed()->residency().stats(); }
  /// How many buffers a launch with `map` names.
  std::uint64_t named_by(CUtensorMap& map) {
    const std::uint64_t before = stats().accesses;
    void* parameters[] = {&map, &other_};
    EXPECT_EQ(hook::cuLaunchKernel(testing::null_kernel(20), 1, 1, 1, 1, 1, 1, 0, nullptr,
                                   parameters, nullptr),
              CUDA_SUCCESS);
    return stats().accesses - before;
  }

  inline static const void* pinned = nullptr;
  CUtensorMap map_;
  CUtensorMap pinned_;
};

TEST_F(TensorMapHooksTest, ALaunchUsesTheBufferBehindItsMap) {
  ASSERT_EQ(encode_tiled(&map_, buffer_ + 512), CUDA_SUCCESS);
  EXPECT_EQ(named_by(map_), 2U);
  CUtensorMap copy = map_;
  EXPECT_EQ(named_by(copy), 2U) << "a map is its bytes, wherever they lie";
}

TEST_F(TensorMapHooksTest, ALaunchFollowsAReplacedAddress) {
  ASSERT_EQ(encode_tiled(&map_, other_), CUDA_SUCCESS);
  EXPECT_EQ(named_by(map_), 1U) << "the map and the pointer name the same buffer";
  ASSERT_EQ(hook::cuTensorMapReplaceAddress(&map_, reinterpret_cast<void*>(buffer_)), CUDA_SUCCESS);
  EXPECT_EQ(named_by(map_), 2U);
}

TEST_F(TensorMapHooksTest, LeavesOtherMemoryToTheDriver) {
  ASSERT_EQ(encode_tiled(&map_, 0x7000), CUDA_SUCCESS);
  EXPECT_FALSE(ContextRegistry::managed()->tensor_maps().any());
  EXPECT_EQ(named_by(map_), 1U);
}

TEST_F(TensorMapHooksTest, RemembersNothingThatTheDriverRefuses) {
  encode_result = CUDA_ERROR_INVALID_VALUE;
  EXPECT_EQ(encode_tiled(&map_, buffer_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encoded, 2) << "once more with the buffer on the device, for a driver that looks";
  EXPECT_FALSE(ContextRegistry::managed()->tensor_maps().any());
  EXPECT_EQ(hook::cuTensorMapReplaceAddress(nullptr, reinterpret_cast<void*>(buffer_)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapHooksTest, ACopyOfAMapToTheDevicePinsItsBuffer) {
  driver().cuMemcpyHtoD_v2 = [](CUdeviceptr, const void*, std::size_t) { return CUDA_SUCCESS; };
  ASSERT_EQ(encode_tiled(&map_, buffer_), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(0x10000, &map_, sizeof(map_)), CUDA_SUCCESS);
  driver().cuMemcpyHtoD_v2 = nullptr;
  EXPECT_EQ(stats().pinned_buffers, 1U);
}

TEST_F(TensorMapHooksTest, AMapInPinnedMemoryPinsItsBuffer) {
  ASSERT_EQ(encode_tiled(&map_, other_), CUDA_SUCCESS);
  ASSERT_EQ(encode_tiled(&pinned_, buffer_), CUDA_SUCCESS);
  EXPECT_EQ(stats().pinned_buffers, 1U);
}

}  // namespace
}  // namespace superpipe
