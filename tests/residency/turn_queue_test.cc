// Turns in the order of asking.
#include "residency/room/turn_queue.h"

#include <gtest/gtest.h>

namespace superpipe::testing {
namespace {

TEST(TurnQueue, ServesInTheOrderOfAsking) {
  TurnQueue queue;
  TurnQueue::Place first;
  TurnQueue::Place second;
  TurnQueue::Place third;
  queue.join(first);
  EXPECT_TRUE(queue.take(first));
  queue.join(second);
  queue.join(third);
  EXPECT_FALSE(queue.take(second)) << "it is the first one's turn";
  queue.end();
  EXPECT_FALSE(queue.take(third)) << "the second came earlier";
  EXPECT_TRUE(queue.take(second));
  queue.join(first);
  queue.end();
  EXPECT_FALSE(queue.take(first)) << "whoever had the turn goes to the end of the queue";
  EXPECT_TRUE(queue.take(third));
}

TEST(TurnQueue, ForgetsWhoGivesUp) {
  TurnQueue queue;
  TurnQueue::Place first;
  TurnQueue::Place second;
  TurnQueue::Place third;
  queue.join(first);
  queue.join(second);
  queue.join(third);
  queue.leave(second);
  queue.leave(first);
  EXPECT_TRUE(queue.take(third));
  queue.join(second);
  EXPECT_FALSE(queue.take(second));
}

}  // namespace
}  // namespace superpipe::testing
