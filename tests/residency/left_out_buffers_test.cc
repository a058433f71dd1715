// When buffers may come in again that launches were begun without.
#include "residency/room/left_out_buffers.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class LeftOutBuffersTest : public CoreTest {
 protected:
  /// A launch that was begun without the buffer, and ends with `end`.
  void launch_without(BufferId id, const EventRef& end) REQUIRES(manager_lock) {
    left_out_.begin(id);
    left_out_.prepare_end(std::array{id}, KernelId{7});
    left_out_.end(id, true, end);
  }
  /// An event that has completed, which nobody has asked about.
  EventRef completed_event() {
    const EventRef event = end_of(device_.program_stream());
    device_.drain();
    return event;
  }

  LeftOutBuffers left_out_{core_};
};

TEST_F(LeftOutBuffersTest, ABufferReturnsWhenAllLaunchesWithoutItHaveCompleted) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  EXPECT_TRUE(left_out_.may_return(id));
  launch_without(id, completed_event());
  left_out_.begin(id);
  left_out_.prepare_end(std::array{id}, KernelId{7});
  EXPECT_FALSE(left_out_.may_return(id)) << "it has not been submitted";
  left_out_.end(id, true, blocked_event());
  EXPECT_FALSE(left_out_.may_return(id));
  unblock();
  EXPECT_TRUE(left_out_.may_return(id));
  EXPECT_FALSE(core_.buffers[id].is_left_out());
}

TEST_F(LeftOutBuffersTest, ALaunchThatCameToNothingHoldsNothingOut) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  left_out_.begin(id);
  left_out_.end(id, false, nullptr);
  EXPECT_TRUE(left_out_.may_return(id));
}

// Launches of a kernel may be under way all the time.
TEST_F(LeftOutBuffersTest, LaunchesAreForgottenAsTheyComplete) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  const std::array earlier{completed_event(), completed_event(), blocked_event()};
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    left_out_.begin(id);
    left_out_.prepare_end(std::array{id}, KernelId{7});
  }
  for (const EventRef& end : earlier) left_out_.end(id, true, end);
  launch_without(id, blocked_event());
  EXPECT_EQ(core_.buffers[id].rare->left_out_until.size(), 2U);
  unblock();
  launch_without(id, blocked_event());
  EXPECT_EQ(core_.buffers[id].rare->left_out_until.size(), 1U);
}

TEST_F(LeftOutBuffersTest, NothingReturnsWhereNothingMarksTheEndOfTheLaunch) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  launch_without(id, nullptr);
  launch_without(id, completed_event());
  EXPECT_FALSE(left_out_.may_return(id));
  EXPECT_TRUE(left_out_.settle());
  EXPECT_FALSE(left_out_.is_pending()) << "nobody needs to look at it any more";
  EXPECT_TRUE(core_.buffers[id].is_left_out());
}

TEST_F(LeftOutBuffersTest, NothingReturnsWhereTheDeviceDoesNotTellOfTheLaunch) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1);
  launch_without(id, blocked_event());
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  const std::uint64_t errors = core_.counters.errors;
  EXPECT_TRUE(left_out_.settle());
  EXPECT_FALSE(left_out_.is_pending()) << "nobody asks again";
  EXPECT_EQ(core_.counters.errors, errors + 1);
  unblock();
  EXPECT_FALSE(left_out_.may_return(id));
}

TEST_F(LeftOutBuffersTest, AWorkerAsksOnceAboutALaunchThatManyBuffersWaitFor) {
  const ManagerLock lock(core_.mutex);
  const std::array ids{make_out(1), make_out(1), make_out(1)};
  const EventRef end = blocked_event();
  for (const BufferId id : ids) launch_without(id, end);
  const int asked = device_.calls(Call::kIsComplete);
  EXPECT_FALSE(left_out_.settle());
  EXPECT_EQ(device_.calls(Call::kIsComplete), asked + 1);
  EXPECT_TRUE(left_out_.is_pending());
  unblock();
  const std::uint64_t changes = core_.waits.changes;
  EXPECT_TRUE(left_out_.settle());
  EXPECT_FALSE(left_out_.is_pending());
  EXPECT_GT(core_.waits.changes, changes);
  for (const BufferId id : ids) EXPECT_FALSE(core_.buffers[id].is_left_out());
}

TEST_F(LeftOutBuffersTest, AFreedBufferIsPutAwayWhenItReturns) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  launch_without(id, blocked_event());
  core_.buffers[id].live = false;
  EXPECT_TRUE(left_out_.hold_back(id));
  EXPECT_FALSE(left_out_.settle());
  EXPECT_EQ(core_.cache.bytes(), Bytes{});
  unblock();
  EXPECT_TRUE(left_out_.settle());
  EXPECT_EQ(core_.cache.bytes(), kGranule);
}

// It has nothing to say about buffers that were never freed, or may be put away at once.
TEST_F(LeftOutBuffersTest, OnlyWhatIsLeftOutIsHeldBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId live = make_clean(1);
  launch_without(live, blocked_event());
  const BufferId other = make_clean(1);
  EXPECT_FALSE(left_out_.hold_back(other));
  unblock();
  EXPECT_TRUE(left_out_.settle());
  EXPECT_EQ(core_.cache.bytes(), Bytes{});
}

}  // namespace
}  // namespace superpipe::testing
