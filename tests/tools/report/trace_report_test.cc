#include "tools/superpipe/report/trace_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "policy/layer_grouping.h"
#include "profiler/trace_reader.h"
#include "tests/profiler/trace_examples.h"
#include "tests/tools/planner/written_trace.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/report/report_page.h"

namespace superpipe::cli {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr BufferId kWeight{0};
constexpr BufferId kOtherBuffer{1};

TraceMoment at(std::int64_t time) { return {time, 1}; }

// Two buffers of a call site each, both on the device.
class TwoBuffers : public ::testing::Test {
 protected:
  TwoBuffers() {
    report.on_kernel({1, 11, "gemm"});
    report.on_kernel({2, 12, "gather"});
    report.on_call_site({1, "load+0x1 model.so+0x10"});
    report.on_call_site({2, "cudaMalloc+0x1 libcudart.so.13+0x2\ncache+0x1 model.so+0x20"});
    report.on_allocation(at(1000), {kWeight, 0x1000, 4_MiB, 4_MiB, 0, 1});
    report.on_allocation(at(1000), {kOtherBuffer, 0x9000, 8_MiB, 8_MiB, 0, 2});
  }

  void fetch(std::int64_t time, std::uint64_t number, BufferId buffer, Bytes size,
             bool demand = true) {
    report.on_fetch(at(time), {{number}, buffer, Bytes{}, size, size, demand});
  }
  void launch(std::int64_t time, std::uint64_t number, TraceIndex kernel = 1) {
    const std::array<BufferId, 2> both = {kWeight, kOtherBuffer};
    report.on_launch(at(time), {{number}, kernel, 1, both});
  }
  [[nodiscard]] const TraceReport::Group& group(const std::string& name) const {
    for (const auto& one : report.groups()) {
      if (one.name == name) return one;
    }
    ADD_FAILURE() << "no group " << name;
    return report.groups().front();
  }

