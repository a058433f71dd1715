// What the manager tells a trace.
#include "residency/residency_trace.h"

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "profiler/trace_reader.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

class BytesSink final : public TraceSink {
 public:
  std::optional<std::string> write(std::span<const std::byte> more) override {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return std::nullopt;
  }
  std::vector<std::byte> bytes;
};

/// Adds up what a trace says.
class Told : public TraceVisitor {
 public:
  void on_fetch(const TraceMoment& /*when*/, const TraceFetch& event) override {
    EXPECT_EQ(event.footprint, Bytes{kPage});
    fetched += event.size;
    ++(event.size == Bytes{} ? new_pages : event.demand ? demand_fetches : prefetches);
    on_device.insert(index_of(event.buffer));
    most = std::max(most, on_device.size());
    EXPECT_TRUE(transfers.insert(event.transfer.value).second);
  }
  void on_eviction(const TraceMoment& /*when*/, const TraceEviction& event) override {
    written += event.size;
    ++(event.size == Bytes{} ? clean_evictions : write_backs);
    EXPECT_EQ(on_device.erase(index_of(event.buffer)), 1u);
    if (event.size == Bytes{}) return;
    EXPECT_TRUE(transfers.insert(event.transfer.value).second);
  }
  void on_transfer_end(const TraceMoment& /*when*/, const TraceTransferEnd& event) override {
    EXPECT_TRUE(transfers.contains(event.transfer.value));
    ++ends;
  }
  void on_stall(const TraceMoment& /*when*/, const TraceStall& event) override {
    stall_ms += static_cast<double>(event.duration_ns) / 1e6;
    stalled.insert(event.launch.value);
  }
  void on_pass(const TraceMoment& /*when*/, const TracePass& event) override {
    passes.push_back(event.launch.value);
  }
  void on_budget(const TraceMoment& /*when*/, const TraceBudget& event) override {
    budgets.push_back(event.budget);
  }
  void on_memory(const TraceMoment& /*when*/, const TraceMemory& event) override {
    most_pages = std::max(most_pages, event.pages);
    besides.push_back(event.passthrough);
  }

  std::set<std::uint32_t> on_device;
  std::set<std::uint64_t> transfers, stalled;
  std::vector<std::uint64_t> passes;
  std::vector<Bytes> budgets, besides;
  std::uint64_t new_pages = 0, demand_fetches = 0, prefetches = 0, clean_evictions = 0,
                write_backs = 0, ends = 0;
  std::size_t most = 0;
  Bytes fetched, written, most_pages;
  double stall_ms = 0;
};

class ResidencyTraceTest : public ManagerTest {
 protected:
  // Six layers, of which the device holds three, are used in turn.
  Told run() {
    BytesSink sink;
    TraceRecorder recorder(sink, TraceRecorder::TimePoint{}, {});
    EXPECT_EQ(recorder.begin({}), std::nullopt);
    options_.trace = &recorder;
    make(budget_of(3));
    std::vector<Address> layers;
    for (int i = 0; i < 6; ++i) layers.push_back(load(1, i));
    for (int pass = 0; pass < 5; ++pass) {
      for (const Address layer : layers) EXPECT_EQ(launch({layer}), Status::kOk);
    }
    // What the worker begins in the first round ends before the second.
    for (int round = 0; round < 2; ++round) {
      device_->drain();
      work();
    }
    recorder.finish(device_->now());
    Told told;
    auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "told");
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(reader->read_all(told), std::nullopt);
    EXPECT_TRUE(reader->ending().is_complete);
    EXPECT_EQ(reader->ending().dropped, 0u);
    return told;
  }
};

