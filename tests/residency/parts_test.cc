// The small parts, each by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "residency/arena.h"
#include "residency/buffer_table.h"
#include "residency/event_pool.h"
#include "residency/host_store.h"
#include "residency/page_pool.h"
#include "residency/stream_table.h"
#include "residency/turn_queue.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

constexpr Address kBase = 0x10000000;

TEST(AddressRanges, ReusesTheLastFreedRangeOfTheSameSize) {
  AddressRanges ranges(kBase, 64_KiB, 4_KiB);
  const auto a = ranges.take(8_KiB);
  const auto b = ranges.take(8_KiB);
  ASSERT_TRUE(a && b);
  ranges.give_back(*a, 8_KiB);
  ranges.give_back(*b, 8_KiB);
  EXPECT_EQ(ranges.take(8_KiB), b);
  EXPECT_EQ(ranges.take(8_KiB), a);
}

TEST(AddressRanges, MergesFreedRangesBeforeItGivesUp) {
  AddressRanges ranges(kBase, 64_KiB, 4_KiB);
  std::vector<Address> taken;
  while (const auto range = ranges.take(4_KiB)) taken.push_back(*range);
  EXPECT_EQ(taken.size(), 16U);
  EXPECT_EQ(std::set<Address>(taken.begin(), taken.end()).size(), 16U);
  for (const Address range : {taken[3], taken[5], taken[4]}) ranges.give_back(range, 4_KiB);
  EXPECT_EQ(ranges.take(12_KiB), taken[3]);
  EXPECT_EQ(ranges.take(4_KiB), std::nullopt);
  for (const Address range : taken) {
    if (range < taken[3] || range > taken[5]) ranges.give_back(range, 4_KiB);
  }
  ranges.give_back(taken[3], 12_KiB);
  EXPECT_EQ(ranges.take(64_KiB), kBase);
}

TEST(AddressRanges, SplitsALargerRangeWhenNothingElseIsLeft) {
  AddressRanges ranges(kBase, 16_KiB, 4_KiB);
  ASSERT_EQ(ranges.take(12_KiB), kBase);
  ASSERT_EQ(ranges.take(4_KiB), kBase + 12 * 1024);
  ranges.give_back(kBase, 12_KiB);
  EXPECT_EQ(ranges.take(4_KiB), kBase);
  EXPECT_EQ(ranges.take(8_KiB), kBase + 4 * 1024);
  EXPECT_EQ(ranges.take(4_KiB), std::nullopt);
}

TEST(Arena, FindsTheOwnerOfEveryGranuleAndNobodyInTheGuard) {
  Arena arena(kBase, 1_MiB, 4_KiB);
  ASSERT_TRUE(arena.ok());
  const auto first = arena.take(8_KiB);
  const auto second = arena.take(8_KiB);
  ASSERT_TRUE(first && second);
  EXPECT_GE(*second, *first + 3 * 4096) << "no guard granule between them";
  arena.set_owner(*first, 8_KiB, 0);
  arena.set_owner(*second, 8_KiB, 7);
  EXPECT_EQ(arena.index_at(*first), 0U);
  EXPECT_EQ(arena.index_at(*first + 8191), 0U);
  EXPECT_EQ(arena.index_at(*first + 8192), Arena::kNobody);
  EXPECT_EQ(arena.index_at(*second + 1), 7U);
  EXPECT_EQ(arena.index_at(kBase - 1), Arena::kNobody);
  EXPECT_EQ(arena.index_at(kBase + (1 << 20)), Arena::kNobody);
  EXPECT_EQ(arena.index_at(0), Arena::kNobody);
  arena.set_owner(*first, 8_KiB, Arena::kNobody);
  EXPECT_EQ(arena.index_at(*first), Arena::kNobody);
}

TEST(BufferTable, ReusesIdsAndCountsTheirLives) {
  BufferTable table;
  std::vector<BufferId> ids;
  for (int i = 0; i < 600; ++i) ids.push_back(*table.create());
  EXPECT_EQ(table.end(), 600U);
  Buffer* const buffer = &table[ids[599]];
  const std::uint64_t generation = buffer->generation;
  buffer->dirty = true;
  table.destroy(ids[599]);
  EXPECT_EQ(table.create(), ids[599]);
  EXPECT_EQ(&table[ids[599]], buffer);
  EXPECT_FALSE(buffer->dirty);
  EXPECT_GT(buffer->generation, generation);
}

TEST(PagePool, GivesBackExactlyTheSizeAskedForAndDestroysOnDemand) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  auto small = pool.create(4_KiB);
  auto large = pool.create(8_KiB);
  ASSERT_TRUE(small.ok() && large.ok());
  const PageHandle handle = small->handle;
  pool.put(std::move(*small));
  pool.put(std::move(*large));
  EXPECT_EQ(pool.idle_bytes(), 12_KiB);
  EXPECT_FALSE(pool.take(12_KiB));
  auto again = pool.take(4_KiB);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->handle, handle);
  EXPECT_EQ(pool.destroy(*again), Status::kOk);
  auto rest = pool.take_any();
  ASSERT_TRUE(rest);
  EXPECT_EQ(pool.destroy(*rest), Status::kOk);
  EXPECT_TRUE(pool.empty());
  EXPECT_EQ(device.device_bytes(), Bytes{});
  EXPECT_EQ(device.mapped_ranges(), 0U);
}

