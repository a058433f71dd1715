// Events behind what the program submitted: on which streams, when, and when there are none.
#include "residency/transfer/stream_marker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::Contains;

class StreamMarkerTest : public CoreTest {
 protected:
  using CoreTest::CoreTest;

  static std::uint64_t mask_of(Slot slot) { return std::uint64_t{1} << slot; }

  /// The events that cover all uses of the buffer; empty if there is a use that none covers.
  std::vector<EventRef> covering(BufferId id, Slot slot) REQUIRES(manager_lock) {
    std::vector<EventRef> events;
    if (!core_.streams.covered(slot, core_.buffers[id].last_use, events)) events.clear();
    return events;
  }
  /// An operation of the program on a host copy, that was submitted to `stream` just now.
  HostOperation operation_on(StreamHandle stream, bool writes, EventRef done = nullptr)
      REQUIRES(manager_lock) {
    return {core_.streams.slot_of(stream), stream, writes, std::move(done), ++core_.seq};
  }

  StreamMarker marker_{core_};
};

TEST_F(StreamMarkerTest, MarksWhatWasSubmittedSoFar) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = blocked_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  const Slot slot = core_.streams.slot_of(stream);
  ASSERT_TRUE(covering(id, slot).empty());
  marker_.mark_ends(mask_of(slot));
  const auto events = covering(id, slot);
  ASSERT_EQ(events.size(), 1U);
  device_.drain();
  EXPECT_FALSE(is_complete(events[0]));
  unblock();
  EXPECT_TRUE(is_complete(events[0]));
  // A use from now on lies behind the event.
  use(id, stream);
  EXPECT_TRUE(covering(id, slot).empty());
}

TEST_F(StreamMarkerTest, SlotsOfThreadsThatHaveEndedServeOthers) {
  for (int i = 0; i < 3 * StreamTable::kShared; ++i) {
    std::thread([this, i] {
      const ManagerLock lock(core_.mutex);
      EXPECT_NE(marker_.slot_of(kPerThreadStream), StreamTable::kShared) << "thread " << i;
    }).join();
  }
}

TEST_F(StreamMarkerTest, MarksOnlyTheStreamsThatItIsGiven) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle marked = device_.program_stream();
  const StreamHandle other = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, other);
  use(id, marked);
  marker_.mark_ends(mask_of(core_.streams.slot_of(marked)));
  EXPECT_FALSE(covering(id, core_.streams.slot_of(marked)).empty());
  EXPECT_TRUE(covering(id, core_.streams.slot_of(other)).empty());
}

TEST_F(StreamMarkerTest, NeverRecordsOnACapturingStream) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  device_.set_capturing(stream, true);
  marker_.mark_ends(mask_of(core_.streams.slot_of(stream)));
  EXPECT_TRUE(covering(id, core_.streams.slot_of(stream)).empty());
  EXPECT_EQ(core_.counters.errors, 0U);
}

TEST_F(StreamMarkerTest, AnEventThatCannotBeRecordedIsCountedAndMarksNothing) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  marker_.mark_ends(mask_of(core_.streams.slot_of(stream)));
  EXPECT_TRUE(covering(id, core_.streams.slot_of(stream)).empty());
  EXPECT_EQ(core_.counters.errors, 1U);
}

TEST_F(StreamMarkerTest, AStreamIsVisitedWhileItIsMarked) {
  const StreamHandle stream = device_.program_stream();
  Slot slot = 0;
  {
    const ManagerLock lock(core_.mutex);
    slot = core_.streams.slot_of(stream);
  }
  std::vector<std::uint32_t> seen;
  device_.on_call = [&](Call call) {
    if (call != Call::kRecord) return;
    const ManagerLock lock(core_.mutex);  // not held across the call (I5), or this would hang
    seen.push_back(core_.streams.entry(slot).visitors);
  };
  const ManagerLock lock(core_.mutex);
  marker_.mark_ends(mask_of(slot));
  device_.on_call = nullptr;
  EXPECT_EQ(seen, std::vector<std::uint32_t>{1});
  EXPECT_EQ(core_.streams.entry(slot).visitors, 0U);
}