  TraceReport report{TracedLayers{{}, 0, kNoLayer}};
};

TEST_F(TwoBuffers, StallCountsForTheBytesThatCameLate) {
  fetch(1 * kMs, 1, kWeight, 4_MiB);
  report.on_transfer_end(at(2 * kMs), {{1}});  // before the wait
  fetch(3 * kMs, 2, kOtherBuffer, 8_MiB);
  launch(3 * kMs + 1, 1);
  report.on_transfer_end(at(9 * kMs), {{2}});
  report.on_stall(at(10 * kMs), {{1}, -1 * kMs, 5 * kMs});
  report.finish();
  EXPECT_EQ(report.stall_ns(), 5U * kMs);
  EXPECT_DOUBLE_EQ(group("cache").stall_ns, 5.0 * kMs);
  EXPECT_DOUBLE_EQ(group("cache").late_bytes, static_cast<double>((8_MiB).count()));
  EXPECT_DOUBLE_EQ(group("load").stall_ns, 0);
  EXPECT_EQ(report.kernels().at(1).stall_ns, 5U * kMs);
  EXPECT_DOUBLE_EQ(report.kernels().at(1).late_bytes, static_cast<double>((8_MiB).count()));
  EXPECT_EQ(report.kernels().count(2), 0U);
}

TEST_F(TwoBuffers, WaitsOfTheProgramAreToldByWhatFor) {
  report.on_wait(at(10 * kMs), {TraceWait::kDevice, 4 * kMs});
  report.on_wait(at(20 * kMs), {TraceWait::kDevice, 1 * kMs});
  report.on_wait(at(30 * kMs), {TraceWait::kLaunch, 2 * kMs});
  report.on_wait(at(40 * kMs),
                 {99, 500 * kMs});  // longer than the trace, and for what nobody knows
  report.finish();
  const auto& [launch, device, copy, other] = report.waits();
  EXPECT_EQ(launch.ns, 2U * kMs);
  EXPECT_EQ(device.calls, 2U);
  EXPECT_EQ(device.ns, 5U * kMs);
  EXPECT_EQ(copy.calls, 0U);
  EXPECT_EQ(other.ns, 40U * kMs);
  const auto bins = device.by_time.bins();
  EXPECT_NEAR(std::accumulate(bins.begin(), bins.end(), 0.0), 5.0 * kMs, 1);
  EXPECT_EQ(bins.size(), report.stalls().bins().size());
}

TEST_F(TwoBuffers, MarksAreToldByTheirText) {
  const auto mark = [&](std::int64_t time, std::uint32_t thread, const TraceMark& event) {
    report.on_mark({time, thread}, event);
  };
  mark(10 * kMs, 1, {TraceMark::kBegin, 1, 0});
  mark(11 * kMs, 1, {TraceMark::kBegin, 2, 0});
  mark(12 * kMs, 2, {TraceMark::kEnd, 0, 0});  // its beginning was dropped
  mark(13 * kMs, 1, {TraceMark::kEnd, 0, 0});
  mark(14 * kMs, 1, {TraceMark::kBegin, 2, 7});
  mark(16 * kMs, 2, {TraceMark::kEnd, 0, 7});
  mark(17 * kMs, 2, {TraceMark::kPoint, 2, 0});
  mark(20 * kMs, 2, {TraceMark::kPoint, 3, 0});
  report.finish();  // with the first range open
  const auto& marks = report.marks();
  EXPECT_EQ(marks.at(1).ns, 10U * kMs);
  EXPECT_EQ(marks.at(2).ranges, 2U);
  EXPECT_EQ(marks.at(2).points, 1U);
  EXPECT_EQ(marks.at(2).ns, 4U * kMs);
  EXPECT_EQ(marks.at(3).ranges, 0U);
  const auto bins = marks.at(2).by_time.bins();
  EXPECT_NEAR(std::accumulate(bins.begin(), bins.end(), 0.0), 4.0 * kMs, 1);
}

TEST_F(TwoBuffers, MarksOfTooManyTextsAreCounted) {
  constexpr std::uint64_t kTooMany = 3;
  for (TraceIndex text = 1; text <= TraceReport::kMostMarks + kTooMany; ++text) {
    report.on_mark(at(kMs), {TraceMark::kPoint, text, 0});
  }
  report.finish();
  EXPECT_EQ(report.marks().size(), TraceReport::kMostMarks);
  EXPECT_EQ(report.counts().other_marks, kTooMany);
}

TEST_F(TwoBuffers, StallIsSharedOutByBytes) {
  fetch(1 * kMs, 1, kWeight, 4_MiB);
  fetch(1 * kMs, 2, kOtherBuffer, 8_MiB);
  launch(2 * kMs, 1, 2);
  report.on_stall(at(10 * kMs), {{1}, 0, 6 * kMs});
  report.finish();
  EXPECT_DOUBLE_EQ(group("load").stall_ns, 2.0 * kMs);
  EXPECT_DOUBLE_EQ(group("cache").stall_ns, 4.0 * kMs);
  EXPECT_EQ(report.kernels().at(2).stall_ns, 6U * kMs);
}

TEST_F(TwoBuffers, RoomForNewPagesIsTheCauseWhereNoContentWasLate) {
  constexpr BufferId kNew{5};
  report.on_fetch(at(1 * kMs), {{1}, kNew, Bytes{}, Bytes{}, 6_MiB, false});
  report.on_allocation(at(2 * kMs), {kNew, 0x5000, 6_MiB, 6_MiB, 0, 2});
  report.on_launch(at(3 * kMs), {{1}, 1, 1, std::span(&kNew, 1)});
  report.on_transfer_end(at(8 * kMs), {{1}});
  report.on_stall(at(9 * kMs), {{1}, -1 * kMs, 5 * kMs});
  report.finish();
  EXPECT_DOUBLE_EQ(group("cache").stall_ns, 5.0 * kMs);
  EXPECT_DOUBLE_EQ(group("cache").late_new_pages, static_cast<double>((6_MiB).count()));
  EXPECT_DOUBLE_EQ(group("cache").late_bytes, 0);
  EXPECT_DOUBLE_EQ(report.unexplained_stall_ns(), 0);
}

TEST_F(TwoBuffers, StallOfAMemsetIsFoundByWhatItWaitedFor) {
  const auto use = [&](std::int64_t time, const BufferId& buffer) {
    report.on_use(at(time), {1, true, std::span(&buffer, 1)});
  };
  fetch(1 * kMs, 1, kWeight, 4_MiB);
  use(1 * kMs, kWeight);  // it did not wait
  report.on_transfer_end(at(2 * kMs), {{1}});
  fetch(3 * kMs, 2, kWeight, 4_MiB);
  use(3 * kMs, kWeight);
  fetch(4 * kMs, 3, kOtherBuffer, 8_MiB);
  use(4 * kMs, kOtherBuffer);
  report.on_transfer_end(at(5 * kMs), {{2}});
  report.on_stall(at(5 * kMs + 1), {{0}, 0, 2 * kMs});
  report.on_transfer_end(at(9 * kMs), {{3}});
  report.on_stall(at(9 * kMs + 1), {{0}, 0, 4 * kMs});
  report.finish();
  EXPECT_DOUBLE_EQ(group("load").stall_ns, 2.0 * kMs);
  EXPECT_DOUBLE_EQ(group("cache").stall_ns, 4.0 * kMs);
  EXPECT_EQ(report.kernels().at(TraceReport::kUses).stalls, 2U);
  EXPECT_NE(report.kernel_name(TraceReport::kUses).find("memset"), std::string::npos);
  EXPECT_DOUBLE_EQ(report.unexplained_stall_ns(), 0);
}

TEST_F(TwoBuffers, FetchIsTheCauseForItsFirstUseOnly) {
  fetch(1 * kMs, 1, kWeight, 4_MiB);
  launch(2 * kMs, 1);
  launch(3 * kMs, 2);
  report.on_stall(at(9 * kMs), {{2}, 0, 8 * kMs});
  report.finish();
  EXPECT_DOUBLE_EQ(report.unexplained_stall_ns(), 8.0 * kMs);
  EXPECT_DOUBLE_EQ(group("load").stall_ns, 0);
}

TEST_F(TwoBuffers, StallIsDrawnWhereItWas) {
  launch(2 * kMs, 1);
  report.on_stall(at(40 * kMs), {{1}, -20 * kMs, 10 * kMs});
  report.on_memory(at(100 * kMs), {1_MiB, 1_MiB, 1_MiB, 1_MiB});
  report.finish();
  const auto bins = report.stalls().bins();
  const std::uint64_t width = report.stalls().width();
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const bool is_within = i * width >= 10U * kMs && (i + 1) * width <= 20U * kMs;
    const bool is_after = i * width >= 20U * kMs;
    if (is_within) {
      EXPECT_NEAR(bins[i], static_cast<double>(width), 1) << i;
    } else if (is_after) {
      EXPECT_EQ(bins[i], 0) << i;
    }
  }
}

