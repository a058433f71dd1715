#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using Errors = simgpu_test::DriverTest;

TEST_F(Errors, HaveNamesAndTexts) {
  const char* text = nullptr;
  EXPECT_SUCCESS(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_SUCCESS(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

}  // namespace
