// A trace of a context: its file and its thread, whatever happens to them.
#include "interposer/trace_recording.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "profiler/trace_reader.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kPatience{20'000};

class TraceRecordingTest : public ::testing::Test {
 protected:
  TraceRecordingTest() {
    char name[] = "/tmp/trace_recording_test.XXXXXX";
    folder_ = ::mkdtemp(name);
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
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    launch(*recording, i * i * 7919);
    if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(recording->finish(std::chrono::milliseconds(50)), IsEmpty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the last part is lost"));
  ::close(reader);
}

}  // namespace
}  // namespace superpipe
