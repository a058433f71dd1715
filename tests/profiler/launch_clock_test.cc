// A launch's clock tells of the waits that take long, and of no others.
#include "profiler/launch_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"

namespace superpipe {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemorySink;
using ::testing::Pair;

/// A time that passes when a test says so, with 2 ticks in a nanosecond.
struct FakeTime {
  static TraceRecorder::TimePoint now() {
    ++readings;
    return time;
  }
  static std::uint64_t ticks() { return counter; }
  static bool counts_steadily() { return false; }
  static void pass(std::chrono::nanoseconds more) {
    time += more;
    counter += 2 * static_cast<std::uint64_t>(more.count());
  }
  static inline TraceRecorder::TimePoint time;
  static inline std::uint64_t counter = 0;
  static inline int readings = 0;
};

/// The same with a counter by which a clock can go.
struct SteadyTime : FakeTime {
  static bool counts_steadily() { return true; }
};

/// Waits by their ends and durations, and launches with 0 as that, in microseconds.
class ToldTimes : public TraceVisitor {
 public:
  void on_wait(const TraceMoment& when, const TraceWait& event) override {
    EXPECT_EQ(event.what, TraceWait::kLaunch);
    told.emplace_back(when.time / 1000, event.duration_ns / 1000);
  }
  void on_launch(const TraceMoment& when, const TraceLaunch&) override {
    told.emplace_back(when.time / 1000, 0);
  }
  std::vector<std::pair<std::int64_t, std::uint64_t>> told;
};

class LaunchClockTest : public ::testing::Test {
 protected:
  using Clock = BasicLaunchClock<FakeTime>;

  LaunchClockTest() {
    FakeTime::time = start_;
    FakeTime::counter = 1'000'000;
    FakeTime::readings = 0;
  }
  void SetUp() override { ASSERT_EQ(recorder_.begin({}), std::nullopt); }

  /// What was told until now; nothing is from here on.
  std::vector<std::pair<std::int64_t, std::uint64_t>> told() {
    recorder_.finish(FakeTime::time);
    auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink_.bytes), "recorded");
    EXPECT_TRUE(reader.ok());
    ToldTimes times;
    EXPECT_EQ(reader->read_all(times), std::nullopt);
    return times.told;
  }
  static void take(Clock& clock, std::chrono::nanoseconds time) {
    EXPECT_EQ(clock.wait([time] {
      FakeTime::pass(time);
      return 7;
    }),
              7);
  }

  MemorySink sink_;
  const TraceRecorder::TimePoint start_{std::chrono::hours(1)};
  TraceRecorder recorder_{sink_, start_, {}};
};

TEST_F(LaunchClockTest, TellsOfAWaitByItsEndAndItsDuration) {
  FakeTime::pass(microseconds(512));
  Clock clock(&recorder_);
  take(clock, microseconds(1024));
  EXPECT_EQ(clock.now(), start_ + microseconds(1536));
  EXPECT_THAT(told(), ElementsAre(Pair(1536, 1024)));
}

TEST_F(LaunchClockTest, TellsOfEachPartThatTakesLongApart) {
  Clock clock(&recorder_);
  take(clock, microseconds(1024));
  take(clock, microseconds(512));
  EXPECT_THAT(told(), ElementsAre(Pair(1024, 1024), Pair(1536, 512)));
}

TEST_F(LaunchClockTest, ReadsTheClockOnceForALaunchThatWaitsForNothing) {
  Clock clock(&recorder_);
  take(clock, microseconds(2));
  EXPECT_EQ(clock.now(), start_);
  take(clock, microseconds(2));
  EXPECT_EQ(FakeTime::readings, 1);
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(LaunchClockTest, MovesOnBehindAPartThatTookLongButWasNoWait) {
  Clock clock(&recorder_);
  take(clock, microseconds(10));
  EXPECT_EQ(clock.now(), start_ + microseconds(10));
  take(clock, microseconds(10));  // together they would be one
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(LaunchClockTest, TellsOfAWaitWhereTheCounterIsBehind) {
  Clock clock(&recorder_);
  take(clock, microseconds(20));
  FakeTime::counter -= 900'000;  // another processor's
  take(clock, microseconds(30));
  EXPECT_EQ(told().size(), 2U);
}

TEST_F(LaunchClockTest, IsNoEarlierThanWhatTheThreadRecordedMeanwhile) {
  Clock clock(&recorder_);
  clock.wait([&] {
    FakeTime::pass(microseconds(1));
    recorder_.add(FakeTime::time, TraceWait{TraceWait::kLaunch, 25'000});
    return 0;
  });
  recorder_.launch(clock.now(), 1, KernelId{1}, 0, {});
  EXPECT_EQ(clock.now(), start_ + microseconds(1));
  EXPECT_EQ(told().size(), 2U);
}

TEST_F(LaunchClockTest, GoesByTheCounterFromLaunchToLaunch) {
  using SteadyClock = BasicLaunchClock<SteadyTime>;
  const auto launch = [&](microseconds after) {
    FakeTime::pass(after);
    SteadyClock clock(&recorder_);
    EXPECT_LE(std::chrono::abs(clock.now() - FakeTime::time), std::chrono::nanoseconds(1));
    return clock;
  };
  for (int i = 0; i < 300; ++i) launch(microseconds(10));
  FakeTime::readings = 0;
  for (int i = 0; i < 10; ++i) launch(microseconds(1));
  EXPECT_LE(FakeTime::readings, 1);
  SteadyClock waits = launch(microseconds(1));
  FakeTime::pass(microseconds(64));
  waits.end_wait();
  EXPECT_EQ(waits.now(), FakeTime::time);
  recorder_.launch(waits.now(), 1, KernelId{1}, 0, {});
  const std::int64_t end = (FakeTime::time - start_).count() / 512 * 512 / 1000;
  EXPECT_THAT(told(), ElementsAre(Pair(end, 64), Pair(end, 0)));
}

TEST_F(LaunchClockTest, MayHaveNobodyToTell) {
  Clock clock(nullptr);
  take(clock, microseconds(1024));
  clock.end_wait();
  EXPECT_EQ(clock.now(), TraceRecorder::TimePoint());
  EXPECT_EQ(FakeTime::readings, 0);
}

TEST(ProcessorTime, HasTicksEnoughInAWait) {
  const std::uint64_t ticks = ProcessorTime::ticks();
  const auto begin = ProcessorTime::now();
  while (ProcessorTime::now() - begin < TraceWait::kLeast) {
  }
  EXPECT_GE(ProcessorTime::ticks() - ticks, LaunchClock::kMostTicks);
}

}  // namespace
}  // namespace superpipe
