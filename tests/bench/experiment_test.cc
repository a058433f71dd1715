// The real manager and policies in virtual time, on programs whose times are known.
#include "residency/virtual_time/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/virtual_time/workloads.h"
#include "policy/piece_size.h"
#include "profiler/pass_times.h"
#include "residency/virtual_time/pass_trace.h"

namespace superpipe::bench {

using namespace virtual_time;

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Buffers in a cycle, each named by one kernel of 1 ms.
class Cycle : public Workload {
 public:
  explicit Cycle(std::size_t buffers, Bytes size = 2_MiB) : sizes_(buffers, size) {}
  /// Of these sizes, and the kernels change them.
  explicit Cycle(std::vector<Bytes> sizes) : sizes_(std::move(sizes)), changes_(true) {}
  void load(Program& program) override {
    for (const Bytes size : sizes_) {
      buffers_.push_back(program.allocate(size));
      program.upload(buffers_.back());
    }
  }
  void run_pass(Program& program, int /*number*/) override {
    for (const Handle buffer : buffers_) {
      const Named named = changes_ ? writes(buffer) : reads(buffer);
      program.launch(KernelId{1}, {&named, 1}, Seconds{1e-3});
    }
  }

 private:
  const std::vector<Bytes> sizes_;
  const bool changes_ = false;
  std::vector<Handle> buffers_;
};

/// A buffer crosses the link in 1 ms, and the program's thread takes no time for a launch.
Experiment experiment(PolicyKind policy, Bytes budget) {
  Experiment experiment;
  experiment.policy = policy;
  experiment.budget = budget;
  experiment.device.to_device = experiment.device.to_host = Bandwidth{2097152e3};
  experiment.device.copy_latency = Time{0};
  experiment.device.costs.launch = Time{0};
  return experiment;
}

TEST(Experiment, AProgramThatReadsWhatItLoadsFromAFileLoadsAsFastAsThat) {
  Cycle cycle(4);
  Experiment slow = experiment(PolicyKind::kSuperpipeline, 8_MiB);
  const Outcome at_once = run(cycle, slow);
  Cycle again(4);
  slow.load_rate = Bandwidth{2097152e2};  // a buffer in 10 ms
  const Outcome read = run(again, slow);
  EXPECT_EQ(read.load - at_once.load, milliseconds{40});
  EXPECT_EQ(read.passes.at(3).time, at_once.passes.at(3).time) << "no pass is slower";
}

TEST(Experiment, APassThatFitsTakesItsComputeAndMovesNothing) {
  Cycle cycle(4);
  const Outcome outcome = run(cycle, experiment(PolicyKind::kSuperpipeline, 8_MiB));
  ASSERT_EQ(outcome.passes.size(), 10U);
  for (std::size_t i = 1; i < outcome.passes.size(); ++i) {
    EXPECT_EQ(outcome.passes[i].time, milliseconds{4}) << i;
    EXPECT_EQ(outcome.passes[i].to_device, Bytes{}) << i;
    EXPECT_EQ(outcome.passes[i].stalls, 0U) << i;
    EXPECT_EQ(outcome.passes[i].launches, 4U) << i;
  }
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// With room for one buffer of two, each launch computes for 1 ms; then its buffer is copied out in
// 1 ms, and the next one's content comes in in 1 ms. What else it takes is the worker's time: until
// it sees that the kernel has ended it rests at most 200 us, and its calls take less than 150 us.
TEST(Experiment, APassOnOnePageTakesWhatItTakesByHand) {
  Cycle cycle(2);
  Experiment whole = experiment(PolicyKind::kNaive, 2_MiB);
  whole.compares_digests = false;
  const Outcome outcome = run(cycle, whole);
  ASSERT_EQ(outcome.passes.size(), 10U);
  for (const PassFigures& pass : outcome.passes) {
    EXPECT_GE(pass.time, milliseconds{6} - milliseconds{3});  // the first pass finds one there
  }
  for (std::size_t i = 1; i < outcome.passes.size(); ++i) {
    EXPECT_GE(outcome.passes[i].time, milliseconds{6}) << i;
    EXPECT_LE(outcome.passes[i].time, milliseconds{6} + 2 * microseconds{350}) << i;
    EXPECT_EQ(outcome.passes[i].to_device, 4_MiB) << i;
    EXPECT_EQ(outcome.passes[i].stalls, 2U) << i;
  }
  EXPECT_EQ(outcome.peak_pages, 2_MiB);
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// The same, but that nothing is copied out: its digest takes some microseconds instead, until the
// worker sees that it has come.
TEST(Experiment, ContentThatIsOnlyReadIsNotCopiedOutFromTheThirdPassOn) {
  Cycle cycle(2);
  const Outcome outcome = run(cycle, experiment(PolicyKind::kNaive, 2_MiB));
  ASSERT_EQ(outcome.passes.size(), 10U);
  EXPECT_GT(outcome.passes[0].to_host, Bytes{});
  for (std::size_t i = 2; i < outcome.passes.size(); ++i) {
    EXPECT_GE(outcome.passes[i].time, milliseconds{4}) << i;
    EXPECT_LE(outcome.passes[i].time, milliseconds{4} + 2 * microseconds{550}) << i;
    EXPECT_EQ(outcome.passes[i].to_device, 4_MiB) << i;
    EXPECT_EQ(outcome.passes[i].to_host, Bytes{}) << i;
    EXPECT_EQ(outcome.passes[i].clean_evictions, 2U) << i;
  }
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// The link could move four buffers in the time of a launch. Would it always move what is used next
// in the stead of what was just used, all 64 would come in each pass, though four are missing.
TEST(Experiment, MovesLittleWhereLittleIsMissingHoweverFastTheLink) {
  Cycle cycle(64);
  Experiment fast = experiment(PolicyKind::kAuto, 120_MiB);
  fast.piece_size = 2_MiB;
  fast.device.to_device = fast.device.to_host = Bandwidth{4 * 2097152e3};
  fast.device.queue_depth = 8;
  fast.passes = 12;
  const Outcome outcome = run(cycle, fast);
  ASSERT_EQ(outcome.passes.size(), 12U);
  for (std::size_t i = 6; i < outcome.passes.size(); ++i) {
    EXPECT_LE(outcome.passes[i].to_device, 16_MiB) << i;
    EXPECT_LE(outcome.passes[i].time, milliseconds{65}) << i << ": it comes in time all the same";
  }
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// The host submits launches for as long as there are pages, so that each launch for which something
// is missing waits long before the device comes to it. Would who goes for it be chosen then, that
// would be what the device has just used, and is used next of all: all 64 would come in each pass.
TEST(Experiment, MovesLittleWhereTheHostIsFarAheadOfTheDevice) {
  Cycle cycle(64);
  Experiment ahead = experiment(PolicyKind::kAuto, 120_MiB);
  ahead.piece_size = 2_MiB;
  ahead.device.to_device = ahead.device.to_host = Bandwidth{4 * 2097152e3};
  ahead.passes = 12;
  const Outcome outcome = run(cycle, ahead);
  ASSERT_EQ(outcome.passes.size(), 12U);
  for (std::size_t i = 8; i < outcome.passes.size(); ++i) {
    EXPECT_LE(outcome.passes[i].to_device, 24_MiB) << i;
    EXPECT_LE(outcome.passes[i].time, milliseconds{66}) << i << ": it comes in time all the same";
  }
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// What is missing takes longer than a pass computes. While one transfer is under way and another
// follows, which takes long, nobody is chosen for the one behind it.
TEST(Experiment, MovesLittleMoreThanIsMissingOverASlowLink) {
  Cycle cycle(32);
  Experiment slow = experiment(PolicyKind::kAuto, 52_MiB);
  slow.piece_size = 2_MiB;
  slow.device.to_device = slow.device.to_host = Bandwidth{2097152e3 / 8};
  slow.passes = 16;
  const Outcome outcome = run(cycle, slow);
  ASSERT_EQ(outcome.passes.size(), 16U);
  Bytes moved;
  for (std::size_t i = 8; i < outcome.passes.size(); ++i) moved += outcome.passes[i].to_device;
  // Twelve are missing, and what was used last when the link had to go on was not always the best.
  // Were it one of those alone that have been out before, so that they have slabs, it would be 18.
  EXPECT_LE(moved, 8 * 17_MiB);
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// A launch that lacks several pieces has room made for the last of them when that is about to come.
TEST(Experiment, ChoosesWhoGoesPieceByPieceOverASlowLink) {
  Cycle cycle(16, 8_MiB);
  Experiment slow = experiment(PolicyKind::kAuto, 86_MiB);
  slow.piece_size = 2_MiB;
  slow.device.to_device = slow.device.to_host = Bandwidth{2097152e3 / 8};
  slow.passes = 12;
  const Outcome outcome = run(cycle, slow);
  ASSERT_EQ(outcome.passes.size(), 12U);
  Bytes moved;
  for (std::size_t i = 6; i < outcome.passes.size(); ++i) moved += outcome.passes[i].to_device;
  EXPECT_LE(moved, 6 * 50_MiB) << moved.count() / 6 << " bytes a pass; 42 MiB are missing";
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// All that goes has to be written back, which may take three times as long as what comes before it.
// Were the choice of who goes left until the link is about to run dry, it would stand idle
// meanwhile.
TEST(Experiment, WriteBacksHideBehindTransfersOverASlowLink) {
  std::vector<Bytes> sizes;
  for (int i = 0; i < 16; ++i) sizes.insert(sizes.end(), {2_MiB, 6_MiB});
  Cycle cycle(sizes);
  Experiment slow = experiment(PolicyKind::kAuto, 102_MiB);
  slow.piece_size = 6_MiB;
  slow.device.to_device = slow.device.to_host = Bandwidth{2097152e3 / 8};
  slow.passes = 16;
  const Outcome outcome = run(cycle, slow);
  ASSERT_EQ(outcome.passes.size(), 16U);
  Bytes moved;
  Time taken{0};
  for (std::size_t i = 6; i < outcome.passes.size(); ++i) {
    moved += outcome.passes[i].to_device;
    taken += outcome.passes[i].time;
  }
  const double on_link = static_cast<double>(moved.count()) / (2097152e3 / 8);
  const double passes = std::chrono::duration<double>(taken).count();
  EXPECT_LE(passes, 1.05 * on_link) << moved.count() / 10 << " bytes a pass";
  EXPECT_THAT(outcome.violations, IsEmpty());
}

// What is missing takes three quarters of a pass to come: the link has to begin long before.
TEST(Experiment, BeginsEarlyEnoughWhereMuchIsMissing) {
  Cycle cycle(64);
  Experiment busy = experiment(PolicyKind::kAuto, 32_MiB);
  busy.piece_size = 2_MiB;
  busy.device.to_device = busy.device.to_host = Bandwidth{1.5 * 2097152e3};
  busy.device.queue_depth = 8;
  busy.passes = 12;
  const Outcome outcome = run(cycle, busy);
  ASSERT_EQ(outcome.passes.size(), 12U);
  for (std::size_t i = 6; i < outcome.passes.size(); ++i) {
    EXPECT_LE(outcome.passes[i].time, milliseconds{67}) << i;
  }
  EXPECT_THAT(outcome.violations, IsEmpty());
}

TEST(Experiment, SaysAtWhichLaunchTheOrderWasLearned) {
  Cycle cycle(16);
  const Outcome outcome = run(cycle, experiment(PolicyKind::kSuperpipeline, 16_MiB));
  ASSERT_TRUE(outcome.learned_at.has_value());
  EXPECT_GT(*outcome.learned_at, 16U);
  EXPECT_LE(*outcome.learned_at, 48U);
}

TEST(Experiment, AnOrderThatIsNeverLearnedIsNotReported) {
  Cycle cycle(16);
  Experiment one_pass = experiment(PolicyKind::kSuperpipeline, 16_MiB);
  one_pass.passes = 1;
  EXPECT_FALSE(run(cycle, one_pass).learned_at.has_value());
}

TEST(Experiment, ALaunchThatCannotFitEndsTheProgramWithItsReason) {
  Cycle cycle(2);
  const Outcome outcome = run(cycle, experiment(PolicyKind::kNaive, 1_MiB));
  EXPECT_THAT(outcome.error, HasSubstr("a launch failed"));
  EXPECT_THAT(outcome.passes, IsEmpty());
}

TEST(Experiment, TheSameProgramTakesTheSameTimeAgain) {
  const auto passes = [] {
    std::vector<Time> times;
    const auto workload = find_workload("experts")->make();
    Experiment options;
    options.budget = 40_GiB;
    options.passes = 3;
    for (const PassFigures& pass : run(*workload, options).passes) times.push_back(pass.time);
    return times;
  };
  const std::vector<Time> first = passes();
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(first, passes());
}

class EveryWorkload : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryWorkload, IsOrderedRightAndNeverFasterThanItsCompute) {
  const WorkloadEntry* const entry = find_workload(GetParam());
  ASSERT_NE(entry, nullptr);
  Experiment options;
  options.budget = 10_GiB;
  options.passes = 2;
  const auto workload = entry->make();
  const Outcome outcome = run(*workload, options);
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(outcome.violations, IsEmpty());
  EXPECT_LE(outcome.peak_pages, 10_GiB);
  for (const PassFigures& pass : outcome.passes) EXPECT_GE(pass.time, pass.compute);
}

INSTANTIATE_TEST_SUITE_P(Workloads, EveryWorkload,
                         ::testing::Values("llama-decode", "llama-cuda-half", "training", "experts",
                                           "draft-target", "two-streams", "stray-20"),
                         [](const auto& name) {
                           std::string word = name.param;
                           for (char& letter : word) letter = letter == '-' ? '_' : letter;
                           return word;
                         });

/// How near to what no schedule beats `auto` has to come on a program, from the third pass on.
struct Goal {
  std::string workload;
  int percent;  ///< the budget, of what the program needs
  double most;  ///< times the windowed bound

  friend void PrintTo(const Goal& goal, std::ostream* out) {
    *out << goal.workload << " with " << goal.percent << " %";
  }
};

class AutoInPieces : public ::testing::TestWithParam<Goal> {};

// The figures that are published (docs/measurements/virtual-time.md) are lower by a tenth or so.
TEST_P(AutoInPieces, ComesNearTheBoundAndIsOrderedRight) {
  constexpr std::size_t kFirst = 2;
  constexpr int kPasses = 8;
  const Goal& goal = GetParam();
  const WorkloadEntry* const entry = find_workload(goal.workload);
  ASSERT_NE(entry, nullptr);
  Experiment options;
  const PassTrace trace = record_passes(*entry->make(), kPasses, options.device.granularity);
  options.policy = PolicyKind::kAuto;
  options.budget = Bytes{trace.peak().count() / 100 * static_cast<std::uint64_t>(goal.percent)};
  options.piece_size = piece_size_for(options.budget, options.device.granularity);
  options.passes = kPasses;
  const Outcome outcome = run(*entry->make(), options);
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_THAT(outcome.violations, IsEmpty());
  EXPECT_LE(outcome.peak_pages, options.budget);
  ASSERT_EQ(outcome.passes.size(), static_cast<std::size_t>(kPasses));
  Seconds time{};
  for (std::size_t pass = kFirst; pass < outcome.passes.size(); ++pass) {
    time += outcome.passes[pass].time;
  }
  time /= static_cast<double>(outcome.passes.size() - kFirst);
  const Bounds bounds = bounds_of(trace, kFirst, options.budget, speeds_of(options.device));
  EXPECT_LE(time / bounds.windowed, goal.most);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, AutoInPieces,
    ::testing::Values(Goal{"llama-decode", 30, 1.1}, Goal{"llama-decode", 50, 1.15},
                      Goal{"llama-decode", 90, 1.35}, Goal{"llama-cuda-half", 50, 1.2},
                      Goal{"llama-cuda-half", 90, 1.45}, Goal{"draft-target", 50, 1.15},
                      Goal{"two-models", 50, 1.1}, Goal{"two-streams", 30, 1.1},
                      Goal{"two-streams", 50, 1.1}, Goal{"two-streams", 90, 1.25},
                      Goal{"training", 30, 1.3}, Goal{"stray-10", 50, 1.3}),
    [](const auto& goal) {
      std::string word = goal.param.workload;
      for (char& letter : word) letter = letter == '-' ? '_' : letter;
      return word + "_" + std::to_string(goal.param.percent);
    });

// Its matrices end in pieces of other sizes, in which they come and go at the same rate.
TEST(Experiment, PagesOfUnequalSizesAreUsedAgain) {
  constexpr int kPasses = 6;
  const WorkloadEntry* const entry = find_workload("llama-decode");
  ASSERT_NE(entry, nullptr);
  Experiment options;
  const PassTrace trace = record_passes(*entry->make(), kPasses, options.device.granularity);
  for (const std::uint64_t percent : {10, 30, 50, 70, 90}) {
    options.policy = PolicyKind::kAuto;
    options.budget = Bytes{trace.peak().count() / 100 * percent};
    options.piece_size = piece_size_for(options.budget, options.device.granularity);
    options.passes = kPasses;
    const Outcome outcome = run(*entry->make(), options);
    EXPECT_THAT(outcome.error, IsEmpty());
    ASSERT_EQ(outcome.passes.size(), static_cast<std::size_t>(kPasses));
    const CallCounts& calls = outcome.passes.back().calls;
    const std::uint64_t created = calls[DeviceCall::kCreatePages];
    const std::uint64_t mapped = calls[DeviceCall::kMap];
    EXPECT_LE(created, mapped / 100) << percent << " percent";
    EXPECT_GT(mapped, 50U) << percent << " percent";
  }
}

class OnTwoStreams : public ::testing::TestWithParam<int> {};

// Whose launch comes next is drawn, but what each model launches is not. MIN knows both.
TEST_P(OnTwoStreams, LittleIsBroughtTwice) {
  constexpr int kPasses = 10;
  constexpr std::size_t kFirst = 2;
  constexpr double kMost = 1.06;
  const WorkloadEntry& entry = *find_workload("two-streams");
  Experiment options;
  const PassTrace trace = record_passes(*entry.make(), kPasses, options.device.granularity);
  options.policy = PolicyKind::kAuto;
  options.budget = Bytes{trace.peak().count() / 100 * static_cast<std::uint64_t>(GetParam())};
  options.piece_size = piece_size_for(options.budget, options.device.granularity);
  options.passes = kPasses;
  const Outcome outcome = run(*entry.make(), options);
  ASSERT_EQ(outcome.passes.size(), static_cast<std::size_t>(kPasses));
  Bytes brought;
  for (std::size_t pass = kFirst; pass < kPasses; ++pass) brought += outcome.passes[pass].to_device;
  const Bounds bounds = bounds_of(trace, kFirst, options.budget, speeds_of(options.device));
  EXPECT_LE(static_cast<double>(brought.count()) / (kPasses - kFirst),
            kMost * static_cast<double>(bounds.min_bytes.count()));
  // A pass is a token of the larger model.
  EXPECT_GE(outcome.stats.measured_passes.size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Percent, OnTwoStreams, ::testing::Values(10, 30, 50, 70),
                         ::testing::PrintToStringParamName());

// A pass that waited for the second stream alone would be as long all the same, but begin the next
// one too early.
TEST(Experiment, WaitsForAllStreamsAtTheEndOfAPass) {
  class OneLaunchEach : public Workload {
   public:
    void load(Program& program) override {
      for (Handle& buffer : buffers_) {
        buffer = program.allocate(2_MiB);
        program.upload(buffer);
      }
    }
    void run_pass(Program& program, int /*number*/) override {
      for (std::uint32_t stream = 0; stream < 2; ++stream) {
        const Named named = reads(buffers_[stream]);
        program.on_stream(stream);
        program.launch(KernelId{1}, {&named, 1}, Seconds{stream == 0 ? 5e-3 : 1e-3});
      }
      program.on_stream(0);
      program.synchronize();
    }

   private:
    std::array<Handle, 2> buffers_{};
  };
  OneLaunchEach workload;
  const Outcome outcome = run(workload, experiment(PolicyKind::kAuto, 4_MiB));
  ASSERT_EQ(outcome.passes.size(), 10U);
  for (std::size_t i = 1; i < outcome.passes.size(); ++i) {
    EXPECT_GE(outcome.passes[i].time, milliseconds{6}) << i;
    EXPECT_LE(outcome.passes[i].time, milliseconds{6} + microseconds{10}) << i;
  }
  EXPECT_THAT(outcome.violations, IsEmpty());
}

class ChosenByData : public ::testing::TestWithParam<int> {};

// Nobody foresees which experts are drawn. `auto` must not lose by trying.
TEST_P(ChosenByData, CostsAutoNoMoreThanLastUse) {
  constexpr std::size_t kFirst = 2;
  constexpr int kPasses = 10;
  constexpr double kMost = 1.02;
  const WorkloadEntry& entry = *find_workload("experts");
  Experiment options;
  const PassTrace trace = record_passes(*entry.make(), 2, options.device.granularity);
  options.budget = Bytes{trace.peak().count() / 100 * static_cast<std::uint64_t>(GetParam())};
  options.piece_size = piece_size_for(options.budget, options.device.granularity);
  options.passes = kPasses;
  struct Total {
    Time all{0};
    Time later{0};
    Bytes fetched;
  };
  const auto total_of = [&](PolicyKind policy) {
    options.policy = policy;
    Total total;
    const Outcome outcome = run(*entry.make(), options);
    EXPECT_THAT(outcome.violations, IsEmpty());
    EXPECT_EQ(outcome.passes.size(), static_cast<std::size_t>(kPasses));
    for (std::size_t pass = 0; pass < outcome.passes.size(); ++pass) {
      total.all += outcome.passes[pass].time;
      if (pass < kFirst) continue;
      total.later += outcome.passes[pass].time;
      total.fetched += outcome.passes[pass].to_device;
    }
    return total;
  };
  const Total foresight = total_of(PolicyKind::kAuto);
  const Total last_use = total_of(PolicyKind::kLru);
  EXPECT_LE(Seconds(foresight.all) / Seconds(last_use.all), kMost);
  EXPECT_LE(Seconds(foresight.later) / Seconds(last_use.later), kMost);
  EXPECT_LE(static_cast<double>(foresight.fetched.count()),
            kMost * static_cast<double>(last_use.fetched.count()));
}

INSTANTIATE_TEST_SUITE_P(Percent, ChosenByData, ::testing::Values(10, 30, 50, 70, 90),
                         ::testing::PrintToStringParamName());

/// A program and its budget, as a percentage of what it needs.
struct Bounded {
  std::string workload;
  int percent;

  friend void PrintTo(const Bounded& bounded, std::ostream* out) {
    *out << bounded.workload << " with " << bounded.percent << " %";
  }
};

class EstimatedBound : public ::testing::TestWithParam<Bounded> {};

// A run knows neither how long each launch computes, nor which launches are a pass. Here both are
// known.
TEST_P(EstimatedBound, IsNearWhatTheTrueComputeTimesSay) {
  constexpr int kPasses = 8;
  constexpr double kMostError = 0.1;
  const WorkloadEntry* const entry = find_workload(GetParam().workload);
  ASSERT_NE(entry, nullptr);
  Experiment options;
  const PassTrace trace = record_passes(*entry->make(), kPasses, options.device.granularity);
  options.policy = PolicyKind::kAuto;
  options.budget =
      Bytes{trace.peak().count() / 100 * static_cast<std::uint64_t>(GetParam().percent)};
  options.piece_size = piece_size_for(options.budget, options.device.granularity);
  options.passes = kPasses;
  const Outcome outcome = run(*entry->make(), options);
  ASSERT_THAT(outcome.error, IsEmpty());

  RunFigures figures;
  figures.policy = options.policy;
  figures.residency = outcome.stats;
  figures.link_bytes_per_second = options.device.to_device.bytes_per_second;
  const PassTimes times = pass_times(figures);
  const Bounds truth = bounds_of(trace, 2, options.budget, speeds_of(options.device));
  const double windowed_ms = truth.repeated.count() * 1e3;
  const double physical_ms = truth.physical.count() * 1e3;
  ASSERT_TRUE(times.windowed_bound_ms);
  RecordProperty("estimate_over_truth", std::to_string(*times.windowed_bound_ms / windowed_ms));
  EXPECT_NEAR(*times.windowed_bound_ms, windowed_ms, kMostError * windowed_ms);
  EXPECT_NEAR(*times.bound_ms, physical_ms, kMostError * physical_ms);
  const double pass_ms =
      std::chrono::duration<double, std::milli>(outcome.passes.back().time).count();
  EXPECT_NEAR(times.pass_ms, pass_ms, kMostError * pass_ms);
  ASSERT_TRUE(times.avoidable_stall_share);
  EXPECT_LT(*times.avoidable_stall_share, 0.5) << "auto leaves less than that to be done";
}

INSTANTIATE_TEST_SUITE_P(Programs, EstimatedBound,
                         ::testing::Values(Bounded{"llama-decode", 30}, Bounded{"llama-decode", 50},
                                           Bounded{"llama-decode", 70}, Bounded{"training", 30},
                                           Bounded{"training", 50}, Bounded{"training", 70},
                                           Bounded{"llama-cuda-half", 50},
                                           Bounded{"two-models", 50}),
                         [](const auto& bounded) {
                           std::string word = bounded.param.workload;
                           for (char& letter : word) letter = letter == '-' ? '_' : letter;
                           return word + "_" + std::to_string(bounded.param.percent);
                         });

}  // namespace
}  // namespace superpipe::bench