TEST(PagePool, LeavesNothingBehindWhenMappingFails) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  device.fail(Call::kMap, 1, Status::kDeviceError);
  EXPECT_EQ(pool.create(4_KiB).status(), Status::kDeviceError);
  EXPECT_EQ(device.device_bytes(), Bytes{});
}

TEST(PagePool, DestroysTheRestAtTheSecondTryWhenTheFirstFailedHalfWay) {
  FakeDevice device({});
  const auto windows = device.reserve(1_MiB);
  PagePool pool(device, *windows, 1_MiB, 4_KiB);
  auto page = pool.create(4_KiB);
  ASSERT_TRUE(page.ok());
  device.fail(Call::kDestroyPages, 1, Status::kDeviceError);
  EXPECT_EQ(pool.destroy(*page), Status::kDeviceError);
  EXPECT_EQ(pool.destroy(*page), Status::kOk);
  EXPECT_EQ(device.violations(), std::vector<std::string>{});
}

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

class HostStoreTest : public ::testing::Test {
 protected:
  FakeDevice device_{{}};
  EventPool events_{device_};
  HostStore store_{device_, events_, 16_KiB, std::chrono::milliseconds{100}};
};

TEST_F(HostStoreTest, ReservesUpToItsCapAndNoFurther) {
  EXPECT_TRUE(store_.reserve(12_KiB));
  EXPECT_FALSE(store_.reserve(8_KiB));
  EXPECT_TRUE(store_.reserve(4_KiB));
  store_.unreserve(12_KiB);
  EXPECT_TRUE(store_.reserve(8_KiB));
  EXPECT_FALSE(store_.reserve(Bytes{~std::uint64_t{0}}));
}

TEST_F(HostStoreTest, BacksWithWholeMemoryPagesAndNotPowersOfTwo) {
  EXPECT_EQ(HostStore::backing_of(Bytes{1}), 4_KiB);
  EXPECT_EQ(HostStore::backing_of(20_KiB), 20_KiB);
  EXPECT_EQ(HostStore::backing_of(Bytes{20 * 1024 + 1}), 24_KiB);
}

TEST_F(HostStoreTest, ReusesASlabOnlyWhenItsTransfersAreDone) {
  const StreamHandle stream = device_.program_stream();
  const auto slab = store_.acquire(4_KiB, false);
  ASSERT_TRUE(slab.ok());
  device_.submit_blocking_host_function(stream);
  const auto event = events_.record(stream, 0);
  ASSERT_TRUE(event.ok());
  store_.release(*slab, {*event});
  const auto other = store_.acquire(4_KiB, false);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->data, slab->data);
  device_.release_host_functions();
  device_.drain();
  slab->data[5] = std::byte{9};
  const auto again = store_.acquire(4_KiB, true);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data, slab->data);
  EXPECT_EQ(again->data[5], std::byte{0}) << "asked for zeroes";
  EXPECT_EQ(store_.pinned(), 8_KiB);
}

TEST_F(HostStoreTest, DestroysIdleSlabsOfOtherSizesBeforeItRefuses) {
  for (int i = 0; i < 3; ++i) {
    const auto slab = store_.acquire(12_KiB, false);
    ASSERT_TRUE(slab.ok());
    store_.release(*slab, {});
    const auto other = store_.acquire(16_KiB, false);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(store_.acquire(4_KiB, false).status(), Status::kOutOfHostMemory);
    store_.release(*other, {});
  }
  store_.trim();
  EXPECT_EQ(store_.pinned(), Bytes{});
  EXPECT_EQ(device_.pinned_ranges(), 0U);
}

TEST_F(HostStoreTest, ReportsMemoryThatCannotBePinned) {
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  EXPECT_EQ(store_.acquire(4_KiB, false).status(), Status::kOutOfHostMemory);
  EXPECT_EQ(store_.pinned(), Bytes{});
}

TEST(EventPool, ReusesAHandleOnlyWhenNobodyHoldsItsEvent) {
  FakeDevice device({});
  EventPool events(device);
  const StreamHandle stream = device.program_stream();
  {
    const auto first = events.record(stream, 1);
    const auto second = events.record(stream, 2);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_NE((*first)->handle, (*second)->handle);
  }
  (void)events.record(stream, 3);
  EXPECT_EQ(device.calls(Call::kCreateEvent), 2);
  events.clear();
  EXPECT_EQ(device.live_events(), 0U);
}