TEST_F(TwoBuffers, ResidencyIsOfItsGroup) {
  fetch(2 * kMs, 1, kWeight, 4_MiB);
  report.on_eviction(at(6 * kMs), {{1}, kWeight, Bytes{}, Bytes{}, 4_MiB});
  report.on_free(at(8 * kMs), {kWeight, 0x1000, 0});
  report.finish();
  double integral = 0;
  for (const auto& bin : group("load").residency.bins()) integral += bin.integral;
  EXPECT_DOUBLE_EQ(integral, static_cast<double>((4_MiB).count()) * 4 * kMs);
  EXPECT_EQ(group("load").most_bytes, (4_MiB).count());
  EXPECT_EQ(group("load").bytes, 0U);
  EXPECT_EQ(group("cache").residency.peak(), 0U);
}

TEST_F(TwoBuffers, ContentThatIsCopiedAheadOfNeedStays) {
  fetch(2 * kMs, 1, kWeight, 4_MiB);
  report.on_eviction(at(6 * kMs), {{1}, kWeight, Bytes{}, 4_MiB, Bytes{}});
  report.on_free(at(8 * kMs), {kWeight, 0x1000, 0});
  report.finish();
  EXPECT_EQ(report.counts().evictions, 0U);
  EXPECT_EQ(report.counts().write_backs, 0U);
  EXPECT_EQ(report.to_host().bytes(), 4_MiB);
  double integral = 0;
  for (const auto& bin : group("load").residency.bins()) integral += bin.integral;
  EXPECT_DOUBLE_EQ(integral, static_cast<double>((4_MiB).count()) * 6 * kMs);
}

