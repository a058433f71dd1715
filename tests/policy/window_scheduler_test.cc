#include "policy/window_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// n layers of one buffer each, visited in turn; layer and buffer have the same number.
PassOrder cycle_of(std::uint32_t layers) {
  PassOrder order;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    order.layers.push_back({BufferId{layer}});
    order.visits.push_back({layer, {}});
  }
  return order;
}

class Schedule {
 public:
  Schedule(const PolicyConfig& config, std::uint32_t layers, Bytes room = Bytes{})
      : scheduler(config), footprints(layers, 4_MiB), room_(room) {
    scheduler.start(cycle_of(layers), footprints, room);
  }
  Decision visit(std::uint64_t visit, bool jumps = false) {
    const BufferId named{static_cast<std::uint32_t>(visit % footprints.size())};
    return scheduler.on_visit({visit, visit % footprints.size() == 0, jumps}, {&named, 1}, room_);
  }
  void set_room(Bytes room) { room_ = room; }

  WindowScheduler scheduler;
  std::vector<Bytes> footprints;

 private:
  Bytes room_;
};

TEST(WindowScheduler, DecidesNothingWhereAllLayersMayStay) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 6), 6);
  EXPECT_FALSE(schedule.scheduler.is_active());
  EXPECT_TRUE(schedule.visit(0).empty());
  EXPECT_TRUE(schedule.visit(3, true).empty());
  EXPECT_EQ(schedule.scheduler.choice().window_bytes, 24_MiB);
}

TEST(WindowScheduler, EvictsAllThatIsOutsideItsFirstWindow) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 2, 1), 5);
  const Decision decision = schedule.visit(1);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{1}, BufferId{2}));
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{0}, BufferId{3}, BufferId{4}))
      << "demand fetches may have brought them";
  EXPECT_FALSE(decision.fetch_before_launch);
  EXPECT_TRUE(schedule.scheduler.has(BufferId{2}));
  EXPECT_FALSE(schedule.scheduler.has(BufferId{3}));
}

TEST(WindowScheduler, EndsItsWindowWithThePass) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 2, 1), 5);
  (void)schedule.visit(3);
  Decision decision = schedule.visit(4);
  EXPECT_THAT(decision.fetch, IsEmpty());
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{3}));
  decision = schedule.visit(5);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{0}, BufferId{1}));
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{4}));
  EXPECT_TRUE(decision.fetch_before_launch);
}

TEST(WindowScheduler, KeepsWhatTheLaunchNamesUntilTheNextDecision) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 2, 1), 5);
  (void)schedule.visit(0);
  const std::array named = {BufferId{0}, BufferId{1}};
  EXPECT_THAT(schedule.scheduler.on_visit({1, false, false}, named, {}).evict, IsEmpty());
  EXPECT_THAT(schedule.visit(2).evict, ElementsAre(BufferId{0}, BufferId{1}));
}

TEST(WindowScheduler, BeginsAnewAfterAJump) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 4, 2), 12);
  (void)schedule.visit(0);
  EXPECT_TRUE(schedule.visit(1).empty());
  const Decision decision = schedule.visit(7, true);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{7}, BufferId{8}, BufferId{9}, BufferId{10}));
  EXPECT_THAT(decision.evict, ElementsAre(BufferId{0}, BufferId{1}, BufferId{2}, BufferId{3}));
}

TEST(WindowScheduler, EvictsWhatADemandFetchBrought) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 2, 1), 8);
  (void)schedule.visit(0);
  schedule.scheduler.on_use(BufferId{6});
  schedule.scheduler.on_use(BufferId{6});
  EXPECT_TRUE(schedule.scheduler.has(BufferId{6}));
  EXPECT_THAT(schedule.visit(1).evict, ElementsAre(BufferId{0}, BufferId{6}));
}

TEST(WindowScheduler, ForgetsABufferThatIsFreed) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 2, 1), 5);
  (void)schedule.visit(0);
  schedule.scheduler.on_free(BufferId{0});
  EXPECT_FALSE(schedule.scheduler.has(BufferId{0}));
  PassOrder order = cycle_of(5);
  order.layers[0].clear();
  schedule.scheduler.update(order, schedule.footprints, {});
  EXPECT_THAT(schedule.visit(1).evict, IsEmpty());
  const Decision decision = schedule.visit(4);
  EXPECT_THAT(decision.fetch, ElementsAre(BufferId{4}));
}

TEST(WindowScheduler, LeavesToAnotherOrderOnlyWhatThatHas) {
  Schedule schedule(with_k(PolicyKind::kSuperpipelinePaper, 3, 1), 5);
  (void)schedule.visit(0);
  PassOrder order = cycle_of(5);
  order.layers[1].clear();  // in no layer of the new order
  order.layers[0].push_back(BufferId{4});
  order.layers[4].clear();
  schedule.scheduler.start(order, schedule.footprints, {});
  EXPECT_TRUE(schedule.scheduler.has(BufferId{0}));
  EXPECT_FALSE(schedule.scheduler.has(BufferId{1}));
  schedule.scheduler.stop();
  EXPECT_FALSE(schedule.scheduler.is_active());
  EXPECT_FALSE(schedule.scheduler.has(BufferId{0}));
}

TEST(WindowScheduler, FollowsTheRoom) {
  PolicyConfig config = with_budget(PolicyKind::kSuperpipelinePaper, 64_MiB);
  Schedule schedule(config, 8, 16_MiB);
  EXPECT_EQ(schedule.scheduler.choice().schedule.k, 4U);
  (void)schedule.visit(0);
  schedule.set_room(9_MiB);
  const Decision less = schedule.visit(1);
  EXPECT_EQ(schedule.scheduler.choice().schedule.k, 2U) << "at once";
  EXPECT_THAT(less.evict, ElementsAre(BufferId{0}, BufferId{3}));
  schedule.set_room(25_MiB);
  (void)schedule.visit(2);
  EXPECT_EQ(schedule.scheduler.choice().schedule.k, 2U);
  (void)schedule.visit(8);
  EXPECT_EQ(schedule.scheduler.choice().schedule.k, 6U) << "as a pass begins";
  schedule.set_room(32_MiB);
  EXPECT_TRUE(schedule.visit(16).empty());
  EXPECT_FALSE(schedule.scheduler.is_active());
}

TEST(WindowScheduler, WaitsForItsFirstWindowWhenNaive) {
  Schedule schedule(with_k(PolicyKind::kNaive, 2), 4);
  EXPECT_TRUE(schedule.visit(0).fetch_before_launch);
  EXPECT_TRUE(schedule.visit(1).empty());
  EXPECT_TRUE(schedule.visit(2).fetch_before_launch);
}

}  // namespace
}  // namespace superpipe
