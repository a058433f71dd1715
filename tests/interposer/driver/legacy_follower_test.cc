// Events of the legacy stream in a process with streams that it would join.
#include "interposer/driver/legacy_follower.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "interposer/driver/driver_device_memory.h"
#include "interposer/driver/joining_streams.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

auto* const kFollower = reinterpret_cast<CUstream>(0x7770);
auto* const kMark = reinterpret_cast<CUevent>(0x40);
constexpr CUdeviceptr kFollowersWord = 0x9000;

std::vector<std::string> follower_calls;

std::string name_of(CUstream stream) {
  if (stream == kFollower) return "follower";
  return stream == CU_STREAM_LEGACY ? "legacy" : "another";
}

class LegacyFollowerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(1);
    follower_calls.clear();
    DriverTable& table = driver();
    table.cuStreamCreate = [](CUstream* stream, unsigned flags) {
      follower_calls.push_back("create " + std::to_string(flags));
      *stream = kFollower;
      return CUDA_SUCCESS;
    };
    table.cuStreamDestroy_v2 = [](CUstream stream) {
      follower_calls.push_back("destroy " + name_of(stream));
      return CUDA_SUCCESS;
    };
    table.cuMemAllocHost_v2 = [](void** memory, std::size_t) {
      static int word = 0;
      *memory = &word;
      return CUDA_SUCCESS;
    };
    table.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* address, void*, unsigned) {
      *address = kFollowersWord;
      return CUDA_SUCCESS;
    };
    table.cuMemFreeHost = [](void*) {
      follower_calls.push_back("free");
      return CUDA_SUCCESS;
    };
    table.cuMemsetD32Async = [](CUdeviceptr address, unsigned, std::size_t, CUstream stream) {
      EXPECT_EQ(address, kFollowersWord);
      follower_calls.push_back("set on " + name_of(stream));
      return CUDA_SUCCESS;
    };
    table.cuEventRecord = [](CUevent, CUstream stream) {
      follower_calls.push_back("record on " + name_of(stream));
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override { testing::install_null_driver(1); }

  using Calls = std::vector<std::string>;
};

TEST_F(LegacyFollowerTest, RecordsBehindWorkOnABlockingStreamOfItsOwn) {
  LegacyFollower follower;
  EXPECT_EQ(follower.record(kMark), CUDA_SUCCESS);
  EXPECT_EQ(follower_calls, (Calls{"create 0", "set on follower", "record on follower"}));
  follower_calls.clear();
  EXPECT_EQ(follower.record(kMark), CUDA_SUCCESS);
  EXPECT_EQ(follower_calls, (Calls{"set on follower", "record on follower"}));
  follower_calls.clear();
  follower.destroy();
  EXPECT_EQ(follower_calls, (Calls{"destroy follower", "free"}));
  EXPECT_EQ(follower.record(kMark), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(LegacyFollowerTest, RecordsNothingWhereTheWordCannotBeSet) {
  LegacyFollower follower;
  driver().cuMemsetD32Async = [](CUdeviceptr, unsigned, std::size_t, CUstream) {
    return CUDA_ERROR_LAUNCH_FAILED;
  };
  EXPECT_EQ(follower.record(kMark), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(follower_calls, Calls{"create 0"});
}

TEST_F(LegacyFollowerTest, IsTriedOnceWhereThereCanBeNone) {
  LegacyFollower follower;
  static int tries = 0;
  tries = 0;
  driver().cuMemAllocHost_v2 = [](void**, std::size_t) {
    ++tries;
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  EXPECT_EQ(follower.record(kMark), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(follower.record(kMark), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(follower_calls, Calls{});
}

class LegacyEventsTest : public LegacyFollowerTest {
 protected:
  static CUcontext context() {
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    return current;
  }
  Status record(StreamHandle stream) { return memory_.record(EventHandle{0x40}, stream); }

  DriverDeviceMemory memory_{(testing::install_null_driver(1), context()), 0};
};

TEST_F(LegacyEventsTest, LieOnTheLegacyStreamWhereNoStreamJoinsIt) {
  CUstream stream = nullptr;
  ASSERT_EQ(hook::cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  follower_calls.clear();
  EXPECT_EQ(record(kLegacyStream), Status::kOk);
  EXPECT_EQ(follower_calls, Calls{"record on legacy"});
}

TEST_F(LegacyEventsTest, AreNoWorkOfTheLegacyStreamOnceTheProgramHasABlockingStream) {
  CUstream stream = nullptr;
  ASSERT_EQ(hook::cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  follower_calls.clear();
  EXPECT_EQ(record(kLegacyStream), Status::kOk);
  EXPECT_EQ(follower_calls, (Calls{"create 0", "set on follower", "record on follower"}));
  follower_calls.clear();
  EXPECT_EQ(record(StreamHandle{0x8880}), Status::kOk);
  EXPECT_EQ(follower_calls, Calls{"record on another"});
}

TEST_F(LegacyEventsTest, AreNoneOnceAThreadHasUsedItsOwnDefaultStream) {
  EXPECT_EQ(stream_handle(nullptr, kPerThreadDefault), kPerThreadStream);
  EXPECT_EQ(record(kLegacyStream), Status::kOk);
  EXPECT_EQ(follower_calls.back(), "record on follower");
}

TEST_F(LegacyEventsTest, AreNoneOnceTheHandleOfThatStreamWasUsed) {
  EXPECT_EQ(record(kPerThreadStream), Status::kOk);
  EXPECT_EQ(record(kLegacyStream), Status::kOk);
  EXPECT_EQ(follower_calls.back(), "record on follower");
}

TEST_F(LegacyEventsTest, LieOnTheLegacyStreamWhereThereCanBeNoOther) {
  JoiningStreams::note();
  driver().cuStreamCreate = [](CUstream*, unsigned) { return CUDA_ERROR_OUT_OF_MEMORY; };
  EXPECT_EQ(record(kLegacyStream), Status::kOk);
  EXPECT_EQ(follower_calls, Calls{"record on legacy"});
}

}  // namespace
}  // namespace superpipe
