#include "policy/requirements.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

TEST(CudaVersion, IsWrittenAsPeopleWriteIt) {
  EXPECT_EQ(cuda_version(13000), "13.0");
  EXPECT_EQ(cuda_version(12080), "12.8");
  EXPECT_EQ(cuda_version(kOldestDriver), "12.4");
}

}  // namespace
}  // namespace superpipe