TEST_F(TwoBuffers, PagesThatComeBeforeTheAllocationOrStayBehindItCount) {
  constexpr BufferId kNext{7};
  report.on_fetch(at(2 * kMs), {{1}, kNext, Bytes{}, Bytes{}, 2_MiB, false});
  report.on_allocation(at(3 * kMs), {kNext, 0x2000, 2_MiB, 2_MiB, 0, 1});
  report.on_free(at(4 * kMs), {kNext, 0x2000, 0});
  report.on_allocation(at(6 * kMs), {kNext, 0x2000, 2_MiB, 2_MiB, 0, 1});
  report.on_memory(at(7 * kMs), {2_MiB, 2_MiB, 0_MiB, 0_MiB});
  report.finish();
  double integral = 0;
  for (const auto& bin : group("load").residency.bins()) integral += bin.integral;
  EXPECT_DOUBLE_EQ(integral, static_cast<double>((2_MiB).count()) * 2 * kMs);
}

TEST_F(TwoBuffers, DeviceMemoryIsPagesAndTheDriversOwn) {
  report.on_memory(at(2 * kMs), {10_MiB, 12_MiB, 3_MiB, 2_MiB});
  report.on_memory(at(3 * kMs), {4_MiB, 12_MiB, 4_MiB, 6_MiB});
  report.on_budget(at(3 * kMs), {20_MiB, 18_MiB});
  report.finish();
  EXPECT_EQ(report.device().peak(), (13_MiB).count());
  EXPECT_EQ(report.device().peak_time(), 2U * kMs);
  EXPECT_EQ(report.pinned_host().peak(), (6_MiB).count());
  EXPECT_EQ(report.budget().value(), (20_MiB).count());
}

TEST_F(TwoBuffers, SiteIsNamedByTheProgramsOwnFunction) {
  EXPECT_EQ(site_title(report.all_names().frames(2)), "cache");
  EXPECT_EQ(site_title({}), "call site not known");
  const CallFrame runtime{"cudaMalloc", "/usr/lib/libcudart.so.13+0x1"};
  const CallFrame unnamed{"/usr/lib/libc10_cuda.so+0x2", "/usr/lib/libc10_cuda.so+0x2"};
  const CallFrame framework{"at::native::empty_like(at::Tensor const&)", "libtorch.so+0x3"};
  const CallFrame operation{"at::native::addmm(at::Tensor const&)", "libtorch.so+0x4"};
  EXPECT_EQ(site_title({runtime, unnamed, framework, operation}), operation.function);
  EXPECT_EQ(site_title({runtime, unnamed}), "libc10_cuda.so+0x2");
  EXPECT_EQ(site_title({runtime}), "cudaMalloc");
  EXPECT_EQ(site_title({runtime, framework}), framework.function);
  EXPECT_EQ(report.sites().at(1).most_live, (4_MiB).count());
}

TEST(SiteTitle, NamesPlacesOfAProgramWithoutNames) {
  const auto nameless = [](const std::string& place) { return CallFrame{place, place}; };
  const CallFrame runtime{"cudaMalloc", "/usr/lib/libcudart.so.13+0x1"};
  const CallFrame start{"__libc_start_main", "/lib/libc.so.6+0x27305"};
  EXPECT_EQ(site_title({runtime, nameless("/opt/layers+0x1d3"), nameless("/opt/layers+0xbda"),
                        nameless("/lib/libc.so.6+0x2724a"), start, nameless("/opt/layers+0x91b")}),
            "layers+0x1d3 < layers+0xbda");
  EXPECT_EQ(site_title({runtime, nameless("/opt/layers+0x1d3"), start}), "layers+0x1d3");
  EXPECT_EQ(site_title({runtime, start}), "__libc_start_main");
}

TEST(SiteTitle, NamesTheProgramsOwnFunctionOfPython) {
  const CallFrame native{"at::native::addmm(at::Tensor const&)", "libtorch.so+0x4"};
  const CallFrame linear{"Linear.forward", "/lib/site-packages/torch/nn/modules/linear.py:125",
                         125};
  const CallFrame mlp{"MLP.forward", "/lib/site-packages/transformers/llama.py:155", 155};
  const CallFrame main{"<module>", "/home/me/run.py:9", 9};
  EXPECT_EQ(site_title({native, linear, native, mlp, main}), "MLP.forward (llama.py:155)");
  EXPECT_EQ(site_title({native, linear}), "Linear.forward (linear.py:125)");
  const CallFrame own{"train", "/home/me/torch/train.py:3", 3};
  EXPECT_EQ(site_title({native, linear, own, main}), "train (train.py:3)");
}

