// What threads record is written once, in order, or counted as dropped.
#include "profiler/trace_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemorySink;
using TimePoint = TraceRecorder::TimePoint;

constexpr TimePoint kStart{std::chrono::hours(1)};

TimePoint after(std::int64_t steps) { return kStart + steps * TraceRecorder::kTimeStep; }

/// Keeps launches, and checks that what they name was defined before.
class Launches : public TraceVisitor {
 public:
  void on_thread(const TraceThread& event) override {
    if (event.id != 0) threads.insert(event.index);
  }
  void on_kernel(const TraceKernel& event) override { kernels[event.index] = event.name; }
  void on_stream(const TraceStream& event) override { streams[event.index] = event.handle; }
  void on_text(const TraceText& event) override { texts[event.index] = event.text; }
  void on_call_site(const TraceCallSite& event) override { sites[event.index] = event.frames; }
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override {
    EXPECT_TRUE(threads.contains(when.thread));
    EXPECT_TRUE(kernels.contains(event.kernel));
    EXPECT_TRUE(streams.contains(event.stream));
    numbers[when.thread].push_back(event.launch.value);
    times.push_back(when.time / TraceRecorder::kTimeStep.count());
    names.push_back(kernels[event.kernel]);
    order.push_back(event.launch.value);
    for (const BufferId id : event.buffers) EXPECT_EQ(index_of(id), event.launch.value % 1000);
    ++count;
  }
  void on_allocation(const TraceMoment& /*when*/, const TraceAllocation& event) override {
    allocations.push_back(event.stream == 0 ? 0 : streams.at(event.stream));
    if (event.call_site != 0) names.push_back(sites.at(event.call_site));
  }
  void on_mark(const TraceMoment& /*when*/, const TraceMark& event) override {
    names.push_back(texts.at(event.text));
  }
  void on_dropped(const TraceMoment& /*when*/, const TraceDropped& event) override {
    dropped += event.events;
  }

  std::set<std::uint32_t> threads;
  std::map<TraceIndex, std::string> kernels, texts, sites;
  std::map<TraceIndex, std::uint64_t> streams;
  std::map<std::uint32_t, std::vector<std::uint64_t>> numbers;
  std::vector<std::int64_t> times;  ///< in steps
  std::vector<std::string> names;
  std::vector<std::uint64_t> order;  ///< the launches' numbers
  std::vector<std::uint64_t> allocations;
  std::uint64_t count = 0, dropped = 0;
};

/// What was written, which must be a complete trace.
void read(const MemorySink& sink, Launches& launches, TraceEnding* ending = nullptr) {
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "recorded");
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  const auto problem = reader->read_all(launches);
  ASSERT_EQ(problem, std::nullopt) << problem->message;
  EXPECT_TRUE(reader->ending().is_complete);
  if (ending != nullptr) *ending = reader->ending();
}

TEST(TraceRecorder, WritesWhatIsRecorded) {
  MemorySink sink;
  TraceRecorder::Options options;
  options.kernel_name = [](KernelId kernel) {
    return kernel == KernelId{9} ? std::string("kernel") : std::string();
  };
  options.call_site_frames = [](std::span<void* const> frames, std::string_view note) {
    return frames.empty() ? std::string("?") : "main" + std::string(note);
  };
  TraceRecorder recorder(sink, kStart, options);
  const BufferId one[] = {BufferId{7}};
  recorder.launch(after(1), 7, KernelId{9}, 0x10, one);  // not begun yet
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  recorder.launch(after(10), 7, KernelId{9}, 0x10, one);
  recorder.launch(after(20), 8, KernelId{5}, 0, {});
  int place = 0;
  void* const frames[] = {&place};
  EXPECT_EQ(recorder.known_call_site(77), std::nullopt);
  const TraceIndex site = recorder.index_of_call_site(77, frames, " of it");
  EXPECT_EQ(recorder.known_call_site(77), site);
  EXPECT_EQ(recorder.index_of_call_site(77, {}, ""), site);
  EXPECT_NE(recorder.index_of_call_site(78, {}, ""), site);
  recorder.add(after(30), TraceAllocation{BufferId{1}, 0, 1_MiB, 2_MiB, 0, site}, 0x20);
  recorder.add(after(40), TraceAllocation{BufferId{1}, 0, 1_MiB, 2_MiB, 0, 0}, std::nullopt);
  recorder.add(after(50), TraceMark{TraceMark::kPoint, recorder.intern_text("epoch"), 0});
  EXPECT_EQ(recorder.intern_text("epoch"), 1u);
  EXPECT_TRUE(recorder.finish(after(60)));
  recorder.add(after(70), TraceMemory{});
  Launches launches;
  TraceEnding ending;
  read(sink, launches, &ending);
  EXPECT_THAT(launches.numbers[1], ElementsAre(7u, 8u));
  EXPECT_THAT(launches.times, ElementsAre(10, 20));
  EXPECT_THAT(launches.names, ElementsAre("kernel", "", "main of it", "epoch"));
  EXPECT_THAT(launches.allocations, ElementsAre(0x20u, 0u));
  EXPECT_EQ(ending.events, 5u);
  EXPECT_EQ(recorder.totals().events, 5u);
  EXPECT_EQ(recorder.totals().bytes, sink.bytes.size());
}

