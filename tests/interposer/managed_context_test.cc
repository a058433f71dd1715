#include "interposer/managed_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "interposer/driver/table.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kContextBytes = 100 << 20;

class ManagedContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(1);
    driver().cuMemGetInfo_v2 = [](std::size_t* free, std::size_t* total) {
      *total = std::size_t{1} << 30;
      *free = *total - kContextBytes;
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override { testing::install_null_driver(1); }

  ManagedContext::Created create() {
    configuration_.host_ledger.clear();  // that of this machine is not for tests
    CUcontext context = nullptr;
    driver().cuCtxGetCurrent(&context);
    return ManagedContext::create(context, 0, configuration_);
  }

  Configuration configuration_;
};

TEST_F(ManagedContextTest, KnowsItsContextAndDevice) {
  const auto created = create();
  ASSERT_NE(created.context, nullptr);
  EXPECT_THAT(created.problem, IsEmpty());
  CUcontext context = nullptr;
  driver().cuCtxGetCurrent(&context);
  EXPECT_EQ(created.context->context(), context);
  EXPECT_EQ(created.context->device(), 0);
  EXPECT_EQ(created.context->device_total(), 1_GiB);
}

TEST_F(ManagedContextTest, TakesTheContextOffTheBudget) {
  configuration_.policy = PolicyKind::kSuperpipeline;
  configuration_.gpu_mem = parse_size("500M");
  const auto created = create();
  ASSERT_NE(created.context, nullptr);
  EXPECT_EQ(created.context->figures().budget, 400_MiB);
  EXPECT_EQ(created.context->figures().context_bytes, Bytes{kContextBytes});
}

TEST_F(ManagedContextTest, SaysHowMuchTheContextTakesWhenTheBudgetIsSmaller) {
  configuration_.gpu_mem = parse_size("100M");
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("the context alone takes 100"));
}

TEST_F(ManagedContextTest, NeedsADriverThatTellsParameters) {
  driver().cuDriverGetVersion = [](int* version) {
    *version = 12030;
    return CUDA_SUCCESS;
  };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("CUDA 12.4"));
}

TEST_F(ManagedContextTest, EndsItsTraceWhereItCannotBeSetUp) {
  char name[] = "/tmp/managed_context_test.XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(name);
  configuration_.trace_file = folder / "run.sptrace";
  driver().cuMemAddressReserve = [](CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                                    unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("could not be set up"));
  EXPECT_TRUE(std::filesystem::exists(folder / "run.sptrace"));
  std::filesystem::remove_all(folder);
}

TEST_F(ManagedContextTest, NeedsVirtualMemory) {
  driver().cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, HasSubstr("virtual memory"));
}

TEST_F(ManagedContextTest, LeavesItToTheDriverToSayWhyItDoesNotAnswer) {
  driver().cuMemGetInfo_v2 = [](std::size_t*, std::size_t*) { return CUDA_ERROR_INVALID_CONTEXT; };
  const auto created = create();
  EXPECT_EQ(created.context, nullptr);
  EXPECT_THAT(created.problem, IsEmpty());
}

TEST_F(ManagedContextTest, OrdersWorkOnStreamsOfItsOwnContextOnly) {
  const auto created = create();
  driver().cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
    if (stream == reinterpret_cast<CUstream>(0x100)) return driver().cuCtxGetCurrent(context);
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  const StreamHandle own{0x100};
  const StreamHandle other{0x200};
  EXPECT_TRUE(created.context->can_order(other));  // with one context nobody asks
  ContextCount::add();
  ContextCount::add();
  EXPECT_TRUE(created.context->can_order(own));
  EXPECT_FALSE(created.context->can_order(other));
  ContextCount::remove();
  ContextCount::remove();
}

TEST_F(ManagedContextTest, AnswersWithAKernelsErrorUntilItIsClosed) {
  const auto created = create();
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  EXPECT_EQ(created.context->sticky_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(created.context->failure(Status::kDeviceError, CallKind::kSubmission),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(created.context->failure(Status::kInvalidValue, CallKind::kSubmission),
            CUDA_ERROR_INVALID_VALUE);
  created.context->close();
  EXPECT_EQ(created.context->sticky_error(), CUDA_SUCCESS);
  EXPECT_EQ(created.context->failure(Status::kDeviceError, CallKind::kSubmission),
            CUDA_ERROR_LAUNCH_FAILED);
}

}  // namespace
}  // namespace superpipe
