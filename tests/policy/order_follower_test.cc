#include "policy/order_follower.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

PassOrder order_of(const std::vector<std::uint32_t>& layers) {
  PassOrder order;
  for (const std::uint32_t layer : layers) order.visits.push_back({layer, {}});
  return order;
}

const std::vector<bool> kNoneEmpty(8, false);

TEST(OrderFollower, StepsToTheNextVisitOverTheEndOfThePass) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 2}));
  EXPECT_EQ(follower.layer(), 0U);
  EXPECT_FALSE(follower.advance({1, true}));
  EXPECT_FALSE(follower.advance({1, true}));
  EXPECT_EQ(follower.layer(), 2U);
  const auto step = follower.step_to(0, kNoneEmpty);
  EXPECT_EQ(step.visits, 1U);
  EXPECT_TRUE(step.predicted);
  EXPECT_TRUE(follower.advance({1, true}));
  EXPECT_EQ(follower.visit(), 3U);
}

TEST(OrderFollower, FindsTheNearestVisitAheadWhenVisitsAreSkipped) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 2, 3, 4, 3, 2, 1}));
  const auto step = follower.step_to(3, kNoneEmpty);
  EXPECT_EQ(step.visits, 3U);
  EXPECT_FALSE(step.predicted);
}

TEST(OrderFollower, PassesOverEmptyLayersAsPredicted) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 2, 3}));
  std::vector<bool> is_empty(4, false);
  is_empty[1] = true;
  const auto step = follower.step_to(2, is_empty);
  EXPECT_EQ(step.visits, 2U);
  EXPECT_TRUE(step.predicted);
}

TEST(OrderFollower, LeavesAStragglerBehind) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 2, 3, 4, 5}));
  follower.advance({2, true});
  const auto step = follower.step_to(1, kNoneEmpty);
  EXPECT_EQ(step.visits, 0U);
  EXPECT_FALSE(step.predicted);
}

TEST(OrderFollower, KnowsNoVisitOfALayerThatIsOnlyAnExtra) {
  OrderFollower follower;
  follower.start(order_of({0, 1}));
  const auto step = follower.step_to(7, kNoneEmpty);
  EXPECT_EQ(step.visits, 0U);
  EXPECT_TRUE(step.predicted);
}

TEST(OrderFollower, MayEndThePassOnlyInALastVisitOfTheFirstLayer) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 0}));
  EXPECT_FALSE(follower.may_end_pass());
  follower.advance({2, true});
  EXPECT_TRUE(follower.may_end_pass());
  EXPECT_TRUE(follower.advance({1, true}));
  EXPECT_FALSE(follower.may_end_pass());
}

TEST(OrderFollower, LosesItsConfidenceWhenJumpsAreTheRule) {
  OrderFollower follower;
  follower.start(order_of({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(follower.is_confident());
  std::uint64_t jump = 1;
  for (int time = 0; time < 40; ++time) {
    jump = jump * 5 % 7;
    (void)follower.advance({2 + jump % 5, time % 3 == 0});
  }
  EXPECT_FALSE(follower.is_confident());
  for (int time = 0; time < 40; ++time) (void)follower.advance({1, true});
  EXPECT_TRUE(follower.is_confident());
}

TEST(OrderFollower, HasNoLayerWhenStopped) {
  OrderFollower follower;
  follower.start(order_of({0, 1}));
  follower.stop();
  EXPECT_EQ(follower.layer(), kNoLayer);
  EXPECT_FALSE(follower.may_end_pass());
}

}  // namespace
}  // namespace superpipe