// A program that marks each step with its number must not take ever more memory.
TEST(TraceRecorder, TextsBeyondTheMostAreOneText) {
  MemorySink sink;
  TraceRecorder recorder(sink, kStart, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  for (std::size_t i = 0; i < TraceRecorder::kMostTexts; ++i) {
    EXPECT_EQ(recorder.intern_text("step " + std::to_string(i)), i + 1);
  }
  const TraceIndex others = recorder.intern_text("one more");
  EXPECT_EQ(others, TraceRecorder::kMostTexts + 1);
  EXPECT_EQ(recorder.intern_text("and another"), others);
  EXPECT_EQ(recorder.intern_text("step 7"), 8U);
  EXPECT_TRUE(recorder.finish(after(1)));
}

TEST(TraceRecorder, TimesOfKernelsNameThem) {
  MemorySink sink;
  TraceRecorder::Options options;
  options.kernel_name = [](KernelId kernel) {
    return kernel == KernelId{9} ? std::string("kernel") : std::string();
  };
  TraceRecorder recorder(sink, kStart, options);
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  recorder.launch(after(10), 7, KernelId{5}, 0, {});
  recorder.kernel_time(after(20), {{7}, -5, 3, 0}, KernelId{9});
  EXPECT_TRUE(recorder.finish(after(30)));
  class Times : public TraceVisitor {
   public:
    void on_kernel(const TraceKernel& event) override { names[event.index] = event.name; }
    void on_kernel_time(const TraceMoment&, const TraceKernelTime& event) override {
      told.push_back(names[event.kernel] + " " + std::to_string(event.launch.value));
    }
    std::map<TraceIndex, std::string> names;
    std::vector<std::string> told;
  } times;
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "recorded");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(reader->read_all(times), std::nullopt);
  EXPECT_THAT(times.told, ElementsAre("kernel 7"));
}

