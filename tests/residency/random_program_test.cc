// Random programs: every byte right, never over the budget, nothing left behind. And the same
// programs with one wait taken away, which must then go wrong.
//
// RANDOM_LENGTH asks for so many times as many operations, RANDOM_PROGRAM_SEED for other programs:
//     RANDOM_LENGTH=9 RANDOM_PROGRAM_SEED=999 build/dev/tests/residency_test --gtest_filter=*Reads*
#include "tests/residency/random_program.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_length.h"

namespace superpipe::testing {
namespace {

#if defined(SUPERPIPE_SANITIZES_ADDRESS) || defined(SUPERPIPE_SANITIZES_THREAD)
// Each operation takes many times as long. Where few programs evict, the ordinals that are left may
// fail no unmap and no digest: that each is failed is asked without sanitizers.
constexpr bool kFailsEachCall = false;
constexpr std::uint64_t kOperations = 20'000;
constexpr std::uint64_t kOperationsOfMovingBudgets = 500;
constexpr std::uint64_t kProgramsBesideOthers = 5;
constexpr std::array kFaultOrdinals{1, 2, 3, 5, 8, 12, 15};
#else
constexpr bool kFailsEachCall = true;
constexpr std::uint64_t kOperations = 200'000;
constexpr std::uint64_t kOperationsOfMovingBudgets = 4'000;
constexpr std::uint64_t kProgramsBesideOthers = 20;
constexpr std::array kFaultOrdinals{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
#endif

PolicyConfig with_budget(PolicyKind kind, std::uint64_t pages) {
  PolicyConfig config;
  config.kind = kind;
  config.budget = Bytes{pages * 4096};
  return config;
}

PolicyConfig with_k(PolicyKind kind, int k, int k_prime) {
  PolicyConfig config;
  config.kind = kind;
  config.k = k;
  if (kind != PolicyKind::kNaive) config.k_prime = k_prime;
  return config;
}

/// Under a plan that takes the program's first buffers to be written back in the first pass. The
/// program does something else than the plan says, and soon leaves it.
PolicyConfig with_plan(std::uint64_t pages) {
  PolicyConfig config = with_budget(PolicyKind::kAuto, pages);
  RecordedRun run;
  for (std::uint32_t i = 0; i < 64; ++i) {
    run.footprints.push_back(Bytes{(1 + i % 3) * std::uint64_t{4096}});
    run.names.push_back(i);
    run.launches.push_back({KernelId{1 + i % 7}, i, 1});
    run.slabs.push_back(run.footprints.back());
    run.write_backs.push_back({63 - i, 0});
  }
  config.recorded = std::make_shared<const RecordedRun>(std::move(run));
  return config;
}

struct Setting {
  const char* name;
  PolicyConfig policy;
  bool policy_waits = false;
  std::uint64_t piece_pages = 0;  ///< pages of a piece; 0: buffers move whole

  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

std::vector<Setting> settings() {
  return {
      {"resident", PolicyConfig{}},
      {"superpipeline-12-pages", with_budget(PolicyKind::kSuperpipeline, 12)},
      {"superpipeline-20-pages", with_budget(PolicyKind::kSuperpipeline, 20)},
      {"naive-12-pages", with_budget(PolicyKind::kNaive, 12)},
      {"paper-14-pages", with_budget(PolicyKind::kSuperpipelinePaper, 14)},
      {"superpipeline-k3-1", with_k(PolicyKind::kSuperpipeline, 3, 1)},
      {"superpipeline-k4-in-pieces", with_k(PolicyKind::kSuperpipeline, 4, 2), false, 1},
      {"naive-k2", with_k(PolicyKind::kNaive, 2, 1)},
      {"paper-k4-2", with_k(PolicyKind::kSuperpipelinePaper, 4, 2)},
      {"auto-12-pages", with_budget(PolicyKind::kAuto, 12)},
      {"auto-20-pages", with_budget(PolicyKind::kAuto, 20)},
      {"auto-14-pages-once-needed", with_budget(PolicyKind::kAuto, 14), true},
      {"lru-14-pages", with_budget(PolicyKind::kLru, 14)},
      {"auto-12-pages-in-pieces", with_budget(PolicyKind::kAuto, 12), false, 1},
      {"auto-20-pages-in-pieces-of-2", with_budget(PolicyKind::kAuto, 20), false, 2},
      {"auto-14-pages-in-pieces-once-needed", with_budget(PolicyKind::kAuto, 14), true, 1},
      {"lru-14-pages-in-pieces-of-2", with_budget(PolicyKind::kLru, 14), false, 2},
      {"auto-14-pages-planned", with_plan(14)},
      {"auto-20-pages-planned-in-pieces", with_plan(20), false, 1},
  };
}

class RandomProgram : public ::testing::TestWithParam<Setting> {
 protected:
  /// The program of that seed under the setting; three of five compare digests, one of four maps
  /// early.
  static ProgramOptions program(std::uint64_t seed) {
    ProgramOptions options;
    options.seed = seed;
    options.policy = GetParam().policy;
    options.policy_waits = GetParam().policy_waits;
    options.piece_size = Bytes{GetParam().piece_pages * 4096};
    options.compares_digests = seed % 5 < 3;
    options.maps_early = seed % 4 == 1;
    return options;
  }
  /// Whether what launches leave as it is may be evicted without a copy.
  static bool finds_unchanged() {
    return GetParam().policy.kind != PolicyKind::kResident &&
           !writes_back_all(GetParam().policy.kind);
  }
};

std::string describe(const ProgramOptions& options) {
  return "seed " + std::to_string(options.seed) + (options.layered ? " layered" : "") +
         (options.zero_fill ? " zero-fill" : "") + (options.compares_digests ? " digests" : "") +
         (options.maps_early ? " maps early" : "") +
         (options.fault == Call::kCount ? std::string{}
                                        : std::string(" fault ") + name_of(options.fault) + "@" +
                                              std::to_string(options.fault_at));
}

TEST_P(RandomProgram, ReadsBackWhatItWouldHaveReadWithoutUs) {
  // Each setting runs its part of the operations.
  const std::uint64_t wanted = random_length() * kOperations / settings().size() + 1;
  const std::uint64_t first_seed = number_from_environment("RANDOM_PROGRAM_SEED", 1);
  std::uint64_t operations = 0;
  std::uint64_t moved = 0;
  std::uint64_t unchanged = 0;
  std::uint64_t precleaned = 0;
  std::uint64_t seed = first_seed;
  for (; operations < wanted; ++seed) {
    ProgramOptions options = program(seed);
    options.zero_fill = seed % 2 == 0;
    options.layered = seed % 3 == 0;
    const ProgramOutcome outcome = run_random_program(options);
    ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
    ASSERT_EQ(outcome.stats.errors, 0U) << describe(options);
    ASSERT_GT(outcome.operations, 0U) << describe(options);
    operations += outcome.operations;
    moved += outcome.stats.write_backs;
    unchanged += outcome.stats.unchanged;
    precleaned += outcome.stats.precleaned;
  }
  EXPECT_EQ(precleaned > 0, GetParam().policy.recorded != nullptr);
  RecordProperty("precleaned", std::to_string(precleaned));
  RecordProperty("operations", std::to_string(operations));
  RecordProperty("last_seed", std::to_string(seed - 1));
  // The property would hold trivially if nothing ever moved.
  if (GetParam().policy.kind == PolicyKind::kResident) {
    EXPECT_EQ(moved, 0U);
  } else {
    EXPECT_GT(moved, 2 * (seed - first_seed));
  }
  if (finds_unchanged()) {
    EXPECT_GT(unchanged, (seed - first_seed) / 4);
  } else {
    EXPECT_EQ(unchanged, 0U);
  }
}

TEST_P(RandomProgram, ReadsBackTheSameWhileItsBudgetMoves) {
  std::uint64_t operations = 0;
  int changes = 0;
  int shrunk = 0;
  for (std::uint64_t seed = 1; operations < random_length() * kOperationsOfMovingBudgets; ++seed) {
    ProgramOptions options = program(seed);
    options.layered = seed % 2 == 0;
    options.moving_budget = true;
    const ProgramOutcome outcome = run_random_program(options);
    ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
    ASSERT_EQ(outcome.stats.errors, 0U) << describe(options);
    ASSERT_LE(outcome.stats.budget_changes, outcome.budget_changes) << describe(options);
    operations += outcome.operations;
    changes += outcome.budget_changes;
    shrunk += outcome.shrunk_pages;
  }
  const bool has_budget = GetParam().policy.budget.has_value();
  EXPECT_EQ(changes > 0, has_budget);
  EXPECT_EQ(shrunk > 0, has_budget) << "no budget was set below the pages: nothing was tested";
}

TEST_P(RandomProgram, ReadsBackTheSameWhileOtherProcessesComeAndGo) {
  for (std::uint64_t seed = 1; seed <= random_length() * kProgramsBesideOthers; ++seed) {
    ProgramOptions options = program(seed);
    options.layered = seed % 2 == 0;
    options.moving_budget = seed % 3 == 0;
    // What has a k or moves nothing keeps its pages: there has to be room for these.
    const bool yields = GetParam().policy.budget.has_value();
    options.device_capacity = Bytes{(yields ? 24U : 64U) * 4096U};
    options.most_others = Bytes{16U * 4096U};
    const ProgramOutcome outcome = run_random_program(options);
    ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
  }
}

TEST_P(RandomProgram, LosesNothingWhenADeviceCallFails) {
  for (int kind = static_cast<int>(Call::kCreatePages); kind < static_cast<int>(Call::kCount);
       ++kind) {
    int hit = 0;
    for (const int nth : kFaultOrdinals) {
      ProgramOptions options = program(static_cast<std::uint64_t>(1000 * kind + nth));
      options.steps = 60;
      options.zero_fill = nth % 2 == 0;
      options.layered = nth % 3 == 0;
      options.fault = static_cast<Call>(kind);
      options.fault_at = nth <= 12 ? nth : nth * 4;
      options.fault_repeats = nth % 5 == 0;
      options.fault_status = options.fault == Call::kCreatePages && nth % 4 == 1
                                 ? Status::kOutOfDeviceMemory
                             : options.fault == Call::kPin ? Status::kOutOfHostMemory
                                                           : Status::kDeviceError;
      const ProgramOutcome outcome = run_random_program(options);
      ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
      hit += outcome.fault_hits >= options.fault_at ? 1 : 0;
    }
    const bool moves = GetParam().policy.kind != PolicyKind::kResident;
    const Call call = static_cast<Call>(kind);
    if (kFailsEachCall && moves &&
        (call == Call::kMap || call == Call::kUnmap || call == Call::kRecord ||
         call == Call::kCopyToHost || call == Call::kCopyToDevice ||
         (call == Call::kDigest && finds_unchanged()))) {
      EXPECT_GT(hit, 0) << name_of(call) << " was never failed: the test shows nothing";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomProgram, ::testing::ValuesIn(settings()),
                         [](const ::testing::TestParamInfo<Setting>& setting) {
                           std::string name = setting.param.name;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

// Each wait that keeps content right, taken away: some program must then read wrong bytes or touch
// what is not there. A suite that could not see that would prove nothing.
// Where `maps_early`, launches wait for content by events.
int programs_gone_wrong(const Sabotage& sabotage, bool maps_early = false) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    ProgramOptions options;
    options.seed = seed;
    options.policy = with_budget(PolicyKind::kSuperpipeline, 12);
    options.layered = seed % 3 == 0;
    options.compares_digests = seed % 4 == 0;
    options.maps_early = maps_early;
    options.sabotage = sabotage;
    wrong += run_random_program(options).mistakes.empty() ? 0 : 1;
  }
  return wrong;
}

TEST(RandomProgramWithoutAWait, IsCaughtWhenLastUsesAreNotWaitedForBeforeUnmapping) {
  EXPECT_GT(programs_gone_wrong({.events_always_complete = true}), 30);
}

TEST(RandomProgramWithoutAWait, IsCaughtWhenLaunchesDoNotWaitForTheirFetches) {
  EXPECT_GT(programs_gone_wrong({.program_streams_never_wait = true}, true), 10);
}

TEST(RandomProgramWithoutAWait, IsCaughtWhenPagesAreReusedBeforeTheirWriteBack) {
  EXPECT_GT(programs_gone_wrong({.own_streams_never_wait = true}), 10);
}

TEST(RandomProgramWithoutAWait, IsRightWithAllWaits) {
  EXPECT_EQ(programs_gone_wrong({}), 0);
  EXPECT_EQ(programs_gone_wrong({}, true), 0);
}

// Memory that is handed out again must not show what another buffer held.
TEST(RandomProgramOnASmallDevice, GoesOnWhenTheDeviceIsFullerThanTheBudgetSays) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    ProgramOptions options;
    options.seed = seed;
    options.policy =
        with_budget(seed % 3 == 0 ? PolicyKind::kAuto : PolicyKind::kSuperpipeline, 30);
    options.piece_size = Bytes{4096};
    options.policy_waits = seed % 6 == 0;
    options.device_capacity = Bytes{14 * 4096};
    options.layered = seed % 2 == 0;
    options.compares_digests = seed % 5 < 3;
    const ProgramOutcome outcome = run_random_program(options);
    ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
  }
}

TEST(RandomProgramWithLittleHostMemory, RefusesAllocationsAndKeepsTheRest) {
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    ProgramOptions options;
    options.seed = seed;
    options.policy =
        with_budget(seed % 3 == 0 ? PolicyKind::kAuto : PolicyKind::kSuperpipeline, 10);
    options.piece_size = Bytes{4096};
    options.policy_waits = seed % 6 == 0;
    options.host_limit = Bytes{(seed % 2 == 0 ? 16U : 6U) * 4096};
    options.compares_digests = seed % 5 < 3;
    const ProgramOutcome outcome = run_random_program(options);
    ASSERT_EQ(outcome.mistakes, std::vector<std::string>{}) << describe(options);
    refused += outcome.refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace superpipe::testing