class StreamTableTest : public ::testing::Test {
 protected:
  EventRef event(std::uint64_t seq) {
    auto recorded = events_.record(device_.program_stream(), seq);
    return *recorded;
  }
  bool covered(Slot slot, std::uint64_t seq) {
    std::vector<EventRef> found;
    return table_.covered(slot, seq, found);
  }
  void note_shared(StreamHandle stream, std::uint64_t seq, EventRef event) {
    table_.prepare_shared();
    table_.note_use(StreamTable::kShared, stream, seq, std::move(event));
  }

  FakeDevice device_{{.eager = true}};
  EventPool events_{device_};
  StreamTable table_;
};

TEST_F(StreamTableTest, GivesEachStreamASlotAndTheRestTheSharedOne) {
  std::set<Slot> slots;
  for (std::uint64_t i = 0; i < 63; ++i) slots.insert(table_.slot_of(StreamHandle{100 + i}));
  EXPECT_EQ(slots.size(), 63U);
  EXPECT_FALSE(slots.contains(StreamTable::kShared));
  EXPECT_EQ(table_.slot_of(StreamHandle{999}), StreamTable::kShared);
  EXPECT_EQ(table_.slot_of(StreamHandle{100}), 0);
}

TEST_F(StreamTableTest, KnowsWhichUsesAnEventCovers) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  EXPECT_TRUE(covered(slot, 5)) << "nothing was submitted to it";
  table_.note_use(slot, StreamHandle{100}, 3, nullptr);
  EXPECT_FALSE(covered(slot, 3));
  table_.note_event(slot, event(3));
  EXPECT_TRUE(covered(slot, 3));
  EXPECT_TRUE(covered(slot, 9)) << "later uses were on other streams";
  table_.note_use(slot, StreamHandle{100}, 10, nullptr);
  EXPECT_FALSE(covered(slot, 9)) << "an event of before the last use does not tell";
  EXPECT_TRUE(covered(slot, 2));
}

TEST_F(StreamTableTest, RefusesTheSharedSlotWhileOneUseHasNoEvent) {
  note_shared(StreamHandle{500}, 1, event(1));
  EXPECT_TRUE(covered(StreamTable::kShared, 1));
  note_shared(StreamHandle{501}, 2, nullptr);
  EXPECT_FALSE(covered(StreamTable::kShared, 2));
  note_shared(StreamHandle{501}, 3, event(3));
  EXPECT_TRUE(covered(StreamTable::kShared, 3));
}

TEST_F(StreamTableTest, KeepsBothEventsOfTwoThreadsThatUsedOneSharedStreamAtOnce) {
  // Both recorded when nothing had been noted yet: neither event covers the other's use.
  const EventRef one = event(0);
  const EventRef two = event(0);
  note_shared(StreamHandle{500}, 1, two);
  note_shared(StreamHandle{500}, 2, one);
  std::vector<EventRef> found;
  EXPECT_TRUE(table_.covered(StreamTable::kShared, 2, found));
  EXPECT_THAT(found, ::testing::UnorderedElementsAre(one, two));
  // Recorded after both had been noted: it covers them.
  const EventRef last = event(2);
  note_shared(StreamHandle{500}, 3, last);
  found.clear();
  EXPECT_TRUE(table_.covered(StreamTable::kShared, 3, found));
  EXPECT_THAT(found, ::testing::ElementsAre(last));
}

TEST_F(StreamTableTest, RecyclesASlotOnlyWhenItsLastUseIsOver) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  table_.note_use(slot, StreamHandle{100}, 4, nullptr);
  table_.retire(slot);
  EXPECT_EQ(table_.recycle(), 0U) << "no event covers its last use";
  const EventRef end = event(4);
  table_.note_event(slot, end);
  EXPECT_EQ(table_.recycle(), 0U) << "nobody has seen it complete";
  ASSERT_TRUE(*events_.is_complete(end));
  EXPECT_EQ(table_.recycle(), std::uint64_t{1} << slot);
  EXPECT_EQ(table_.recycle(), 0U);
}

TEST_F(StreamTableTest, RecyclesNoSlotThatSomebodyVisits) {
  const Slot slot = table_.slot_of(StreamHandle{100});
  ++table_.entry(slot).visitors;
  table_.retire(slot);
  EXPECT_TRUE(table_.ending(slot));
  EXPECT_EQ(table_.recycle(), 0U);
  --table_.entry(slot).visitors;
  EXPECT_FALSE(table_.ending(slot));
  EXPECT_EQ(table_.recycle(), std::uint64_t{1} << slot);
}

TEST_F(StreamTableTest, TellsAStreamFromALaterOneWithTheSameHandle) {
  const Slot old = table_.slot_of(StreamHandle{100});
  table_.note_use(old, StreamHandle{100}, 1, nullptr);
  table_.retire(old);
  EXPECT_NE(table_.slot_of(StreamHandle{100}), old);
}

}  // namespace
}  // namespace superpipe::testing
