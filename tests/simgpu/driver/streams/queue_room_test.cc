#include "tools/simgpu/driver/streams/queue_room.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace simgpu {
namespace {

TEST(QueueRoom, AwaitsNothingBelowItsDepth) {
  QueueRoom room{2};
  room.await();
  room.enter();
  room.await();
  room.enter();
  room.leave();
  room.await();
}

TEST(QueueRoom, AwaitsAnOperationThatLeaves) {
  QueueRoom room{1};
  room.enter();
  std::atomic<bool> passed{false};
  std::thread caller{[&] {
    room.await();
    passed = true;
  }};
  // Entering never waits, so the queue can hold more than its depth: then one that leaves is not
  // enough.
  room.enter();
  room.leave();
  std::this_thread::yield();
  EXPECT_FALSE(passed);
  room.leave();
  caller.join();
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace simgpu
