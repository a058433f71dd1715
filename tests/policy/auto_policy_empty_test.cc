// AutoPolicy on buffers that nothing was written to: they need pages, and nothing of the link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/pull_policies.h"
#include "policy/recorded_run.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;

constexpr Bytes kWeight = 2_MiB;
constexpr Bytes kCache = 4_MiB;
constexpr std::uint32_t kModelLayers = 12;

/// What layers do one after the other: each names a weight and a cache, which were allocated behind
/// all weights.
RecordedRun recorded_layers() {
  RecordedRun run;
  run.footprints.assign(kModelLayers, kWeight);
  run.footprints.insert(run.footprints.end(), kModelLayers, kCache);
  for (std::uint32_t layer = 0; layer < kModelLayers; ++layer) {
    run.launches.push_back({KernelId{1}, 2 * layer, 2});
    run.names.push_back(layer);
    run.names.push_back(kModelLayers + layer);
  }
  return run;
}

class AutoPolicyOnEmptyBuffers : public ::testing::Test {
 protected:
  void load_weights() {
    for (std::uint32_t i = 0; i < kModelLayers; ++i) policy_.on_allocate(weight(i), kWeight, 1);
    for (std::uint32_t i = 0; i < kModelLayers; ++i) policy_.on_filled(weight(i));
  }
  void allocate_caches() {
    for (std::uint32_t i = 0; i < kModelLayers; ++i) policy_.on_allocate(cache(i), kCache, 1);
  }
  void load() {
    load_weights();
    allocate_caches();
  }
  void launch(std::uint32_t layer) {
    policy_.on_launch(KernelId{1}, std::vector{weight(layer), cache(layer)});
  }
  static BufferId weight(std::uint32_t layer) { return BufferId{layer}; }
  static BufferId cache(std::uint32_t layer) { return BufferId{kModelLayers + layer}; }

  /// Brings what next_target() wants until it wants nothing, or has wanted `most` buffers.
  std::vector<BufferId> bring_targets(std::size_t most = 100) {
    std::vector<BufferId> brought;
    while (brought.size() < most) {
      const auto target = policy_.next_target();
      if (!target) break;
      policy_.on_brought(target->id);
      brought.push_back(target->id);
    }
    return brought;
  }
  std::vector<BufferId> bring_empty_targets() {
    std::vector<BufferId> brought;
    while (const auto target = policy_.next_empty_target()) {
      policy_.on_brought(target->id);
      brought.push_back(target->id);
    }
    return brought;
  }

  AutoPolicy policy_{recorded_layers()};
};

TEST_F(AutoPolicyOnEmptyBuffers, BringsThemAfterAllThatHasToCrossTheLink) {
  load();
  launch(0);
  policy_.on_brought(weight(0));
  policy_.on_brought(cache(0));
  const std::vector<BufferId> brought = bring_targets();
  ASSERT_EQ(brought.size(), 2 * (kModelLayers - 1));
  for (std::uint32_t layer = 1; layer < kModelLayers; ++layer) {
    EXPECT_EQ(brought[layer - 1], weight(layer));
    EXPECT_EQ(brought[kModelLayers - 1 + layer - 1], cache(layer));
  }
}

TEST_F(AutoPolicyOnEmptyBuffers, AreToldByThemselvesInTheOrderOfTheirUse) {
  load();
  launch(0);
  EXPECT_EQ(policy_.next_empty_target(), std::nullopt) << "none was passed over yet";
  // Looks past the caches of the two layers before.
  policy_.on_brought(weight(1));
  policy_.on_brought(weight(2));
  ASSERT_EQ(policy_.next_target()->id, weight(3));
  const auto first = policy_.next_empty_target();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, cache(1));
  EXPECT_EQ(first->next_use, 1U);
  EXPECT_EQ(first->keeps_to, kModelLayers) << "the last launch that is expected";
  EXPECT_FALSE(first->is_supposed);
  EXPECT_EQ(policy_.next_empty_target()->id, cache(1)) << "it has not come";
  EXPECT_THAT(bring_empty_targets(), ElementsAre(cache(1), cache(2)));
}

TEST_F(AutoPolicyOnEmptyBuffers, TakeNothingThatWouldHaveToComeBack) {
  load();
  launch(0);
  for (std::uint32_t layer = 0; layer < kModelLayers; ++layer) policy_.on_brought(weight(layer));
  policy_.on_brought(cache(0));
  const auto empty = policy_.next_target();
  ASSERT_TRUE(empty);
  ASSERT_EQ(empty->id, cache(1));
  const auto any = [](BufferId) { return true; };
  EXPECT_NE(policy_.next_victim(empty->next_use, any), std::nullopt);
  EXPECT_EQ(policy_.next_victim(empty->keeps_to, any), std::nullopt) << "all are used once more";
}

TEST_F(AutoPolicyOnEmptyBuffers, OfSeveralPiecesAreWantedUntilAllHaveCome) {
  load_weights();
  for (std::uint32_t i = 0; i < kModelLayers; ++i) policy_.on_allocate(cache(i), kCache, 2);
  launch(0);
  policy_.on_brought(weight(1));
  ASSERT_EQ(policy_.next_target()->id, weight(2));
  for (int piece = 0; piece < 2; ++piece) {
    ASSERT_EQ(policy_.next_empty_target()->id, cache(1));
    policy_.on_brought(cache(1));
  }
  EXPECT_EQ(policy_.next_empty_target(), std::nullopt);
}