TEST(TraceRecorder, MergesThreadsByTime) {
  MemorySink sink;
  TraceRecorder recorder(sink, kStart, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  std::thread([&] {
    for (const int time : {20, 40}) recorder.launch(after(time), 0, KernelId{1}, 0, {});
  }).join();
  for (const int time : {10, 30, 50}) recorder.launch(after(time), 0, KernelId{1}, 0, {});
  recorder.finish(after(60));
  Launches launches;
  read(sink, launches);
  EXPECT_THAT(launches.times, ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(launches.numbers.size(), 2u);
}

// A step before the first is not time 0: an event may be older than the trace.
/// The times that are told of uses at `times`, in ns since the start.
std::vector<std::int64_t> told_times(std::initializer_list<std::int64_t> times) {
  class Times : public TraceVisitor {
   public:
    void on_use(const TraceMoment& when, const TraceUse&) override { told.push_back(when.time); }
    std::vector<std::int64_t> told;
  };
  MemorySink sink;
  TraceRecorder recorder(sink, kStart, {});
  EXPECT_EQ(recorder.begin({}), std::nullopt);
  for (const std::int64_t time : times) {
    recorder.use(kStart + std::chrono::nanoseconds(time), false, 0, {});
  }
  recorder.finish(after(10));
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "recorded");
  EXPECT_TRUE(reader.ok());
  Times read;
  EXPECT_EQ(reader->read_all(read), std::nullopt);
  return read.told;
}

TEST(TraceRecorder, RoundsTimesDownToSteps) {
  EXPECT_THAT(told_times({-1, 0, 511, 512, 5000}), ElementsAre(-512, 0, 0, 512, 4608));
}

TEST(TraceRecorder, KeepsAThreadsEventsInTheOrderOfTime) {
  EXPECT_THAT(told_times({1000, 5000, 4000, 6000}), ElementsAre(512, 4608, 4608, 5632));
}

TEST(TraceRecorder, MergesThreadsByTimesThatAreNotRounded) {
  MemorySink sink;
  TraceRecorder recorder(sink, kStart, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  std::thread([&] {
    recorder.launch(kStart + std::chrono::nanoseconds(20), 2, KernelId{2}, 0, {});
  }).join();
  recorder.launch(kStart + std::chrono::nanoseconds(10), 1, KernelId{1}, 0, {});
  recorder.launch(kStart + std::chrono::nanoseconds(30), 3, KernelId{1}, 0, {});
  recorder.finish(after(1));
  Launches launches;
  read(sink, launches);
  EXPECT_EQ(launches.order, (std::vector<std::uint64_t>{1, 2, 3}));
}

// The buffer that each second launch names comes, and goes with what was written to it, which
// another thread sees to; a chunk is as short as that of a quarter of a second.
TEST(TraceRecorder, WritesAtMost24BytesForAnAccessThatMovesItsBuffer) {
  constexpr std::uint64_t kChunks = 50;
  constexpr std::uint64_t kAccesses = 200;  // of a chunk
  constexpr std::uint32_t kBuffers = 64;
  MemorySink sink;
  TraceRecorder recorder(sink, kStart, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  std::mt19937 random(1);
  std::exponential_distribution<double> gap(1e-5);  // 100 us, in ns
  double now = 0;
  std::uint64_t number = 0;
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<TimePoint> times;
    for (std::uint64_t i = 0; i < 6 * kAccesses; ++i) {
      now += gap(random);
      times.push_back(kStart + std::chrono::nanoseconds(static_cast<std::int64_t>(now)));
    }
    const auto buffer = [&](std::uint64_t i, std::uint64_t ahead) {
      return BufferId{static_cast<std::uint32_t>((number + i + ahead) % kBuffers)};
    };
    std::thread([&] {
      for (std::uint64_t i = 0; i < kAccesses; ++i) {
        const std::uint64_t transfer = 2 * (number + i);
        recorder.add(times[6 * i], TraceEviction{{transfer}, buffer(i, 32), {}, 2_MiB, 2_MiB});
        recorder.add(times[6 * i + 1],
                     TraceFetch{{transfer + 1}, buffer(i, 0), {}, 2_MiB, 2_MiB, i % 8 == 0});
        recorder.add(times[6 * i + 4], TraceTransferEnd{{transfer}});
        recorder.add(times[6 * i + 5], TraceTransferEnd{{transfer + 1}});
      }
    }).join();
    for (std::uint64_t i = 0; i < kAccesses; ++i) {
      const BufferId named = buffer(i, 0);
      const std::uint64_t launch = number + i + 1;
      recorder.launch(times[6 * i + 2], launch, KernelId{1}, 0, std::span(&named, 1));
      recorder.launch(times[6 * i + 3], launch, KernelId{2}, 0, {});
    }
    number += kAccesses;
    recorder.write(true);
  }
  recorder.finish(after(1));
  EXPECT_EQ(recorder.totals().dropped, 0u);
  EXPECT_LE(static_cast<double>(sink.bytes.size()) / (kChunks * kAccesses), 24.0);
}

TEST(TraceRecorder, CountsWhatIsDroppedAndSaysWhere) {
  MemorySink sink;
  TraceRecorder::Options options;
  options.ring_bytes = 4096;
  TraceRecorder recorder(sink, kStart, options);
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    recorder.launch(after(static_cast<std::int64_t>(i)), i, KernelId{1}, 0, {});
  }
  recorder.write(false);
  recorder.launch(after(2000), 1000, KernelId{1}, 0, {});
  recorder.finish(after(3000));
  Launches launches;
  TraceEnding ending;
  read(sink, launches, &ending);
  EXPECT_GT(launches.count, 20u);
  EXPECT_LT(launches.count, 100u);
  EXPECT_EQ(launches.count + launches.dropped, 1001u);
  EXPECT_EQ(ending.dropped, launches.dropped);
  EXPECT_EQ(recorder.totals().dropped, launches.dropped);
  EXPECT_EQ(launches.numbers[1].back(), 1000u);
}

TEST(TraceRecorder, DropsARecordThatNoRingCanHold) {
  MemorySink sink;
  TraceRecorder::Options options;
  options.ring_bytes = 4096;
  TraceRecorder recorder(sink, kStart, options);
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  recorder.launch(after(1), 1, KernelId{1}, 0, std::vector<BufferId>(1024));
  recorder.launch(after(2), 2, KernelId{1}, 0, {});
  recorder.finish(after(3));
  Launches launches;
  read(sink, launches);
  EXPECT_THAT(launches.numbers[1], ElementsAre(2u));
  EXPECT_EQ(launches.dropped, 1u);
}

TEST(TraceRecorder, LosesNothingBetweenManyThreadsAndTheWriter) {
  constexpr std::uint64_t kThreads = 4, kEach = 30'000;
  MemorySink sink;
  TraceRecorder::Options options;
  options.ring_bytes = 16'384;  // so that it wraps often, and is full at times
  options.rest = std::chrono::milliseconds(0);
  options.chunk_time = std::chrono::milliseconds(1);
  TraceRecorder recorder(sink, kStart, options);
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  std::thread writing([&] { recorder.run(); });
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorder, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::array<BufferId, 3> ids = {BufferId{static_cast<std::uint32_t>(i % 1000)},
                                             BufferId{static_cast<std::uint32_t>(i % 1000)},
                                             BufferId{static_cast<std::uint32_t>(i % 1000)}};
        recorder.launch(after(static_cast<std::int64_t>(i)), i, KernelId{t}, t,
                        std::span(ids).first(i % 4));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder.end();
  writing.join();
  recorder.finish(after(kEach));
  Launches launches;
  read(sink, launches);
  EXPECT_EQ(launches.count + launches.dropped, kThreads * kEach);
  EXPECT_GT(launches.count, 0u);
  for (const auto& [thread, numbers] : launches.numbers) {
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
    EXPECT_EQ(std::set(numbers.begin(), numbers.end()).size(), numbers.size());
  }
}

TEST(TraceRecorder, KeepsRecordersOfOneThreadApart) {
  MemorySink first_sink, second_sink;
  {
    TraceRecorder first(first_sink, kStart, {});
    TraceRecorder second(second_sink, kStart, {});
    ASSERT_EQ(first.begin({}), std::nullopt);
    ASSERT_EQ(second.begin({}), std::nullopt);
    for (std::uint64_t i = 0; i < 10; ++i) {
      (i % 2 == 0 ? first : second)
          .launch(after(static_cast<std::int64_t>(i)), i, KernelId{1}, 0, {});
    }
    first.finish(after(10));
    second.finish(after(10));
  }
  Launches first, second;
  read(first_sink, first);
  read(second_sink, second);
  EXPECT_THAT(first.numbers[1], ElementsAre(0u, 2u, 4u, 6u, 8u));
  EXPECT_THAT(second.numbers[1], ElementsAre(1u, 3u, 5u, 7u, 9u));
}

TEST(TraceRecorder, SaysOnceThatItsFileCannotBeWrittenAndRecordsNoMore) {
  MemorySink sink(6000);
  std::vector<std::string> problems;
  TraceRecorder::Options options;
  options.on_problem = [&problems](const std::string& problem) { problems.push_back(problem); };
  TraceRecorder recorder(sink, kStart, options);
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      recorder.launch(after(static_cast<std::int64_t>(i * i)), i * round, KernelId{i % 7}, 0, {});
    }
    recorder.write(true);
  }
  EXPECT_FALSE(recorder.is_recording());
  recorder.run();  // has nothing to wait for
  EXPECT_FALSE(recorder.finish(after(1'000'000)));
  EXPECT_THAT(problems, ElementsAre(HasSubstr("no space left")));
  // What was written before is readable.
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "recorded");
  ASSERT_TRUE(reader.ok());
  Launches launches;
  EXPECT_EQ(reader->read_all(launches), std::nullopt);
  EXPECT_GT(launches.count, 0u);
  EXPECT_FALSE(reader->ending().is_complete);
}

// What static objects of a program free, they free after the main thread's own objects are gone.
TEST(TraceRecorderDeathTest, RecordsWhatTheMainThreadDoesAtTheVeryEnd) {
  static MemorySink sink;
  static TraceRecorder* recorder = nullptr;
  const auto end = [] {
    recorder = new TraceRecorder(sink, kStart, {});
    (void)recorder->begin({});
    std::atexit([] {
      recorder->launch(after(20), 2, KernelId{1}, 0, {});
      (void)recorder->finish(after(30));
      const TraceTotals totals = recorder->totals();
      ::_exit(static_cast<int>(10 * totals.events + totals.dropped));
    });
    recorder->launch(after(10), 1, KernelId{1}, 0, {});
    std::exit(1);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(20), "");
}

TEST(TraceRecorder, RefusesToBeginWithoutAFile) {
  MemorySink sink(10);
  TraceRecorder recorder(sink, kStart, {});
  EXPECT_THAT(recorder.begin({}), ::testing::Optional(HasSubstr("no space left")));
  EXPECT_FALSE(recorder.is_recording());
}

}  // namespace
}  // namespace superpipe
