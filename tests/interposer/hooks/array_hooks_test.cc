// CUDA arrays, which the driver makes and the budget pays for.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

constexpr std::int64_t kArrayBytes = 8 << 20;

class ArrayHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    driver().cuArrayCreate_v2 = [](CUarray* array, const CUDA_ARRAY_DESCRIPTOR*) {
      *array = reinterpret_cast<CUarray>(0x9990);
      testing::change_device_usage(kArrayBytes);
      return CUDA_SUCCESS;
    };
    driver().cuArrayDestroy = [](CUarray) {
      testing::change_device_usage(-kArrayBytes);
      return CUDA_SUCCESS;
    };
  }

  const CUDA_ARRAY_DESCRIPTOR flat_{1024, 1024, CU_AD_FORMAT_FLOAT, 2};  // 8 MiB
};

TEST_F(ArrayHooksTest, CountsAnArrayUntilItIsDestroyed) {
  CUarray array = nullptr;
  ASSERT_EQ(hook::cuArrayCreate_v2(&array, &flat_), CUDA_SUCCESS);
  wait_for_passthrough(8_MiB);
  ASSERT_EQ(hook::cuArrayDestroy(array), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
}

TEST_F(ArrayHooksTest, CountsAllLevelsOfAMipmap) {
  driver().cuMipmappedArrayCreate = [](CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR*,
                                       unsigned) {
    *array = reinterpret_cast<CUmipmappedArray>(0xaaa0);
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  CUDA_ARRAY3D_DESCRIPTOR deep{};
  deep.Width = deep.Height = 4096;
  deep.Format = CU_AD_FORMAT_FLOAT;
  deep.NumChannels = 1;
  CUmipmappedArray levels = nullptr;
  // The first level alone takes the budget, so that the second makes it too small.
  EXPECT_EQ(hook::cuMipmappedArrayCreate(&levels, &deep, 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(levels, nullptr) << "the driver was asked";
}

TEST_F(ArrayHooksTest, DoesNotCountArraysWithoutMemory) {
  driver().cuArray3DCreate_v2 = [](CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR*) {
    *array = reinterpret_cast<CUarray>(0x9990);
    return CUDA_SUCCESS;
  };
  CUDA_ARRAY3D_DESCRIPTOR sparse{};
  sparse.Width = sparse.Height = 4096;
  sparse.Format = CU_AD_FORMAT_FLOAT;
  sparse.NumChannels = 4;
  sparse.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array = nullptr;
  ASSERT_EQ(hook::cuArray3DCreate_v2(&array, &sparse), CUDA_SUCCESS);
  EXPECT_EQ(passthrough(), Bytes{});
}

TEST_F(ArrayHooksTest, LeavesMissingArgumentsToTheDriver) {
  driver().cuArrayCreate_v2 = [](CUarray*, const CUDA_ARRAY_DESCRIPTOR*) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  CUarray array = nullptr;
  EXPECT_EQ(hook::cuArrayCreate_v2(nullptr, &flat_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(hook::cuArrayCreate_v2(&array, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace superpipe