TEST_F(AutoPolicyOnEmptyBuffers, ThatAreFilledTakeTheirPlaceAmongTheOthers) {
  load();
  launch(0);
  for (std::uint32_t i = 1; i < 4; ++i) policy_.on_brought(weight(i));
  ASSERT_EQ(policy_.next_target()->id, weight(4));
  policy_.on_filled(cache(2));
  EXPECT_EQ(policy_.next_target()->id, cache(2));
  EXPECT_THAT(bring_empty_targets(), ElementsAre(cache(1), cache(3)));
}

TEST_F(AutoPolicyOnEmptyBuffers, AreForgottenWhenTheyAreNamedOrFreed) {
  load();
  launch(0);
  for (std::uint32_t i = 1; i < 6; ++i) policy_.on_brought(weight(i));
  ASSERT_EQ(policy_.next_target()->id, weight(6));
  policy_.on_free(cache(4));
  launch(1);
  policy_.on_launch(KernelId{1}, std::vector{weight(2)});  // without the cache
  EXPECT_THAT(bring_empty_targets(), ElementsAre(cache(3), cache(5)));
}

// What a program frees may come again, as another buffer.
TEST_F(AutoPolicyOnEmptyBuffers, ANewOneInTheSteadOfAFreedOneIsNotTakenForIt) {
  load();
  launch(0);
  for (std::uint32_t i = 1; i < 4; ++i) policy_.on_brought(weight(i));
  ASSERT_EQ(policy_.next_target()->id, weight(4));
  policy_.on_free(cache(2));
  policy_.on_allocate(cache(2), kCache, 1);
  EXPECT_THAT(bring_empty_targets(), ElementsAre(cache(1), cache(3)))
      << "nobody knows whether the new one is used";
}

TEST_F(AutoPolicyOnEmptyBuffers, AreStillEmptyWhenTheyDidNotGetThere) {
  load();
  launch(0);
  policy_.on_brought(cache(1));
  policy_.on_left(cache(1));
  EXPECT_EQ(policy_.next_target()->id, weight(1));
  policy_.on_brought(weight(1));
  EXPECT_EQ(policy_.next_target()->id, weight(2));
  EXPECT_THAT(bring_empty_targets(), ElementsAre(cache(1)));
}

TEST_F(AutoPolicyOnEmptyBuffers, ThatALaunchDidNotNameAreExpectedByTheNextOne) {
  RecordedRun twice = recorded_layers();
  twice.launches.insert(twice.launches.end(), twice.launches.begin(), twice.launches.end());
  policy_ = AutoPolicy(twice);
  load();
  for (std::uint32_t layer = 0; layer < kModelLayers; ++layer) policy_.on_brought(weight(layer));
  policy_.on_brought(cache(0));
  launch(0);
  ASSERT_EQ(policy_.next_target()->id, cache(1));
  policy_.on_launch(KernelId{1}, std::vector{weight(1)});  // without the cache
  for (std::uint32_t layer = 2; layer < kModelLayers; ++layer) launch(layer);
  launch(0);
  EXPECT_EQ(policy_.next_target()->id, cache(2)) << "what launches named has content";
  const auto target = policy_.next_empty_target();
  ASSERT_TRUE(target);
  EXPECT_EQ(target->id, cache(1));
  EXPECT_EQ(target->next_use, policy_.present() + 1);
}

// They are looked for anew.
TEST_F(AutoPolicyOnEmptyBuffers, AreForgottenWhenTheProgramDoesSomethingElse) {
  load();
  launch(0);
  for (std::uint32_t i = 0; i < kModelLayers; ++i) policy_.on_brought(weight(i));
  policy_.on_brought(cache(0));
  ASSERT_EQ(policy_.next_target()->id, cache(1));
  const std::uint64_t jumps = policy_.replay().jumps();
  launch(6);
  launch(7);
  launch(8);
  ASSERT_GT(policy_.replay().jumps(), jumps);
  EXPECT_EQ(policy_.next_empty_target(), std::nullopt);
  EXPECT_EQ(policy_.next_target()->id, cache(9));
}

TEST_F(AutoPolicyOnEmptyBuffers, AreAboutToBeFilledWhereTheyWereJustAllocatedWhileItLoads) {
  for (std::uint32_t i = 0; i < 3; ++i) policy_.on_allocate(weight(i), kWeight, 1);
  EXPECT_EQ(policy_.next_target()->id, weight(1));
  EXPECT_EQ(policy_.next_empty_target(), std::nullopt);
}

TEST_F(AutoPolicyOnEmptyBuffers, ThatStayEmptyWhileItLoadsComeLast) {
  load();
  // The first caches were not filled before many others were allocated.
  const std::vector<BufferId> brought = bring_targets();
  EXPECT_THAT(std::span(brought).first(2), ElementsAre(weight(1), weight(2)));
  EXPECT_THAT(std::span(brought).last(3), ElementsAre(cache(1), cache(2), cache(3)));
}

TEST(ReplayPolicy, HearsOfWhatTheProgramFills) {
  ReplayPolicy policy(recorded_layers());
  for (std::uint32_t i = 0; i < kModelLayers; ++i) policy.on_allocate(BufferId{i}, kWeight, 1);
  for (std::uint32_t i = 0; i < kModelLayers; ++i) {
    policy.on_allocate(BufferId{kModelLayers + i}, kCache, 1);
  }
  policy.on_host_write(BufferId{kModelLayers + 1});
  const std::vector named{BufferId{0}, BufferId{kModelLayers}};
  (void)policy.on_launch({KernelId{1}, named});
  EXPECT_EQ(policy.puller()->next_target()->id, BufferId{kModelLayers + 1});
}

}  // namespace
}  // namespace superpipe
