// A trace of a context: its file and its thread, whatever happens to them.
#include "interposer/recording/trace_recording.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "profiler/trace_reader.h"
#include "tests/hang_limit.h"
#include "tests/temporary_folder.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kPatience = testing::kHangLimit;

class TraceRecordingTest : public ::testing::Test {
 protected:
  TraceRecordingTest() {
    folder_ = make_temporary_folder("trace_recording_test");
    path_ = folder_ / "run.sptrace";
  }
  ~TraceRecordingTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::unique_ptr<TraceRecording> start() const {
    return TraceRecording::start(path_, {}, [](KernelId) { return std::string("kernel"); });
  }
  static void launch(TraceRecording& recording, std::uint64_t number) {
    recording.recorder().launch(std::chrono::steady_clock::now(), number, KernelId{1}, 0, {});
  }
  static std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(TraceRecordingTest, SaysWhatItRecordedAndLeavesNothingOpen) {
  const std::size_t before = open_descriptors();
  const auto recording = start();
  ASSERT_NE(recording, nullptr);
  launch(*recording, 1);
  launch(*recording, 2);
  EXPECT_THAT(recording->finish(kPatience), HasSubstr("trace: 2 events, 0 dropped"));
  EXPECT_THAT(recording->finish(kPatience), IsEmpty());
  EXPECT_EQ(open_descriptors(), before);
  auto reader = TraceReader::open(path_);
  ASSERT_TRUE(reader.ok());
  TraceVisitor visitor;
  EXPECT_EQ(reader->read_all(visitor), std::nullopt);
  EXPECT_TRUE(reader->ending().is_complete);
}

// A context that cannot be made takes its trace with it.
TEST_F(TraceRecordingTest, MayGoWithoutAFinish) {
  auto recording = start();
  ASSERT_NE(recording, nullptr);
  launch(*recording, 1);
  recording.reset();
  auto reader = TraceReader::open(path_);
  ASSERT_TRUE(reader.ok());
}

TEST_F(TraceRecordingTest, SaysNothingOfAFileThatCouldNotBeWrittenToItsEnd) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const auto recording = start();
  ASSERT_NE(recording, nullptr);
  ::close(reader);
  ::testing::internal::CaptureStderr();
  launch(*recording, 1);
  EXPECT_THAT(recording->finish(kPatience), IsEmpty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("SUPERPIPE_TRACE: cannot write"));
}

TEST_F(TraceRecordingTest, DoesNotWaitForAReaderThatHasStopped) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  // Not deleted: its thread waits for the reader.
  auto* const recording = start().release();
  ASSERT_NE(recording, nullptr);
  // A pipe that takes something can be written to. This one is filled by the recording's thread.
  pollfd pipe{::open(path_.c_str(), O_WRONLY | O_NONBLOCK), POLLOUT, 0};
  ASSERT_GE(pipe.fd, 0);
  for (std::uint64_t i = 0; ::poll(&pipe, 1, 0) == 1; ++i) launch(*recording, i * i * 7919);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(recording->finish(std::chrono::milliseconds(50)), IsEmpty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the last part is lost"));
  ::close(pipe.fd);
  ::close(reader);
}

}  // namespace
}  // namespace superpipe
