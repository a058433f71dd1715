#include "tools/simgpu/driver/process/log.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace simgpu {
namespace {

using ::testing::ElementsAre;

void keep_line(void* lines, CUlogLevel level, char* message, std::size_t length) {
  EXPECT_EQ(level, CU_LOG_LEVEL_ERROR);
  static_cast<std::vector<std::string>*>(lines)->emplace_back(message, length);
}

TEST(LogCallback, GetsEachErrorUntilItIsUnregistered) {
  std::vector<std::string> lines;
  CUlogsCallbackHandle handle = nullptr;
  ASSERT_EQ(cuLogsRegisterCallback(keep_line, &lines, &handle), CUDA_SUCCESS);
  log_line(LogLevel::kError, "first %d", 1);
  log_line(LogLevel::kWarning, "no error");
  log_line(LogLevel::kError, "second");
  EXPECT_THAT(lines, ElementsAre("simgpu: first 1", "simgpu: second"));
  EXPECT_EQ(cuLogsUnregisterCallback(handle), CUDA_SUCCESS);
  log_line(LogLevel::kError, "third");
  EXPECT_EQ(lines.size(), 2U);
  EXPECT_EQ(cuLogsUnregisterCallback(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST(LogCallback, NeedsAFunctionAndMayHaveNoPlaceForItsHandle) {
  CUlogsCallbackHandle handle = nullptr;
  EXPECT_EQ(cuLogsRegisterCallback(nullptr, nullptr, &handle), CUDA_ERROR_INVALID_VALUE);
  static int calls = 0;
  const auto count = [](void*, CUlogLevel, char*, std::size_t) {
    ++calls;
    log_line(LogLevel::kError, "an error of the callback's own");
  };
  EXPECT_EQ(cuLogsRegisterCallback(count, nullptr, nullptr), CUDA_SUCCESS);
  log_line(LogLevel::kError, "an error");
  EXPECT_EQ(calls, 1) << "no callback is called for what it causes itself";
}

}  // namespace
}  // namespace simgpu
