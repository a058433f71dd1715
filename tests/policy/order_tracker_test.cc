#include "policy/order_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A tracker that follows the order of a program, and the history that it reads.
struct Walk {
  explicit Walk(const Program& program) : script(program) {
    for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
      allocate(BufferId{id}, program.footprints[id]);
    }
    std::vector<LaunchRecord> pass;
    std::vector<Bytes> persistent = program.footprints;
    for (std::uint32_t id = 0; id < persistent.size(); ++id) {
      if (program.host_written.count(id) == 0) persistent[id] = Bytes{};
    }
    for (const ScriptLaunch& launch : program.pass) {
      pass.push_back({launch.kernel, launch.buffers});
      (void)history.on_launch(launch.buffers);
    }
    (void)history.on_launch(program.pass.front().buffers);
    tracker.start(learn_pass(pass, persistent), 1, history);
  }
  void allocate(BufferId id, Bytes footprint) {
    history.on_allocate(id, footprint);
    tracker.on_allocate(id);
  }
  void free(BufferId id) {
    tracker.on_free(id, history.find(id)->footprint);
    history.on_free(id);
  }
  OrderTracker::Step launch(KernelId kernel, const std::vector<BufferId>& buffers) {
    (void)history.on_launch(buffers);
    return tracker.on_launch(kernel, buffers, may_join, history);
  }
  // The launch of the pass at `at`.
  OrderTracker::Step launch(std::size_t at) {
    return launch(script.pass[at].kernel, script.pass[at].buffers);
  }

  Program script;
  BufferHistory history;
  OrderTracker tracker;
  bool may_join = true;
};

constexpr BufferId kX{0};
constexpr BufferId kY{1};

TEST(OrderTracker, FollowsNothingBeforeItIsToldTo) {
  OrderTracker tracker;
  EXPECT_FALSE(tracker.is_following());
  EXPECT_EQ(tracker.layer_of(BufferId{5}), kNoLayer);
  EXPECT_THAT(tracker.sizes().layers, IsEmpty());
}

TEST(OrderTracker, BeginsVisitsAndPassesWithTheirFirstLaunches) {
  Walk walk(llama_program(3));
  EXPECT_TRUE(walk.tracker.is_following());
  const std::size_t launches = walk.script.pass.size();
  std::size_t visits = 0;
  for (std::size_t at = 1; at < 3 * launches; ++at) {
    const OrderTracker::Step step = walk.launch(at % launches);
    EXPECT_FALSE(step.jumped || step.is_lost || step.changed_layers);
    EXPECT_EQ(step.left_visit, step.began_visit);
    visits += step.began_visit ? 1 : 0;
    EXPECT_EQ(walk.tracker.at_pass_start(), at % launches == 0);
    EXPECT_EQ(walk.tracker.visit(), visits);
  }
  EXPECT_EQ(visits, 3 * (3 + 3) - 1) << "three layers and three units";
  EXPECT_EQ(walk.tracker.passes(), 2U);
  EXPECT_EQ(walk.tracker.last_pass_began(), 2 * launches + 1);
  EXPECT_EQ(walk.tracker.mispredictions(), 0U);
}

TEST(OrderTracker, CatchesUpWithWhatCameSinceThePass) {
  Walk walk(forward_program(6));
  LaunchHistory since;
  for (std::size_t at = 0; at < 4; ++at) {
    const auto& [kernel, buffers] = walk.script.pass[at];
    ASSERT_TRUE(since.record(kernel, buffers));
    if (at > 0) (void)walk.history.on_launch(buffers);
  }
  walk.tracker.catch_up(since, walk.history);
  EXPECT_EQ(walk.tracker.visit(), 3U);
  EXPECT_EQ(walk.tracker.passes(), 0U);
  EXPECT_FALSE(walk.tracker.at_pass_start());
  EXPECT_TRUE(walk.launch(4).began_visit);
}

TEST(OrderTracker, JumpsOverVisitsAndTakesTheOneBeforeForAStraggler) {
  Walk walk(forward_program(12));
  EXPECT_TRUE(walk.launch(1).began_visit);
  const OrderTracker::Step jump = walk.launch(5);
  EXPECT_TRUE(jump.began_visit);
  EXPECT_TRUE(jump.jumped);
  EXPECT_EQ(walk.tracker.visit(), 5U);
  const OrderTracker::Step late = walk.launch(4);
  EXPECT_TRUE(late.left_visit);
  EXPECT_FALSE(late.began_visit);
  EXPECT_EQ(walk.tracker.visit(), 5U);
  EXPECT_EQ(walk.tracker.mispredictions(), 2U);
}

TEST(OrderTracker, IsLostWhenLaunchesComeInAnyOrder) {
  Walk walk(forward_program(12));
  bool is_lost = false;
  int launches = 0;
  for (std::size_t at = 0; !is_lost && launches < 100; ++launches) {
    at = (at + 5) % 12;
    is_lost = walk.launch(at).is_lost;
  }
  EXPECT_TRUE(is_lost);
  EXPECT_EQ(launches, 10);
  walk.tracker.stop();
  EXPECT_FALSE(walk.tracker.is_following());
  EXPECT_EQ(walk.tracker.layer_of(BufferId{2}), kNoLayer);
  EXPECT_EQ(walk.tracker.mispredictions(), 10U) << "still counted";
}