TEST_F(StreamMarkerTest, ResolvesOperationsByTheirOwnEvents) {
  const ManagerLock lock(core_.mutex);
  const EventRef read = blocked_event();
  const EventRef written = blocked_event();
  HostCopy copy;
  copy.operations.push_back(operation_on(device_.program_stream(), false, read));
  copy.operations.push_back(operation_on(device_.program_stream(), true, written));
  std::vector<EventRef> all;
  EXPECT_EQ(marker_.resolve(copy, false, all), Status::kOk);
  EXPECT_EQ(all, (std::vector<EventRef>{read, written}));
  std::vector<EventRef> writes;
  EXPECT_EQ(marker_.resolve(copy, true, writes), Status::kOk);
  EXPECT_EQ(writes, std::vector<EventRef>{written});
}

TEST_F(StreamMarkerTest, ResolvesAnOperationWithoutAnEventByALaterOne) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = blocked_stream();
  HostCopy copy;
  copy.operations.push_back(operation_on(stream, true));
  std::vector<EventRef> events;
  EXPECT_EQ(marker_.resolve(copy, false, events), Status::kOk);
  ASSERT_EQ(events.size(), 1U);
  device_.drain();
  EXPECT_FALSE(is_complete(events[0]));
  // The event serves whoever asks next.
  const int recorded = device_.calls(Call::kRecord);
  EXPECT_EQ(marker_.resolve(copy, false, events), Status::kOk);
  EXPECT_EQ(device_.calls(Call::kRecord), recorded);
  EXPECT_EQ(events, (std::vector<EventRef>{events[0], events[0]}));
}

// A thread that ends another copy meanwhile puts it in the place of the one that is being marked.
TEST_F(StreamMarkerTest, ResolvesEveryOperationThoughOthersEndMeanwhile) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  const EventRef blocked = blocked_event();
  HostCopy copy;
  copy.pins = 1;
  copy.operations.push_back(operation_on(stream, true));
  const auto last = core_.events.record(stream, core_.seq);
  ASSERT_TRUE(last.ok());
  copy.operations.push_back(operation_on(device_.program_stream(), true, blocked));
  copy.reserve_operations();
  const HostOperation later = operation_on(stream, true, *last);
  device_.on_call = [&](Call call) {
    if (call == Call::kRecord) copy.note(later);
  };
  std::vector<EventRef> events;
  EXPECT_EQ(marker_.resolve(copy, false, events), Status::kOk);
  device_.on_call = nullptr;
  EXPECT_THAT(events, Contains(blocked));
  EXPECT_THAT(events, Contains(*last));
}

TEST_F(StreamMarkerTest, AnOperationWhoseStreamIsGoneNeedsNoEvent) {
  const ManagerLock lock(core_.mutex);
  HostCopy copy;
  copy.operations.push_back({kNoSlot, StreamHandle{}, true, nullptr, 1});
  std::vector<EventRef> events;
  EXPECT_EQ(marker_.resolve(copy, false, events), Status::kOk);
  EXPECT_TRUE(events.empty());
}

TEST_F(StreamMarkerTest, AnEndThatNobodyCanMarkIsAnError) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle capturing = device_.program_stream();
  device_.set_capturing(capturing, true);
  const auto resolved = [&](StreamHandle stream) REQUIRES(manager_lock) {
    HostCopy copy;
    copy.operations.push_back(operation_on(stream, true));
    std::vector<EventRef> events;
    return marker_.resolve(copy, false, events);
  };
  EXPECT_EQ(resolved(kPerThreadStream), Status::kDeviceError);
  EXPECT_EQ(device_.calls(Call::kRecord), 0) << "it would be the calling thread's stream";
  EXPECT_EQ(resolved(capturing), Status::kCapturing);
}

TEST_F(StreamMarkerTest, AStreamGetsItsLastEventBeforeItIsDestroyed) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = blocked_stream();
  const BufferId id = make_dirty(1);
  use(id, stream);
  const Slot slot = core_.streams.slot_of(stream);
  marker_.retire(stream);
  EXPECT_FALSE(core_.streams.recordable(slot));
  EXPECT_EQ(core_.streams.entry(slot).visitors, 0U);
  const auto events = covering(id, slot);
  ASSERT_EQ(events.size(), 1U);
  device_.drain();
  EXPECT_FALSE(is_complete(events[0]));
}

