#include "tools/superpipe/live_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "profiler/live_segment.h"
#include "tests/hang_limit.h"
#include "tests/temporary_folder.h"
#include "tests/tools/top_testing.h"
#include "tools/superpipe/live_text.h"
#include "tools/superpipe/top_model.h"
#include "tools/superpipe/top_output.h"
#include "tools/superpipe/top_screen.h"

namespace superpipe::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A folder that stands for /dev/shm, with a segment of this process and who answers for it.
class LiveWatchTest : public ::testing::Test {
 protected:
  LiveWatchTest() {
    folder_ = make_temporary_folder("live-watch");
    create();
  }
  ~LiveWatchTest() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  void create() {
    std::string problem;
    segment_ = LiveSegment::create({PolicyKind::kAuto, 16_GiB}, problem, folder_);
    ASSERT_NE(segment_, nullptr) << problem;
  }
  void answer_requests() {
    answering_ = true;
    answerer_ = std::thread([this] {
      LiveFigures figures{};
      while (answering_) {
        segment_->wait_for_request(std::chrono::milliseconds{100});
        if (const auto request = segment_->next_request()) {
          ++figures.launches;
          figures.taken_ns += kSecond;
          segment_->publish(figures);
          segment_->answer(*request, BudgetAnswer::kChanged);
        }
      }
    });
  }
  void stop() {
    answering_ = false;
    if (answerer_.joinable()) answerer_.join();
  }
  [[nodiscard]] std::string path() const {
    return live_segment_path(::geteuid(), ::getpid(), folder_);
  }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Writes in place, so that the segment stays the same file.
  void write(const std::string& bytes) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::string folder_;
  std::unique_ptr<LiveSegment> segment_;
  std::atomic<bool> answering_{false};
  std::thread answerer_;
};

TEST_F(LiveWatchTest, GetsFreshFiguresAtEachLook) {
  answer_requests();
  LiveWatch watch(std::nullopt, folder_);
  for (std::uint64_t look = 1; look < 5; ++look) {
    const auto looks = watch.look(superpipe::testing::kHangLimit);
    ASSERT_THAT(looks, SizeIs(1));
    EXPECT_EQ(looks[0].pid, ::getpid());
    EXPECT_TRUE(looks[0].answers);
    EXPECT_EQ(looks[0].figures.launches, look);
    EXPECT_EQ(looks[0].program, process_name(::getpid()));
  }
}

TEST_F(LiveWatchTest, WaitsForWhoDoesNotAnswerOnceAndNotAgain) {
  LiveWatch watch(::getpid(), folder_);
  EXPECT_FALSE(watch.look(std::chrono::milliseconds{1000})[0].answers);
  // The test's time limit would end a wait.
  EXPECT_FALSE(watch.look(std::chrono::hours{1})[0].answers);
  answer_requests();
  // Who answers late is found out by its figures.
  while (!watch.look(std::chrono::milliseconds{0})[0].answers) std::this_thread::yield();
}

TEST_F(LiveWatchTest, ForgetsWhoHasGone) {
  LiveWatch watch(std::nullopt, folder_);
  ASSERT_THAT(watch.look(std::chrono::milliseconds{0}), SizeIs(1));
  segment_.reset();
  EXPECT_THAT(watch.look(std::chrono::milliseconds{0}), IsEmpty());
  EXPECT_THAT(LiveWatch(::getpid(), folder_).look(std::chrono::milliseconds{0}), IsEmpty());
}

TEST_F(LiveWatchTest, NamesASegmentThatIsCutShort) {
  std::filesystem::resize_file(path(), 100);
  LiveWatch watch(std::nullopt, folder_);
  const auto looks = watch.look(std::chrono::milliseconds{0});
  ASSERT_THAT(looks, SizeIs(1));
  EXPECT_EQ(looks[0].problem, LiveProblem::kDamaged);
  std::filesystem::resize_file(path(), 4096);
}

// Whatever stands in the segment: the screen has its size, and programs can read what is written
// for them.
TEST_F(LiveWatchTest, NoBytesInASegmentBreakWhatIsShownOfIt) {
  const std::string sound = read();
  std::mt19937 random(7);
  LiveWatch watch(std::nullopt, folder_);
  TopModel model;
  TopScreen screen("1", folder_, true);
  int shown = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = sound;
    for (auto change = 1 + random() % 3; change > 0; --change) {
      const auto at = random() % 8 == 0 ? random() % 88 : 116 + random() % 440;
      const char kinds[] = {static_cast<char>(random()), '\xFF', '\x7F', '\x01'};
      bytes[at] = kinds[random() % std::size(kinds)];
    }
    // Of a changed start it would be swept away as another process's.
    std::copy(sound.begin() + 24, sound.begin() + 32, bytes.begin() + 24);
    write(bytes);
    model.update(watch.look(std::chrono::milliseconds{0}));
    if (!model.rows().empty() && !model.rows()[0].look.problem) ++shown;
    for (const ScreenLine& line : screen.lines(model, 80, 24)) {
      EXPECT_LE(width_of(line.text), 80U);
      EXPECT_TRUE(std::ranges::none_of(
          line.text, [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }));
    }
    for (const std::string& line : table(model)) EXPECT_LE(line.size(), 80U);
    EXPECT_FALSE(nlohmann::json::parse(top_json(model, 0), nullptr, false).is_discarded());
    expect_is_prometheus(top_prometheus(model));
  }
  EXPECT_GT(shown, 250) << "the bytes were too wild to get anywhere";
  write(sound);
}

}  // namespace
}  // namespace superpipe::cli
