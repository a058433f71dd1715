// What still reads or writes the host's copy of a buffer.
#include "residency/host/host_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr bool kReads = false;
constexpr bool kWrites = true;

class HostCopyTest : public ::testing::Test {
 protected:
  EventRef event(std::uint64_t seq) {
    auto recorded = events_.record(device_.program_stream(), seq);
    return *recorded;
  }
  /// Notes an operation with room for it, as the contract asks.
  void note(Slot slot, StreamHandle stream, bool writes, EventRef done, std::uint64_t noted) {
    copy_.reserve_operations();
    copy_.note({slot, stream, writes, std::move(done), noted});
  }
  /// The events that append_ends() gives when there was no stream-ordered free.
  std::vector<EventRef> ends() {
    std::vector<EventRef> events;
    EXPECT_TRUE(copy_.append_ends(nullptr, events));
    return events;
  }

  static constexpr StreamHandle kStream{100};
  static constexpr StreamHandle kOther{101};

  FakeDevice device_{{}};
  EventPool events_{device_};
  HostCopy copy_;
};

TEST_F(HostCopyTest, IsBusyWhilePinnedOrWhileItsSlabIsMapped) {
  EXPECT_FALSE(copy_.is_busy());
  copy_.pins = 2;
  EXPECT_TRUE(copy_.is_busy());
  copy_.pins = 0;
  copy_.is_mapping = true;
  EXPECT_TRUE(copy_.is_busy());
}

// The end of an operation comes when the program's call has been submitted: too late to fail.
TEST_F(HostCopyTest, HasRoomForAllOperationsThatArePinned) {
  note(1, kStream, kReads, event(1), 1);
  copy_.pins = 20;
  copy_.reserve_operations();
  const HostOperation* const place = copy_.operations.data();
  for (Slot slot = 2; slot < 23; ++slot) copy_.note({slot, kOther, kReads, nullptr, 2});
  EXPECT_THAT(copy_.operations, SizeIs(22));
  EXPECT_EQ(copy_.operations.data(), place) << "it was allocated anew";
}

TEST_F(HostCopyTest, DropsEarlierOperationsOfAStreamThatALaterEventCovers) {
  const EventRef last = event(5);
  note(1, kStream, kReads, event(1), 1);
  note(1, kStream, kReads, event(3), 3);
  note(1, kStream, kReads, last, 6);
  EXPECT_THAT(ends(), UnorderedElementsAre(last));
}

TEST_F(HostCopyTest, MarksAnOperationWithoutEventByALaterOneOfItsStream) {
  const EventRef last = event(5);
  note(1, kStream, kReads, nullptr, 2);
  note(1, kStream, kReads, last, 6);
  EXPECT_THAT(ends(), UnorderedElementsAre(last));
}

TEST_F(HostCopyTest, KeepsAnOperationThatWasNotedAfterTheEventWasRecorded) {
  const EventRef recorded_first = event(2);
  const EventRef recorded_last = event(4);
  note(1, kStream, kReads, recorded_last, 5);
  note(1, kStream, kReads, recorded_first, 6);
  EXPECT_THAT(ends(), UnorderedElementsAre(recorded_first, recorded_last));
}

TEST_F(HostCopyTest, KeepsTheOperationsOfOtherStreams) {
  const EventRef one = event(1);
  const EventRef two = event(2);
  const EventRef last = event(9);
  note(1, kOther, kReads, one, 1);
  note(2, kStream, kReads, two, 2);
  note(1, kStream, kReads, last, 9);
  EXPECT_THAT(ends(), UnorderedElementsAre(one, two, last));
}

TEST_F(HostCopyTest, DropsNothingForAnOperationWithoutEvent) {
  const EventRef first = event(1);
  note(1, kStream, kReads, first, 1);
  note(1, kStream, kReads, nullptr, 9);
  ASSERT_THAT(copy_.operations, SizeIs(2));
  EXPECT_EQ(copy_.operations.front().done, first);
}

// The slot is shared by streams that are not told apart.
TEST_F(HostCopyTest, DropsNothingOfTheSharedSlot) {
  const EventRef one = event(1);
  const EventRef two = event(9);
  note(StreamTable::kShared, kStream, kReads, one, 1);
  note(StreamTable::kShared, kStream, kReads, two, 9);
  EXPECT_THAT(ends(), UnorderedElementsAre(one, two));
}

TEST_F(HostCopyTest, RemembersThatACoveredOperationWrote) {
  note(1, kStream, kWrites, event(1), 1);
  note(1, kStream, kReads, event(5), 5);
  ASSERT_THAT(copy_.operations, SizeIs(1));
  EXPECT_TRUE(copy_.operations.front().writes) << "a fetch must wait for the write";
}

TEST_F(HostCopyTest, TakesNoReadForAWrite) {
  note(1, kOther, kWrites, event(1), 1);
  note(2, kStream, kReads, event(5), 5);
  ASSERT_THAT(copy_.operations, SizeIs(2));
  EXPECT_FALSE(copy_.operations.back().writes);
}

TEST_F(HostCopyTest, ForgetsWritesButNoReadsAfterAFetch) {
  const EventRef read = event(2);
  note(1, kStream, kWrites, event(1), 1);
  note(2, kOther, kReads, read, 2);
  copy_.forget_writes();
  EXPECT_THAT(ends(), UnorderedElementsAre(read)) << "the next write-back must wait for the read";
}

TEST_F(HostCopyTest, EndsWithItsOperations) {
  EXPECT_THAT(ends(), IsEmpty());
  const EventRef read = event(2);
  note(1, kStream, kReads, read, 2);
  const EventRef already_there = event(7);
  std::vector<EventRef> events{already_there};
  EXPECT_TRUE(copy_.append_ends(nullptr, events));
  EXPECT_THAT(events, UnorderedElementsAre(already_there, read));
}

TEST_F(HostCopyTest, HasNoKnownEndWhileAnOperationHasNoEvent) {
  const EventRef read = event(2);
  note(1, kStream, kReads, read, 2);
  note(2, kOther, kWrites, nullptr, 3);
  std::vector<EventRef> events;
  EXPECT_FALSE(copy_.append_ends(nullptr, events));
  EXPECT_THAT(events, ::testing::Contains(read));
  // The event of a stream-ordered free lies behind every operation of the program.
  const EventRef freed = event(4);
  events.clear();
  EXPECT_TRUE(copy_.append_ends(freed, events));
  EXPECT_THAT(events, UnorderedElementsAre(freed, read));
}

TEST_F(HostCopyTest, HasNoKnownEndAfterATransferOfOursThatIsUntracked) {
  copy_.is_untracked = true;
  std::vector<EventRef> events;
  EXPECT_FALSE(copy_.append_ends(event(4), events)) << "the program's free does not mark it";
}

}  // namespace
}  // namespace superpipe::testing
