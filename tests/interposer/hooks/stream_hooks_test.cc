// Captures and the ends of streams.
#include <gtest/gtest.h>

#include "interposer/driver/streams.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

auto* const kStream = reinterpret_cast<CUstream>(0x5550);

class StreamHooksTest : public testing::ManagedFixture {
 protected:
  static void begin() {
    ASSERT_EQ(hook::cuStreamBeginCapture_v2(kStream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  static CUresult end() {
    CUgraph graph = nullptr;
    return hook::cuStreamEndCapture(kStream, &graph);
  }
};

TEST_F(StreamHooksTest, CountsACaptureFromItsBeginToItsEnd) {
  EXPECT_FALSE(CaptureCount::any());
  begin();
  EXPECT_TRUE(CaptureCount::any());
  EXPECT_EQ(end(), CUDA_SUCCESS);
  EXPECT_FALSE(CaptureCount::any());
}

TEST_F(StreamHooksTest, CountsNoCaptureThatTheDriverRefuses) {
  driver().cuStreamBeginCapture_v2 = [](CUstream, CUstreamCaptureMode) {
    return CUDA_ERROR_ILLEGAL_STATE;
  };
  EXPECT_EQ(hook::cuStreamBeginCapture_v2(kStream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_FALSE(CaptureCount::any());
}

TEST_F(StreamHooksTest, EndsACaptureThatIsBroken) {
  begin();
  driver().cuStreamEndCapture = [](CUstream, CUgraph*) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  };
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_FALSE(CaptureCount::any());
}

TEST_F(StreamHooksTest, GoesOnWithACaptureThatAnotherThreadMayNotEnd) {
  begin();
  driver().cuStreamEndCapture = [](CUstream, CUgraph*) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  };
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_TRUE(CaptureCount::any());
  driver().cuStreamEndCapture = [](CUstream, CUgraph*) { return CUDA_SUCCESS; };
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(StreamHooksTest, LeavesAllocationsInACaptureToTheDriver) {
  driver().cuMemAllocAsync = [](CUdeviceptr* address, std::size_t, CUstream) {
    *address = 0x7700000000;
    return CUDA_SUCCESS;
  };
  begin();
  testing::set_captured_stream(kStream);
  CUdeviceptr address = 0;
  EXPECT_EQ(hook::cuMemAllocAsync(&address, kBytes, kStream), CUDA_SUCCESS);
  EXPECT_EQ(address, 0x7700000000);
  EXPECT_EQ(passthrough(), Bytes{});
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

// The driver may give the stream's handle to another stream as soon as it has destroyed it.
TEST_F(StreamHooksTest, MarksTheEndOfAStreamBeforeTheDriverDestroysIt) {
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, other_, kStream), CUDA_SUCCESS);
  driver().cuStreamDestroy_v2 = [](CUstream stream) {
    EXPECT_GT(testing::events_recorded_on(stream), 0U);
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuStreamDestroy_v2(kStream), CUDA_SUCCESS);
  driver().cuStreamDestroy_v2 = [](CUstream) { return CUDA_SUCCESS; };
}

}  // namespace
}  // namespace superpipe
