#include "interposer/contexts/foreign_streams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

auto* const kFar = reinterpret_cast<CUcontext>(0x30);
auto* const kFarStream = reinterpret_cast<CUstream>(0x50);

/// What the driver was asked for, in order.
std::vector<std::string> calls;
CUcontext current = nullptr;
CUcontext near = nullptr;
CUstream follower = nullptr;

/// Streams and events belong to contexts, and contexts are pushed and popped.
class ForeignStreamsTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    driver().cuCtxGetCurrent(&near);
    current = near;
    follower = nullptr;
    DriverTable& table = driver();
    table.cuCtxGetCurrent = [](CUcontext* context) {
      *context = current;
      return CUDA_SUCCESS;
    };
    table.cuCtxPushCurrent_v2 = [](CUcontext context) {
      current = context;
      return CUDA_SUCCESS;
    };
    table.cuCtxPopCurrent_v2 = [](CUcontext* context) {
      *context = current;
      current = near;
      return CUDA_SUCCESS;
    };
    table.cuStreamGetCtx = [](CUstream stream, CUcontext* context) {
      *context = stream == kFarStream ? kFar : near;
      return CUDA_SUCCESS;
    };
    table.cuEventRecord = [](CUevent, CUstream stream) {
      if ((stream == kFarStream) != (current == kFar)) return CUDA_ERROR_INVALID_HANDLE;
      calls.emplace_back(stream == kFarStream ? "record far" : "record near");
      return CUDA_SUCCESS;
    };
    table.cuStreamWaitEvent = [](CUstream stream, CUevent, unsigned) {
      follower = stream;
      calls.emplace_back("wait");
      return CUDA_SUCCESS;
    };
    table.cuStreamQuery = [](CUstream) { return CUDA_SUCCESS; };
    ContextCount::add();
    ContextCount::add();
    calls.clear();
  }
  void TearDown() override {
    ContextCount::remove();
    ContextCount::remove();
    current = near;
    testing::install_null_driver(2);
    ManagedFixture::TearDown();
  }
};

TEST_F(ForeignStreamsTest, AStreamOfTheManagedContextWaitsForTheForeignOne) {
  ForeignStreams& streams = ContextRegistry::managed()->foreign_streams();
  const auto behind = streams.behind(StreamHandle{reinterpret_cast<std::uint64_t>(kFarStream)});
  ASSERT_TRUE(behind.ok());
  EXPECT_EQ(calls, (std::vector<std::string>{"record far", "wait"}));
  EXPECT_EQ(static_cast<std::uint64_t>(*behind), reinterpret_cast<std::uint64_t>(follower));
  EXPECT_EQ(current, near);
}

TEST_F(ForeignStreamsTest, AFreeInTheOrderOfAForeignStreamIsMarkedBehindThat) {
  EXPECT_EQ(hook::cuMemFreeAsync(buffer_, kFarStream), CUDA_SUCCESS);
  EXPECT_EQ(calls, (std::vector<std::string>{"record far", "wait", "record near"}));
}

TEST_F(ForeignStreamsTest, AFreeThatCannotBeOrderedFailsAndKeepsTheBuffer) {
  driver().cuStreamWaitEvent = [](CUstream, CUevent, unsigned) {
    return CUDA_ERROR_INVALID_HANDLE;
  };
  EXPECT_EQ(hook::cuMemFreeAsync(buffer_, kFarStream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(ContextRegistry::managed()->residency().find(buffer_).has_value());
}

}  // namespace
}  // namespace superpipe