TEST(OrderTracker, CountsThePeakOfTransientsInUse) {
  Walk walk(forward_program(6));
  EXPECT_EQ(walk.tracker.transient_peak(), 2_MiB) << "two activations";
  walk.allocate(BufferId{20}, 5_MiB);
  EXPECT_EQ(walk.tracker.transient_peak(), 2_MiB) << "not used yet";
  const std::vector<BufferId> named = {BufferId{3}, BufferId{20}};
  EXPECT_TRUE(walk.launch(KernelId{7}, named).has_strangers);
  EXPECT_TRUE(walk.tracker.take_in(named, true, walk.history));
  EXPECT_FALSE(walk.launch(KernelId{7}, named).has_strangers) << "it is counted";
  EXPECT_EQ(walk.tracker.transient_peak(), 7_MiB);
  walk.free(BufferId{20});
  walk.allocate(BufferId{20}, 4_MiB);
  (void)walk.launch(KernelId{7}, named);
  EXPECT_TRUE(walk.tracker.take_in(named, true, walk.history));
  EXPECT_EQ(walk.tracker.transient_peak(), 7_MiB);
}

TEST(OrderTracker, TakesWhatOutlivedAPassIntoTheLayerThatItIsNamedWith) {
  Walk walk(forward_program(4));
  walk.may_join = false;
  walk.allocate(BufferId{20}, 5_MiB);
  const std::vector<BufferId> named = {BufferId{3}, BufferId{20}};
  const auto run_pass = [&] {
    for (const std::size_t at : {1U, 2U, 3U, 0U}) (void)walk.launch(at);
  };
  for (int pass = 0; pass < 3; ++pass) run_pass();
  EXPECT_TRUE(walk.tracker.take_in(named, false, walk.history));
  EXPECT_EQ(walk.tracker.layer_of(BufferId{20}), kNoLayer);
  EXPECT_TRUE(walk.tracker.take_in(named, true, walk.history));
  EXPECT_EQ(walk.tracker.layer_of(BufferId{20}), walk.tracker.layer_of(BufferId{3}));
  EXPECT_THAT(walk.tracker.sizes().layers, ElementsAre(16_MiB, 16_MiB, 16_MiB, 16_MiB));
  EXPECT_TRUE(walk.launch(1).changed_layers);
  EXPECT_THAT(walk.tracker.sizes().layers, ElementsAre(16_MiB, 21_MiB, 16_MiB, 16_MiB));
  EXPECT_EQ(walk.tracker.sizes().all_layers, 69_MiB);
  EXPECT_EQ(walk.tracker.sizes().largest_layer, 21_MiB);

  // Named with buffers of two layers, it is shared.
  walk.allocate(BufferId{21}, 3_MiB);
  for (int pass = 0; pass < 3; ++pass) run_pass();
  EXPECT_TRUE(
      walk.tracker.take_in(std::array{BufferId{2}, BufferId{3}, BufferId{21}}, true, walk.history));
  EXPECT_EQ(walk.tracker.layer_of(BufferId{21}), kNoLayer);
  (void)walk.launch(1);
  EXPECT_EQ(walk.tracker.sizes().shared, 3_MiB);
}

TEST(OrderTracker, DoubtsWhenItMeetsOldWeightsThatTheOrderDoesNotHave) {
  Walk walk(forward_program(4));
  walk.allocate(BufferId{20}, 5_MiB);
  walk.history.on_host_write(BufferId{20});
  for (int pass = 0; pass < 3; ++pass) {
    for (const std::size_t at : {1U, 2U, 3U, 0U}) (void)walk.launch(at);
  }
  int times = 0;
  while (times < 100 && walk.tracker.take_in(std::array{BufferId{20}}, true, walk.history)) {
    ++times;
  }
  EXPECT_EQ(times, 9);
}

TEST(OrderTracker, KeepsSizesUntilTheNextVisitWhenBuffersAreFreed) {
  Walk walk(forward_program(4));
  walk.free(BufferId{3});
  EXPECT_EQ(walk.tracker.layer_of(BufferId{3}), kNoLayer);
  EXPECT_EQ(walk.tracker.sizes().layers[1], 16_MiB);
  const OrderTracker::Step step = walk.launch(2);
  EXPECT_TRUE(step.changed_layers);
  EXPECT_TRUE(step.began_visit);
  EXPECT_EQ(walk.tracker.mispredictions(), 0U) << "an empty layer is passed over";
  EXPECT_EQ(walk.tracker.sizes().layers[1], Bytes{});
}

TEST(OrderTracker, WeighsByKindFirstAndThenByVisitsAhead) {
  Walk walk(forward_program(4));
  walk.allocate(BufferId{20}, 1_MiB);  // never used
  (void)walk.launch(1);
  const auto weighed = walk.tracker.weigh(
      std::array{BufferId{2}, BufferId{3}, BufferId{4}, kX, BufferId{20}}, walk.history);
  ASSERT_THAT(weighed, SizeIs(5));
  EXPECT_EQ(weighed[0].next_use, 4U) << "after the end of the pass";
  EXPECT_EQ(weighed[1].next_use, 1U) << "the present visit";
  EXPECT_EQ(weighed[2].next_use, 2U);
  EXPECT_GT(weighed[3].next_use, 4U) << "a transient goes before layers";
  EXPECT_EQ(weighed[4].next_use, kNeverUsedAgain);
  EXPECT_LT(weighed[3].next_use, weighed[4].next_use);
  walk.tracker.stop();
  for (const ResidentBuffer& one : walk.tracker.weigh(std::array{BufferId{2}, kY}, walk.history)) {
    EXPECT_EQ(one.next_use, kNeverUsedAgain);
  }
}

}  // namespace
}  // namespace superpipe