TEST_F(ResidencyTraceTest, AgreesWithTheStatistics) {
  const Told told = run();
  const ResidencyStats stats = manager_->stats();
  EXPECT_GT(told.fetched, Bytes{});
  EXPECT_EQ(told.fetched, stats.h2d_bytes);
  EXPECT_EQ(told.written, stats.d2h_bytes);
  EXPECT_EQ(told.demand_fetches, stats.demand_fetches);
  EXPECT_EQ(told.prefetches, stats.prefetches);
  EXPECT_EQ(told.write_backs, stats.write_backs);
  EXPECT_EQ(told.clean_evictions, stats.clean_evictions);
  EXPECT_NEAR(told.stall_ms, stats.stall_ms,
              1e-3 + 1e-6 * static_cast<double>(told.stalled.size()));
  EXPECT_EQ(told.budgets, std::vector{Bytes{3 * kPage}});
}

TEST_F(ResidencyTraceTest, ShowsNoMoreOnTheDeviceThanTheBudgetHolds) {
  const Told told = run();
  EXPECT_LE(told.most, 3u);
  EXPECT_LE(told.most_pages, Bytes{3 * kPage});
  EXPECT_GT(told.most_pages, Bytes{});
}

TEST_F(ResidencyTraceTest, TellsTheEndOfEachTransfer) {
  const Told told = run();
  EXPECT_GE(told.ends, told.demand_fetches + told.prefetches + told.write_backs);
}

TEST_F(ResidencyTraceTest, NamesLaunchesThatStalledAndBeganPasses) {
  const Told told = run();
  for (const std::uint64_t launch : told.stalled) {
    EXPECT_GE(launch, 1u);
    EXPECT_LE(launch, 30u);
  }
  ASSERT_GE(told.passes.size(), 2u);
  for (const std::uint64_t launch : told.passes)
    EXPECT_EQ((launch - 1) % 6, (told.passes[0] - 1) % 6);
}

TEST(ResidencyTrace, TellsOfMemoryOnceInAWhileOrAtOnce) {
  BytesSink sink;
  TraceRecorder recorder(sink, TraceRecorder::TimePoint{}, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  ResidencyTrace trace(recorder);
  const TraceRecorder::TimePoint now{std::chrono::seconds(1)};
  trace.note(now, {}, {{}, {}, 1_MiB, {}});
  trace.note(now, {}, {{}, {}, 2_MiB, {}});
  trace.note(now, {}, {{}, {}, 3_MiB, {}}, true);
  trace.note(now, {}, {{}, {}, 3_MiB, {}}, true);
  trace.note(now + ResidencyTrace::kMemoryInterval, {}, {{}, {}, 4_MiB, {}});
  recorder.finish(now);
  Told told;
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "told");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(reader->read_all(told), std::nullopt);
  EXPECT_EQ(told.besides, (std::vector<Bytes>{1_MiB, 3_MiB, 4_MiB}));
}

TEST(ResidencyTrace, LeavesOutTheEndOfATransferThatFailed) {
  BytesSink sink;
  TraceRecorder recorder(sink, TraceRecorder::TimePoint{}, {});
  ASSERT_EQ(recorder.begin({}), std::nullopt);
  ResidencyTrace trace(recorder);
  const auto failing = std::make_shared<Completion>();
  const auto ending = std::make_shared<Completion>();
  const TraceRecorder::TimePoint now{std::chrono::seconds(1)};
  trace.add(now, failing, TraceFetch{{}, BufferId{0}, {}, Bytes{kPage}, Bytes{kPage}, true});
  trace.add(now, ending, TraceFetch{{}, BufferId{1}, {}, Bytes{kPage}, Bytes{kPage}, true});
  EXPECT_EQ(trace.awaited(), (std::vector<CompletionRef>{failing, ending}));
  EXPECT_FALSE(trace.settle(now, {}));
  ending->complete = true;
  EXPECT_TRUE(trace.settle(now, std::vector<CompletionRef>{failing}));
  EXPECT_FALSE(trace.is_waiting());
  recorder.finish(now);
  Told told;
  auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(sink.bytes), "told");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(reader->read_all(told), std::nullopt);
  EXPECT_EQ(told.transfers.size(), 2u);
  EXPECT_GE(told.ends, 1u);
}

}  // namespace
}  // namespace superpipe::testing
