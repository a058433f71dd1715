// What is known of the uses of buffers: never more than has completed, and soon all that has.
#include "residency/transfer/use_completion.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class UseCompletionTest : public MovingCoreTest {
 protected:
  bool is_over(BufferId id) REQUIRES(manager_lock) {
    return completion_.is_over(core_.buffers[id]);
  }
};

TEST_F(UseCompletionTest, ABufferThatNothingUsesIsFree) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  EXPECT_TRUE(is_over(id));
  (void)completion_.advance();
  EXPECT_FALSE(completion_.is_awaiting()) << "nothing is awaited";
}

TEST_F(UseCompletionTest, AUseIsOverOnceTheDeviceHasSaidSo) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  use(id, device_.program_stream());
  device_.drain();
  EXPECT_FALSE(is_over(id)) << "nobody has asked yet";
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  device_.drain();
  (void)completion_.advance();
  EXPECT_FALSE(completion_.is_awaiting());
  EXPECT_TRUE(is_over(id));
}

TEST_F(UseCompletionTest, WorkThatDoesNotEndHoldsUpItsOwnStreamAlone) {
  const ManagerLock lock(core_.mutex);
  const BufferId held = make_clean(1);
  const BufferId other = make_clean(1);
  use(held, blocked_stream());
  use(other, device_.program_stream());
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  device_.drain();
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  EXPECT_FALSE(is_over(held));
  EXPECT_TRUE(is_over(other));
  unblock();
  (void)completion_.advance();
  EXPECT_FALSE(completion_.is_awaiting());
  EXPECT_TRUE(is_over(held));
}

TEST_F(UseCompletionTest, LaterUsesDoNotHoldUpWhatIsKnownOfEarlierOnes) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId early = make_clean(1);
  const BufferId late = make_clean(1);
  use(early, stream);
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  device_.drain();
  device_.submit_blocking_host_function(stream);
  use(late, stream);
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  EXPECT_TRUE(is_over(early));
  EXPECT_FALSE(is_over(late));
  // An eviction of the early one waits for no event: not for the end of the stream, which is held.
  std::vector<EventRef> events;
  const Slot slot = core_.streams.slot_of(stream);
  EXPECT_TRUE(core_.streams.covered(slot, core_.buffers[early].last_use, events));
  EXPECT_TRUE(events.empty());
  unblock();
}

TEST_F(UseCompletionTest, StreamsWithoutASlotOfTheirOwnAreToldApart) {
  const StreamHandle endless = blocked_stream();
  const StreamHandle other = device_.program_stream();
  const ManagerLock lock(core_.mutex);
  const BufferId kept = make_clean(1);
  const BufferId free = make_clean(1);
  const auto use_shared = [this](BufferId id, StreamHandle stream) REQUIRES(manager_lock) {
    const EventRef end = end_of(stream);
    core_.buffers[id].uses = std::uint64_t{1} << StreamTable::kShared;
    core_.buffers[id].last_use = ++core_.seq;
    core_.buffers[id].rare->marked.note({stream, 0, core_.seq, end});
    core_.streams.shared().note({stream, 0, core_.seq, end});
  };
  use_shared(kept, endless);
  use_shared(free, other);
  device_.drain();
  EXPECT_FALSE(is_over(free)) << "it was not asked";
  EXPECT_TRUE(completion_.advance());
  EXPECT_TRUE(is_over(free));
  EXPECT_FALSE(is_over(kept));
  EXPECT_EQ(core_.streams.completed_to(core_.seq), 0U);
  EXPECT_TRUE(completion_.is_awaiting());
  unblock();
  EXPECT_TRUE(completion_.advance());
  EXPECT_TRUE(is_over(kept));
  EXPECT_FALSE(completion_.is_awaiting());
}

TEST_F(UseCompletionTest, AnEventThatFailsProvesNothing) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  use(id, device_.program_stream());
  (void)completion_.advance();
  EXPECT_TRUE(completion_.is_awaiting());
  device_.drain();
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  (void)completion_.advance();
  EXPECT_FALSE(is_over(id));
}

TEST_F(UseCompletionTest, WhatCameAndWasNeverUsedIsFree) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  core_.buffers[id].set_ready(0, blocked_event());
  EXPECT_TRUE(is_over(id));
  const std::array<BufferId, 1> victims{id};
  EXPECT_EQ(evictions_.request(victims), kGranule);
  EXPECT_EQ(evictions_.take_next(), std::nullopt) << "its eviction waits until it has arrived";
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
  core_.buffers[id].set_ready(0, nullptr);
}

}  // namespace
}  // namespace superpipe::testing
