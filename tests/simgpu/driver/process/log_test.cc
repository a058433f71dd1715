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

TEST(LogCallback, NeedsAFunctionAndAPlaceForItsHandle) {
  CUlogsCallbackHandle handle = nullptr;
  EXPECT_EQ(cuLogsRegisterCallback(nullptr, nullptr, &handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLogsRegisterCallback(keep_line, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace simgpu
