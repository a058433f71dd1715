#include "policy/pass_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PassOrder learn(const Program& program) {
  std::vector<LaunchRecord> pass;
  for (const ScriptLaunch& launch : program.pass) pass.push_back({launch.kernel, launch.buffers});
  return learn_pass(pass, program.footprints);
}

std::vector<std::uint32_t> layers_visited(const PassOrder& order) {
  std::vector<std::uint32_t> layers;
  for (const Visit& visit : order.visits) layers.push_back(visit.layer);
  return layers;
}

TEST(LearnPass, VisitsLayersInTurnWhenForward) {
  const PassOrder order = learn(forward_program(5));
  EXPECT_THAT(layers_visited(order), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(order.first_kernel, KernelId{7});
  EXPECT_EQ(order.first_buffer, BufferId{2});
}

TEST(LearnPass, VisitsUpDownAndUpAgainWhenTraining) {
  const PassOrder order = learn(training_program(4));
  EXPECT_THAT(layers_visited(order), ElementsAre(0, 1, 2, 3, 2, 1, 0, 1, 2, 3));
  for (const Visit& visit : order.visits) EXPECT_THAT(visit.extras, IsEmpty());
}

TEST(LearnPass, NotesBuffersOfOtherLayersThatAVisitNeeds) {
  Program program = forward_program(6);
  // The last layer's weight is tied to the first's: its launch names both.
  program.pass.back().buffers.push_back(BufferId{2});
  const PassOrder order = learn(program);
  ASSERT_THAT(order.visits, SizeIs(6));
  EXPECT_THAT(order.visits[4].extras, IsEmpty());
  // Equal bytes: the launch counts as the lower layer's, and needs the other's weight besides.
  EXPECT_EQ(order.visits.back().layer, 0U);
  EXPECT_THAT(order.visits.back().extras, ElementsAre(BufferId{7}));
}

TEST(LearnPass, HasNoVisitsWithoutPersistentBuffers) {
  EXPECT_THAT(learn_pass({}, {}).visits, IsEmpty());
}

TEST(NeedsOf, ListsLayerAndExtras) {
  PassOrder order;
  order.layers = {{BufferId{4}, BufferId{5}}, {BufferId{6}}};
  order.visits = {{0, {}}, {1, {BufferId{4}}}};
  EXPECT_THAT(needs_of(order), ElementsAre(ElementsAre(4, 5), ElementsAre(6, 4)));
}

}  // namespace
}  // namespace superpipe