// The parts of any trace add up to its wholes.
TEST(TraceReport, PartsSumUpToTheWhole) {
  TraceReport report{TracedLayers{{0, 0, 1, 1, 2}, 2, 2}};
  std::mt19937_64 random(3);
  std::int64_t time = 0;
  std::uint64_t transfer = 0;
  std::uint64_t fetched = 0;
  std::uint64_t stalled = 0;
  for (std::uint32_t i = 0; i < 8; ++i) {
    report.on_allocation(at(time), {BufferId{i}, 0x1000 * (i + 1), 2_MiB, 2_MiB, 0, i % 3});
  }
  for (std::uint64_t number = 1; number <= 3000; ++number) {
    time += static_cast<std::int64_t>(random() % 100'000);
    const std::array<BufferId, 2> named = {BufferId{static_cast<std::uint32_t>(random() % 8)},
                                           BufferId{static_cast<std::uint32_t>(random() % 8)}};
    for (const BufferId buffer : named) {
      const Bytes size{random() % 1'000'000};
      report.on_fetch(at(time), {{++transfer}, buffer, Bytes{}, size, 2_MiB, random() % 2 == 0});
      fetched += size.count();
    }
    report.on_launch(at(time), {{number}, static_cast<TraceIndex>(random() % 5), 1, named});
    if (random() % 4 == 0) report.on_transfer_end(at(time + 500), {{transfer}});
    if (random() % 3 == 0) {
      const std::uint64_t duration = random() % 50'000;
      report.on_stall(at(time + 1000), {{number}, -100, duration});
      stalled += duration;
    }
    report.on_eviction(at(time + 2000), {{transfer}, named[0], Bytes{}, Bytes{}, 2_MiB});
  }
  report.finish();
  double by_group = report.unexplained_stall_ns();
  std::uint64_t fetched_by_group = 0;
  for (const auto& group : report.groups()) {
    by_group += group.stall_ns;
    fetched_by_group += group.fetched;
  }
  std::uint64_t by_kernel = 0;
  for (const auto& [index, kernel] : report.kernels()) by_kernel += kernel.stall_ns;
  const auto in_bins =
      std::accumulate(report.stalls().bins().begin(), report.stalls().bins().end(), 0.0);
  const auto carried = std::accumulate(report.to_device().carried().bins().begin(),
                                       report.to_device().carried().bins().end(), 0.0);
  EXPECT_EQ(report.stall_ns(), stalled);
  EXPECT_EQ(by_kernel, stalled);
  EXPECT_NEAR(by_group, static_cast<double>(stalled), 1);
  EXPECT_NEAR(in_bins, static_cast<double>(stalled), 1);
  EXPECT_EQ(report.to_device().bytes().count(), fetched);
  EXPECT_EQ(fetched_by_group, fetched);
  EXPECT_NEAR(carried, static_cast<double>(fetched), 1);
}

TEST(TraceReport, JoinsPointsOfManyPasses) {
  TraceReport report{TracedLayers{{}, 0, kNoLayer}};
  std::int64_t time = 0;
  double sum = 0;
  constexpr int kPasses = 3 * static_cast<int>(TraceReport::kMostPassPoints);
  for (int pass = 0; pass <= kPasses; ++pass) {
    report.on_pass(at(time), {{1}});
    const std::int64_t length = pass == 1234 ? 50 * kMs : kMs;
    time += length;
    if (pass < kPasses) sum += static_cast<double>(length) * 1e-6;
  }
  report.finish();
  EXPECT_LE(report.passes().size(), TraceReport::kMostPassPoints);
  double all = 0;
  double most = 0;
  std::uint64_t passes = 0;
  for (const auto& point : report.passes()) {
    all += point.sum_ms;
    most = std::max(most, point.most_ms);
    passes += point.passes;
  }
  EXPECT_EQ(passes, static_cast<std::uint64_t>(kPasses));
  EXPECT_NEAR(all, sum, 1e-6);
  EXPECT_DOUBLE_EQ(most, 50);
}

TEST(FindLayers, NumbersLayersAsTheProgramUsesThem) {
  testing::WrittenTrace trace;
  const BufferId embedding = trace.allocate(6_MiB);
  std::vector<BufferId> weights;
  for (int i = 0; i < 12; ++i) weights.push_back(trace.allocate(16_MiB));
  for (int pass = 0; pass < 8; ++pass) {
    trace.launch(1, {embedding}, 1'000'000);
    for (std::uint32_t i = 0; i < 12; ++i) trace.launch(2 + i % 3, {weights[i]}, 1'000'000);
  }
  const auto program = std::get<TracedProgram>(trace.program());
  const TracedLayers found = find_layers(program, find_passes(program, 1'000'000));
  ASSERT_EQ(found.layer_of.size(), 13U);
  // The embedding comes first, and is a part of the first repetition of three weights.
  EXPECT_EQ(found.layers, 4U);
  EXPECT_EQ(found.layer_of[0], 0U);
  for (std::uint32_t i = 0; i < 12; ++i) EXPECT_EQ(found.layer_of[1 + i], i / 3) << i;
  EXPECT_EQ(found.shared, kNoLayer);
}

TEST(FindLayers, FindsNoneWithoutAPass) {
  testing::WrittenTrace trace;
  const BufferId buffer = trace.allocate(4_MiB);
  trace.launch(1, {buffer}, 1000);
  const auto program = std::get<TracedProgram>(trace.program());
  const TracedLayers found = find_layers(program, find_passes(program, 1'000'000));
  EXPECT_EQ(found.layers, 0U);
  EXPECT_THAT(found.layer_of, ::testing::ElementsAre(kNoLayer));
}

TEST(WhatIfBudgets, GoFromTheLeastToAll) {
  const std::vector<Bytes> budgets = what_if_budgets(1000_MiB, 250_MiB);
  EXPECT_EQ(budgets.front(), 256_MiB);
  EXPECT_GE(budgets.back(), 1000_MiB);
  EXPECT_EQ(budgets.size(), 9U);
  for (std::size_t i = 1; i < budgets.size(); ++i) EXPECT_LT(budgets[i - 1], budgets[i]);
  EXPECT_THAT(what_if_budgets(4_MiB, 4_MiB), ::testing::ElementsAre(4_MiB));
}

TEST(ReportPage, TextsCannotEndTheScript) {
  const std::string hostile = R"({"name":"</script><script>alert(1)</script><!-- &amp;"})";
  const std::string content = as_script_content(hostile);
  EXPECT_EQ(content.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(content, R"({"name":"\u003c/script\u003e\u003cscript\u003ealert(1)\u003c/script\u003e)"
                     R"(\u003c!-- \u0026amp;"})");
}

