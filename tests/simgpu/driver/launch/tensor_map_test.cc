// Tensor maps: what is encoded, what is refused, and that a launch uses the tensors of its maps.
#include "tools/simgpu/tensor_map.h"

#include <array>

#include "tests/simgpu/driver/support/module_fixture.h"

namespace simgpu {
namespace {

class TensorMapDriver : public DriverTest {
 protected:
  /// Asks for a map of a matrix of 64 rows of 64 floats.
  CUresult encode(CUtensorMap* map, CUdeviceptr address) {
    return cuTensorMapEncodeTiled(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank_, reinterpret_cast<void*>(address),
        extents_.data(), strides_.data(), box_.data(), steps_.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  /// The parameter of wide(Wide w, float* out), with `map` in it.
  static std::vector<std::byte> wide_with(const CUtensorMap& map) {
    std::vector<std::byte> wide(20'000);
    std::memcpy(wide.data() + 128, &map, sizeof(map));
    return wide;
  }

  cuuint32_t rank_ = 2;
  std::array<cuuint64_t, 2> extents_{64, 64};
  std::array<cuuint64_t, 1> strides_{256};
  std::array<cuuint32_t, 2> box_{32, 8};
  std::array<cuuint32_t, 2> steps_{1, 1};
};

TEST_F(TensorMapDriver, HidesTheAddressFromWhoLooksForIt) {
  const CUdeviceptr address = device(std::vector<float>(4096, 1.0F));
  CUtensorMap map;
  ASSERT_EQ(encode(&map, address), CUDA_SUCCESS);
  EXPECT_EQ(address_of_tensor(&map), address);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&map);
  for (std::size_t at = 0; at + sizeof(address) <= sizeof(map); ++at) {
    EXPECT_NE(std::memcmp(bytes + at, &address, sizeof(address)), 0) << at;
  }
}

TEST_F(TensorMapDriver, DiffersWithTheShapeAndTheAddress) {
  CUtensorMap one;
  CUtensorMap other;
  ASSERT_EQ(encode(&one, 0x1000), CUDA_SUCCESS);
  ASSERT_EQ(encode(&other, 0x2000), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&one, &other, sizeof(one)), 0);
  ASSERT_EQ(cuTensorMapReplaceAddress(&other, reinterpret_cast<void*>(0x1000)), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(&one, &other, sizeof(one)), 0);
  box_[0] = 16;
  ASSERT_EQ(encode(&other, 0x1000), CUDA_SUCCESS);
  EXPECT_NE(std::memcmp(&one, &other, sizeof(one)), 0);
}

TEST_F(TensorMapDriver, RefusesWhatTheManualForbids) {
  CUtensorMap map;
  EXPECT_EQ(encode(nullptr, 0x1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(&map, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(encode(&map, 0x1008), CUDA_ERROR_INVALID_VALUE);
  rank_ = 6;
  EXPECT_EQ(encode(&map, 0x1000), CUDA_ERROR_INVALID_VALUE);
  rank_ = 2;
  strides_[0] = 260;
  EXPECT_EQ(encode(&map, 0x1000), CUDA_ERROR_INVALID_VALUE);
  strides_[0] = 256;
  box_[1] = 257;
  EXPECT_EQ(encode(&map, 0x1000), CUDA_ERROR_INVALID_VALUE);
  std::memset(&map, 0, sizeof(map));
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(0x1000)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapDriver, EncodesColumnsOfPixels) {
  const std::array<cuuint64_t, 4> extents{64, 8, 8, 2};
  const std::array<cuuint64_t, 3> strides{256, 2048, 16384};
  const std::array<cuuint32_t, 4> steps{1, 1, 1, 1};
  const std::array<int, 2> lower{-1, -1};
  const std::array<int, 2> upper{1, 1};
  CUtensorMap map;
  const auto encode_columns = [&](cuuint32_t rank) {
    return cuTensorMapEncodeIm2col(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, reinterpret_cast<void*>(0x1000),
        extents.data(), strides.data(), lower.data(), upper.data(), 64, 16, steps.data(),
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(encode_columns(4), CUDA_SUCCESS);
  EXPECT_EQ(address_of_tensor(&map), 0x1000U);
  EXPECT_EQ(encode_columns(2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(TensorMapDriver, MixersReadTheTensorOfAMapInAParameter) {
  const CUfunction wide = function(load(), "wide");
  std::vector<std::vector<float>> results;
  for (const float value : {1.0F, 2.0F}) {
    CUtensorMap map;
    ASSERT_EQ(encode(&map, device(std::vector<float>(4096, value))), CUDA_SUCCESS);
    std::vector<std::byte> parameter = wide_with(map);
    CUdeviceptr out = device(std::vector<float>(16, 0.0F));
    ASSERT_EQ(launch(wide, {parameter.data(), &out}), CUDA_SUCCESS);
    results.push_back(host<float>(out, 16));
  }
  EXPECT_NE(results[0], results[1]);
}

TEST_F(TensorMapDriver, ALaunchFaultsWhereTheTensorIsNotMapped) {
  constexpr std::size_t kReserved = std::size_t{2} << 20;
  CUdeviceptr reserved = 0;
  ASSERT_EQ(cuMemAddressReserve(&reserved, kReserved, 0, 0, 0), CUDA_SUCCESS);
  CUcontext broken = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&broken, 0, 0), CUDA_SUCCESS);
  CUtensorMap map;
  ASSERT_EQ(encode(&map, reserved), CUDA_SUCCESS) << "to encode a map touches no memory";
  std::vector<std::byte> parameter = wide_with(map);
  CUdeviceptr out = device(std::vector<float>(16, 0.0F));
  ASSERT_EQ(launch(function(load(), "wide"), {parameter.data(), &out}), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  (void)cuCtxDestroy_v2(broken);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(reserved, kReserved), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
