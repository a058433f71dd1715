// Whether the workloads are the models that they say they are.
#include "bench/virtual_time/workloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "residency/virtual_time/pass_trace.h"

namespace superpipe::bench {

using namespace virtual_time;

namespace {

constexpr Bytes kExact{1};

PassTrace trace_of(const std::string& name, int passes) {
  const WorkloadEntry* const entry = find_workload(name);
  EXPECT_NE(entry, nullptr) << name;
  const auto workload = entry->make();
  return record_passes(*workload, passes, kExact);
}

TEST(Workloads, LlamaDecodeNamesEveryWeightAndCacheOnce) {
  const PassTrace trace = trace_of("llama-decode", 2);
  const TracedPass& pass = trace.passes[1];
  // 6.738 billion weights less the norms, and caches of 2048 tokens of half a mebibyte.
  EXPECT_NEAR(static_cast<double>(pass.persistent.count()), 2 * 6.738e9 + 1.0737e9, 5e6);
  EXPECT_EQ(pass.launches.size(), 32U * 8 + 2);
  EXPECT_NEAR(pass.compute.count(), 0.0186, 0.001);
}

TEST(Workloads, CudaHalfFreesItsFloatsAndMakesItsCacheAnew) {
  const PassTrace trace = trace_of("llama-cuda-half", 3);
  const auto caches = [&](std::size_t pass) {
    std::set<Handle> named;
    for (const TracedLaunch& launch : trace.passes[pass].launches) {
      if (launch.buffers.size() == 2) named.insert(launch.buffers.begin(), launch.buffers.end());
    }
    return named;
  };
  EXPECT_EQ(caches(1).size(), 2U * 64);
  EXPECT_GT(trace.passes[2].persistent, trace.passes[1].persistent);  // one token more
  EXPECT_LT(trace.passes[1].peak, Bytes{14'500'000'000});             // no floats are left
}

TEST(Workloads, TrainingNamesMomentsOnlyAtItsEnd) {
  const PassTrace trace = trace_of("training", 2);
  const TracedPass& pass = trace.passes[1];
  const std::size_t parameters = 22 * 7 + 2;
  EXPECT_EQ(pass.launches.size(), 4 * (3 * parameters) + 2 * parameters);
  // Weights, gradients and two moments of 1.1 billion parameters in floats.
  EXPECT_NEAR(static_cast<double>(pass.persistent.count()), 4 * 4 * 1.1e9, 2e8);
  std::set<Handle> before_step;
  std::set<Handle> in_step;
  for (std::size_t i = 0; i < pass.launches.size(); ++i) {
    auto& named = i < 4 * 3 * parameters ? before_step : in_step;
    named.insert(pass.launches[i].buffers.begin(), pass.launches[i].buffers.end());
  }
  const auto only_in_step = std::count_if(in_step.begin(), in_step.end(), [&](Handle handle) {
    return before_step.count(handle) == 0;
  });
  EXPECT_EQ(static_cast<std::size_t>(only_in_step), 2 * parameters);
}

TEST(Workloads, ExpertsNamesTwoOfEightInEachLayer) {
  const PassTrace trace = trace_of("experts", 2);
  for (const TracedPass& pass : trace.passes) {
    EXPECT_EQ(pass.launches.size(), 2 + 32U * (5 + 2 * 3));
    EXPECT_NEAR(static_cast<double>(pass.persistent.count()), 2 * 12.9e9, 5e8);
  }
  EXPECT_NEAR(static_cast<double>(trace.peak().count()), 2 * 46.7e9, 5e8);
}

TEST(Workloads, DraftsThreeToSixTimes) {
  const PassTrace trace = trace_of("draft-target", 40);
  std::set<std::size_t> seen;
  for (const TracedPass& pass : trace.passes) {
    const std::size_t drafts = pass.launches.size() - (32 * 8 + 2);
    EXPECT_EQ(drafts % (22 * 8 + 2), 0U);
    seen.insert(drafts / (22 * 8 + 2));
  }
  EXPECT_EQ(seen, (std::set<std::size_t>{3, 4, 5, 6}));
}

TEST(Workloads, TwoModelsTakeTenPassesEach) {
  const PassTrace trace = trace_of("two-models", 1);
  EXPECT_EQ(trace.passes[0].launches.size(), 20U * (32 * 8 + 2));
}

TEST(Workloads, TwoStreamsGoOnEachInItsOrderAndTogetherInNone) {
  const PassTrace trace = trace_of("two-streams", 4);
  std::vector<Handle> large;  // what LLaMA's tokens name, in their order
  std::vector<std::vector<Handle>> mixed;
  for (const TracedPass& pass : trace.passes) {
    auto& named = mixed.emplace_back();
    for (const TracedLaunch& launch : pass.launches) named.push_back(launch.buffers.at(0));
    EXPECT_NEAR(static_cast<double>(pass.launches.size()), 258 * 5.0 / 3, 60);
  }
  const PassTrace alone = trace_of("llama-decode", 1);
  for (const TracedLaunch& launch : alone.passes[0].launches) large.push_back(launch.buffers.at(0));
  for (std::size_t pass = 0; pass < mixed.size(); ++pass) {
    std::vector<Handle> of_large;
    std::copy_if(mixed[pass].begin(), mixed[pass].end(), std::back_inserter(of_large),
                 [&](Handle handle) { return std::ranges::find(large, handle) != large.end(); });
    EXPECT_EQ(of_large, large) << pass;
    if (pass > 0) {
      EXPECT_NE(mixed[pass], mixed[pass - 1]);
    }
  }
}

TEST(Workloads, DenoisingReadsItsPromptOnce) {
  const PassTrace trace = trace_of("denoise", 1);
  EXPECT_EQ(trace.passes[0].launches.size(), 1U + 24 * 7 + 28 * 24 * 10);
}

TEST(Workloads, StraysAreAsManyAsTheySay) {
  for (const auto& [name, percent] : {std::pair{"stray-5", 5.0}, {"stray-20", 20.0}}) {
    const PassTrace trace = trace_of(name, 20);
    double strays = 0;
    double launches = 0;
    for (const TracedPass& pass : trace.passes) {
      for (const TracedLaunch& launch : pass.launches) {
        const std::size_t own = launch.kernel == KernelId{3} ? 2 : 1;  // attention names two caches
        strays += launch.buffers.size() > own ? 1 : 0;
        ++launches;
      }
    }
    EXPECT_NEAR(100 * strays / launches, percent, 1.0) << name;
  }
}

TEST(Workloads, NoiseNamesEachMatrixAboutAsOften) {
  const PassTrace trace = trace_of("noise", 20);
  std::map<Handle, int> uses;
  for (const TracedPass& pass : trace.passes) {
    EXPECT_EQ(pass.launches.size(), 256U);
    for (const TracedLaunch& launch : pass.launches) ++uses[launch.buffers.at(0)];
  }
  EXPECT_EQ(uses.size(), 128U);
  for (const auto& [id, number] : uses) EXPECT_NEAR(number, 40, 30);
  EXPECT_NE(trace.passes[0].launches[0].buffers, trace.passes[1].launches[0].buffers);
}

TEST(Workloads, DoTheSameAgainWhenTheyAreMadeAgain) {
  for (const WorkloadEntry& entry : all_workloads()) {
    const PassTrace first = trace_of(entry.name, 1);
    const PassTrace second = trace_of(entry.name, 1);
    ASSERT_EQ(first.passes[0].launches.size(), second.passes[0].launches.size()) << entry.name;
    for (std::size_t i = 0; i < first.passes[0].launches.size(); ++i) {
      ASSERT_EQ(first.passes[0].launches[i].buffers, second.passes[0].launches[i].buffers)
          << entry.name;
    }
  }
}

}  // namespace
}  // namespace superpipe::bench