TEST_F(StreamMarkerTest, AStreamWhoseUsesAreMarkedNeedsNoOtherEvent) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  use(make_dirty(1), stream);
  marker_.mark_ends(mask_of(core_.streams.slot_of(stream)));
  const int recorded = device_.calls(Call::kRecord);
  marker_.retire(stream);
  marker_.retire(device_.program_stream());  // one that never used a buffer
  EXPECT_EQ(device_.calls(Call::kRecord), recorded);
}

TEST_F(StreamMarkerTest, ADestructionWaitsForThoseThatAreAboutToMarkTheStream) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  auto& entry = core_.streams.entry(core_.streams.slot_of(stream));
  ++entry.visitors;
  rounds_.round = [&] {
    if (rounds_.rounds == 3) --entry.visitors;
    return true;
  };
  marker_.retire(stream);
  EXPECT_EQ(rounds_.rounds, 3);
  EXPECT_EQ(entry.visitors, 0U);
}

TEST_F(StreamMarkerTest, ADestructionWaitsNoLongerThanTheWaitLimit) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle stream = device_.program_stream();
  ++core_.streams.entry(core_.streams.slot_of(stream)).visitors;  // never ends
  const auto begun = core_.now();
  marker_.retire(stream);
  EXPECT_GE(core_.now() - begun, core_.options.wait_limit);
  EXPECT_LT(core_.now() - begun, 2 * core_.options.wait_limit);
}

TEST_F(StreamMarkerTest, ASlotIsUsedAgainOnlyWhenItsStreamHasEnded) {
  const ManagerLock lock(core_.mutex);
  const StreamHandle gone = blocked_stream();
  const BufferId id = make_dirty(1);
  use(id, gone);
  const Slot slot = core_.streams.slot_of(gone);
  while (marker_.slot_of(device_.program_stream()) != StreamTable::kShared) {
  }
  marker_.retire(gone);
  const StreamHandle next = device_.program_stream();
  EXPECT_EQ(marker_.slot_of(next), StreamTable::kShared);
  EXPECT_EQ(core_.buffers[id].uses, mask_of(slot));
  unblock();
  EXPECT_EQ(marker_.slot_of(next), slot);
  // The next stream of the slot is not taken for a user of the buffer.
  EXPECT_EQ(core_.buffers[id].uses, 0U);
}

/// Where nothing ever moves, no event is ever needed.
class ResidentMarkerTest : public StreamMarkerTest {
 protected:
  ResidentMarkerTest() : StreamMarkerTest(resident()) {}
  static ResidencyOptions resident() {
    ResidencyOptions options = options_of(1024);
    options.policy.kind = PolicyKind::kResident;
    return options;
  }
};

TEST_F(ResidentMarkerTest, DoesNotAskWhetherAStreamIsCaptured) {
  const StreamHandle stream = device_.program_stream();
  device_.set_capturing(stream, true);
  const auto capturing = marker_.is_capturing(stream);
  ASSERT_TRUE(capturing.ok());
  EXPECT_FALSE(*capturing);
  EXPECT_EQ(device_.calls(Call::kIsCapturing), 0);
}

TEST_F(StreamMarkerTest, WhatStreamsOfTheSharedSlotDidIsWaitedForByTheirEvents) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1);
  const EventRef end = blocked_event();
  core_.buffers[id].rare->marked.note({StreamHandle{500}, 0, 1, end});
  std::vector<EventRef> events;
  EXPECT_TRUE(marker_.covered(core_.buffers[id], StreamTable::kShared, events));
  EXPECT_EQ(events, std::vector<EventRef>{end});
  core_.buffers[id].rare->marked.note({StreamHandle{501}, 0, 2, nullptr});
  EXPECT_FALSE(marker_.covered(core_.buffers[id], StreamTable::kShared, events));
  unblock();
}

}  // namespace
}  // namespace superpipe::testing