// Traces whose checksums are right and whose events are nonsense.
TEST(TraceReport, SurvivesEventsThatMakeNoSense) {
  const std::vector<std::byte> good = superpipe::testing::example_trace();
  const auto chunks = superpipe::testing::chunks_of(good);
  std::mt19937 random(1);
  int readable = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bad(good.begin(), good.begin() + kTraceHeaderSize);
    for (const auto& chunk : chunks) {
      auto raw = superpipe::testing::raw_of(good, chunk);
      if (chunk.header.kind == TraceChunkHeader::Kind::kEvents) {
        raw[random() % raw.size()] = static_cast<std::byte>(random());
      }
      const auto bytes = superpipe::testing::chunk_with(chunk.header, raw);
      bad.insert(bad.end(), bytes.begin(), bytes.end());
    }
    auto reader = TraceReader::from(std::make_unique<TraceBytesSource>(bad), "trace");
    if (!reader.ok()) continue;
    TraceReport report{TracedLayers{{0}, 1, kNoLayer}};
    report.begin(reader->properties());
    if (reader->read_all(report)) continue;
    report.finish();
    ++readable;
    ReportedTrace trace;
    trace.file = "trace";
    trace.report = &report;
    const std::string json = report_json(std::span(&trace, 1));
    EXPECT_LT(json.size(), 2'000'000U);
  }
  EXPECT_GT(readable, 100);
}

}  // namespace
}  // namespace superpipe::cli
