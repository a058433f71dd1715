#include "interposer/passthrough/passthrough_allocation.h"

#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class PassthroughAllocationTest : public testing::BudgetFixture {
 protected:
  void TearDown() override {
    testing::change_device_usage(-taken_);
    BudgetFixture::TearDown();
  }

  /// An allocation that succeeds, in the driver's place.
  auto taking(Bytes size) {
    return [this, size] {
      ++calls_;
      const auto bytes = static_cast<std::int64_t>(size.count());
      testing::change_device_usage(bytes);
      taken_ += bytes;
      return CUDA_SUCCESS;
    };
  }
  /// Its free.
  auto giving_back(Bytes size) {
    return [this, size] {
      const auto bytes = static_cast<std::int64_t>(size.count());
      testing::change_device_usage(-bytes);
      taken_ -= bytes;
      return CUDA_SUCCESS;
    };
  }
  static ManagedContext* managed() { return ContextRegistry::managed(); }

  int calls_ = 0;
  std::int64_t taken_ = 0;
};

TEST_F(PassthroughAllocationTest, CountsAnAllocationOnceTheDriverHasMadeIt) {
  Bytes during = 1_MiB;
  const auto take = taking(6_MiB);
  EXPECT_EQ(allocate_passthrough(managed(), 6_MiB,
                                 [&] {
                                   during = passthrough();
                                   return take();
                                 }),
            CUDA_SUCCESS);
  EXPECT_EQ(during, Bytes{});
  // A sample that the worker takes meanwhile finds the allocation too, until the next one.
  EXPECT_GE(passthrough(), 6_MiB);
  wait_for_passthrough(6_MiB);
}

TEST_F(PassthroughAllocationTest, CountsNothingThatTheDriverRefuses) {
  EXPECT_EQ(allocate_passthrough(managed(), 6_MiB, [] { return CUDA_ERROR_INVALID_VALUE; }),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(passthrough(), Bytes{});
}

TEST_F(PassthroughAllocationTest, CountsNothingThatIsNotOnTheManagedDevice) {
  EXPECT_EQ(allocate_passthrough(nullptr, 6_MiB, taking(Bytes{})), CUDA_SUCCESS);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(passthrough(), Bytes{});
}

TEST_F(PassthroughAllocationTest, DoesNotAskTheDriverWhenTheBudgetHasNoRoom) {
  ASSERT_EQ(allocate_passthrough(managed(), 60_MiB, taking(60_MiB)), CUDA_SUCCESS);
  EXPECT_EQ(allocate_passthrough(managed(), 6_MiB, taking(6_MiB)), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(calls_, 1);
}

TEST_F(PassthroughAllocationTest, SeesWhatWasFreedBeforeItRefuses) {
  ASSERT_EQ(allocate_passthrough(managed(), 60_MiB, taking(60_MiB)), CUDA_SUCCESS);
  ASSERT_EQ(change_passthrough(PassthroughChange::kFree, giving_back(60_MiB)), CUDA_SUCCESS);
  EXPECT_EQ(allocate_passthrough(managed(), 6_MiB, taking(6_MiB)), CUDA_SUCCESS);
  EXPECT_GE(passthrough(), 6_MiB);
  wait_for_passthrough(6_MiB);
}

TEST_F(PassthroughAllocationTest, GivesPagesBackAndAsksAgainWhenTheDriverIsOutOfMemory) {
  ASSERT_EQ(hook::cuMemFree_v2(buffer_), CUDA_SUCCESS);  // its pages stay cached
  const auto take = taking(1_MiB);
  EXPECT_EQ(allocate_passthrough(managed(), 1_MiB,
                                 [&] {
                                   const bool full = calls_ == 0;
                                   return full ? (++calls_, CUDA_ERROR_OUT_OF_MEMORY) : take();
                                 }),
            CUDA_SUCCESS);
  EXPECT_EQ(calls_, 2);
}

TEST_F(PassthroughAllocationTest, LeavesSizesThatNoDeviceHasToTheDriver) {
  for (const std::uint64_t size : {std::uint64_t{1} << 62, std::uint64_t{1} << 63, UINT64_MAX}) {
    calls_ = 0;
    EXPECT_EQ(allocate_passthrough(managed(), Bytes{size},
                                   [this] {
                                     ++calls_;
                                     return CUDA_ERROR_INVALID_VALUE;
                                   }),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(calls_, 1);
  }
}

TEST_F(PassthroughAllocationTest, HasTheDeviceLookedAtAfterAChange) {
  ASSERT_EQ(allocate_passthrough(managed(), 6_MiB, taking(6_MiB)), CUDA_SUCCESS);
  EXPECT_EQ(change_passthrough(PassthroughChange::kFree, giving_back(6_MiB)), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
  // What no hook has counted, as code does.
  EXPECT_EQ(change_passthrough(PassthroughChange::kGrowth, taking(4_MiB)), CUDA_SUCCESS);
  wait_for_passthrough(4_MiB);
}

TEST_F(PassthroughAllocationTest, AnswersWhatTheDriverSaysOfAChange) {
  EXPECT_EQ(change_passthrough(PassthroughChange::kFree, [] { return CUDA_ERROR_INVALID_HANDLE; }),
            CUDA_ERROR_INVALID_HANDLE);
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  ContextRegistry::of_process().on_destroying(context);
  EXPECT_EQ(change_passthrough(PassthroughChange::kFree, [] { return CUDA_SUCCESS; }),
            CUDA_SUCCESS);
}

}  // namespace
}  // namespace superpipe
