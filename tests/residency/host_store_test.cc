// Pinned host memory within its cap.
#include "residency/host/host_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

using ::testing::IsEmpty;

class HostStoreTest : public ::testing::Test {
 protected:
  FakeDevice device_{{}};
  EventPool events_{device_};
  HostStore store_{device_, events_, {16_KiB}, std::chrono::milliseconds{100}};
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

TEST_F(HostStoreTest, WaitsForNoTransferOfASlabThatIsInItsWay) {
  const StreamHandle stream = device_.program_stream();
  const auto slab = store_.acquire(12_KiB, false, HostStore::User::kProgram);
  ASSERT_TRUE(slab.ok());
  device_.submit_blocking_host_function(stream);
  const auto event = events_.record(stream, 0);
  ASSERT_TRUE(event.ok());
  store_.release(*slab, {*event});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(store_.acquire(8_KiB, false).status(), Status::kNotYet);
  }
  EXPECT_EQ(device_.calls(Call::kWait), 0);
  EXPECT_EQ(store_.pinned(), 12_KiB);
  EXPECT_THAT(store_.needed_for_evictions(), IsEmpty()) << "nobody got one";
  EXPECT_EQ(store_.lacking(), std::nullopt);
  EXPECT_EQ(store_.acquire(20_KiB, false).status(), Status::kOutOfHostMemory)
      << "there will never be so much";
  device_.release_host_functions();
  device_.drain();
  EXPECT_TRUE(store_.acquire(8_KiB, false).ok());
  EXPECT_EQ(store_.pinned(), 8_KiB);
}

TEST_F(HostStoreTest, WhoAsksAboutIdleSlabsHoldsUpOthersNoLongerThanTheWaitLimit) {
  const auto slab = store_.acquire(4_KiB, false);
  const auto event = events_.record(device_.program_stream(), 0);
  ASSERT_TRUE(slab.ok() && event.ok());
  store_.release(*slab, {*event});
  std::latch asks{1};
  std::latch may_go_on{1};
  device_.on_call = [&](Call call) {
    if (call != Call::kIsComplete) return;
    asks.count_down();
    may_go_on.wait();
  };
  std::thread stuck([&] { EXPECT_TRUE(store_.acquire(4_KiB, false).ok()); });
  asks.wait();
  auto other =
      std::async(std::launch::async, [&] { return store_.acquire(8_KiB, false).status(); });
  EXPECT_EQ(other.wait_for(kHangLimit), std::future_status::ready);
  may_go_on.count_down();
  stuck.join();
  EXPECT_EQ(other.get(), Status::kOk);
  device_.on_call = nullptr;
}

/// A cap that leaves room for what is stocked.
class StockedStoreTest : public HostStoreTest {
 protected:
  /// So many slabs of 4 KiB in use, which are all of one size.
  void use(int slabs) {
    for (int i = 0; i < slabs; ++i) ASSERT_TRUE(store_.acquire(4_KiB, false).ok());
  }
  [[nodiscard]] int pins() const { return device_.calls(Call::kPin); }

  HostStore store_{device_, events_, {64_KiB}, std::chrono::milliseconds{100}};
};

TEST_F(StockedStoreTest, LacksASlabOfASizeThatIsAskedForAgain) {
  use(1);
  EXPECT_EQ(store_.lacking(), std::nullopt) << "it may have been the only one";
  use(1);
  EXPECT_EQ(store_.lacking(), 4_KiB);
  ASSERT_TRUE(store_.acquire(8_KiB, false).ok());
  EXPECT_EQ(store_.lacking(), 4_KiB);
}

TEST_F(StockedStoreTest, WhatIsStockedIsPinnedBeforeItIsAskedFor) {
  use(4);
  EXPECT_FALSE(store_.has_stock(4_KiB));
  ASSERT_TRUE(store_.stock(4_KiB));
  EXPECT_TRUE(store_.has_stock(4_KiB));
  EXPECT_FALSE(store_.has_stock(8_KiB));
  EXPECT_EQ(store_.lacking(), std::nullopt);
  EXPECT_EQ(store_.pinned(), 20_KiB);
  const int before = pins();
  use(1);
  EXPECT_EQ(pins(), before);
  EXPECT_FALSE(store_.has_stock(4_KiB));
  EXPECT_EQ(store_.pinned(), 20_KiB);
  EXPECT_EQ(store_.lacking(), 4_KiB) << "the next one";
}

TEST_F(StockedStoreTest, StocksOneOfASizeAndLittleBesideWhatIsInUse) {
  use(3);
  EXPECT_FALSE(store_.stock(4_KiB)) << "a third";
  use(1);
  EXPECT_TRUE(store_.stock(4_KiB));
  EXPECT_FALSE(store_.stock(4_KiB)) << "one is idle";
  EXPECT_FALSE(store_.stock(8_KiB)) << "three quarters";
  EXPECT_EQ(store_.pinned(), 20_KiB);
}

TEST_F(StockedStoreTest, IdleSlabsOfSizesThatNobodyAsksForLeaveRoomForAStock) {
  const auto use_and_release = [&](Bytes size) {
    const auto slab = store_.acquire(size, false);
    ASSERT_TRUE(slab.ok());
    store_.release(*slab, {});
  };
  use_and_release(8_KiB);
  use(5);
  EXPECT_FALSE(store_.stock(4_KiB)) << "somebody may want that of 8 KiB";
  for (int i = 0; i < 10; ++i) use_and_release(4_KiB);
  use(1);
  EXPECT_TRUE(store_.stock(4_KiB)) << "none of the latest sixteen";
  EXPECT_EQ(store_.pinned(), 36_KiB) << "it is idle still";
}

TEST_F(StockedStoreTest, StocksNothingInRoomThatIsReserved) {
  ASSERT_TRUE(store_.reserve(60_KiB));
  use(8);
  EXPECT_TRUE(store_.stock(4_KiB));
  use(1);
  ASSERT_TRUE(store_.reserve(4_KiB));
  EXPECT_FALSE(store_.stock(4_KiB));
  EXPECT_EQ(store_.pinned(), 36_KiB);
}

TEST_F(StockedStoreTest, WhatIsStockedGivesWayToSlabsOfOtherSizes) {
  use(14);
  ASSERT_TRUE(store_.stock(4_KiB));
  EXPECT_TRUE(store_.acquire(8_KiB, false).ok());
  EXPECT_EQ(store_.pinned(), 64_KiB);
}

TEST_F(StockedStoreTest, AStockThatCannotBePinnedCountsForNothingAndIsTheLast) {
  use(4);
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  EXPECT_FALSE(store_.stock(4_KiB));
  EXPECT_EQ(store_.pinned(), 16_KiB);
  use(1);
  EXPECT_FALSE(store_.stock(4_KiB));
  EXPECT_EQ(store_.pinned(), 20_KiB);
}

/// A device that takes a while for one pin.
class SlowDevice : public FakeDevice {
 public:
  SlowDevice() : FakeDevice({}) {}
  Status pin(void* host, Bytes size) override {
    if (pins_before_slow_-- == 0) {
      slow_begun.count_down();
      slow_may_end.wait();
    }
    return FakeDevice::pin(host, size);
  }
  std::latch slow_begun{1};
  std::latch slow_may_end{1};

 private:
  std::atomic<int> pins_before_slow_ = 4;
};

/// Evictions are expected to need two slabs of 4 KiB and, between them, one of 8 KiB.
class ExpectingStoreTest : public StockedStoreTest {
 protected:
  ExpectingStoreTest() { store_.expect(std::vector{4_KiB, 8_KiB, 4_KiB}); }
  /// Stocks what is lacking until nothing is. @return the sizes.
  std::vector<Bytes> stock_all() {
    std::vector<Bytes> sizes;
    while (const auto size = store_.lacking()) {
      sizes.push_back(*size);
      if (!store_.stock(*size)) break;
    }
    return sizes;
  }
};

TEST_F(ExpectingStoreTest, LacksWhatIsExpectedInItsOrder) {
  EXPECT_EQ(stock_all(), (std::vector{4_KiB, 8_KiB, 4_KiB}));
  EXPECT_EQ(pins(), 3);
  EXPECT_EQ(store_.pinned(), 16_KiB);
}

TEST_F(ExpectingStoreTest, OnlyEvictionsGetIt) {
  (void)stock_all();
  ASSERT_TRUE(store_.acquire(8_KiB, false, HostStore::User::kProgram).ok());
  EXPECT_EQ(pins(), 4) << "the program's own";
  ASSERT_TRUE(store_.acquire(8_KiB, false).ok());
  EXPECT_EQ(pins(), 4);
}

TEST_F(ExpectingStoreTest, WhatAnEvictionPinnedItselfIsNotPinnedAgain) {
  ASSERT_TRUE(store_.acquire(4_KiB, false).ok());
  ASSERT_TRUE(store_.acquire(4_KiB, false, HostStore::User::kProgram).ok());
  EXPECT_EQ(stock_all(), (std::vector{8_KiB, 4_KiB, 4_KiB})) << "the last one as ever";
}

TEST_F(ExpectingStoreTest, ServesEverybodyOnceNothingIsExpected) {
  (void)stock_all();
  store_.stop_expecting();
  ASSERT_TRUE(store_.acquire(8_KiB, false, HostStore::User::kProgram).ok());
  EXPECT_EQ(pins(), 3);
  EXPECT_EQ(store_.lacking(), std::nullopt);
}

TEST_F(ExpectingStoreTest, IsNoStockForTheProgram) {
  (void)stock_all();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(store_.acquire(4_KiB, false, HostStore::User::kProgram).ok());
  }
  EXPECT_EQ(store_.lacking(), 4_KiB);
  EXPECT_TRUE(store_.stock(4_KiB)) << "those that are idle are for others";
}

TEST_F(ExpectingStoreTest, GivesWayToWhatIsReserved) {
  ASSERT_TRUE(store_.reserve(60_KiB));
  EXPECT_EQ(stock_all(), (std::vector{4_KiB, 8_KiB}));
  EXPECT_EQ(pins(), 1);
  EXPECT_EQ(store_.lacking(), std::nullopt) << "nor will there be room for the others";
}

TEST_F(StockedStoreTest, WhatAnEvictionTakesFromTheUsualStockIsNotedAsNew) {
  use(4);
  ASSERT_TRUE(store_.stock(4_KiB));
  const auto slab = store_.acquire(4_KiB, false);
  ASSERT_TRUE(slab.ok());
  store_.release(*slab, {});
  ASSERT_TRUE(store_.acquire(4_KiB, false).ok());
  EXPECT_EQ(pins(), 5);
  EXPECT_EQ(store_.needed_for_evictions().size(), 5U) << "four pins, one from the stock";
}

TEST_F(ExpectingStoreTest, NotesWhatEvictionsNeedAnew) {
  const auto slab = store_.acquire(4_KiB, false);
  ASSERT_TRUE(slab.ok());
  (void)stock_all();
  ASSERT_TRUE(store_.acquire(8_KiB, false).ok());
  store_.release(*slab, {});
  ASSERT_TRUE(store_.acquire(4_KiB, false).ok());
  ASSERT_TRUE(store_.acquire(8_KiB, false, HostStore::User::kProgram).ok());
  EXPECT_EQ(store_.needed_for_evictions(), (std::vector{4_KiB, 8_KiB}));
}

/// Four slabs of 4 KiB in use, and a thread that is stocking a fifth.
class WhileStockingTest : public ::testing::Test {
 protected:
  explicit WhileStockingTest(Bytes cap = 64_KiB) : store_(device_, events_, {cap}, kHangLimit) {}
  void SetUp() override {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(store_.acquire(4_KiB, false).ok());
    stocker_ = std::thread([this] { EXPECT_TRUE(store_.stock(4_KiB)); });
    device_.slow_begun.wait();
  }
  /// Acquires a slab of `size`, which has to wait until the fifth is there.
  void acquire_behind(Bytes size) {
    AsideCall<bool> acquired([&] { return store_.acquire(size, false).ok(); });
    EXPECT_TRUE(acquired.waits());
    device_.slow_may_end.count_down();
    stocker_.join();
    EXPECT_TRUE(acquired.get());
  }

  SlowDevice device_;
  EventPool events_{device_};
  HostStore store_;
  std::thread stocker_;
};

TEST_F(WhileStockingTest, WhoNeedsThatSlabWaitsForIt) {
  acquire_behind(4_KiB);
  EXPECT_EQ(store_.pinned(), 20_KiB) << "one for both";
}

/// A cap that has no room for more beside what is being stocked.
class WhileStockingAtTheCapTest : public WhileStockingTest {
 protected:
  WhileStockingAtTheCapTest() : WhileStockingTest(24_KiB) {}
};

TEST_F(WhileStockingAtTheCapTest, WhoNeedsItsRoomWaitsForItToo) {
  acquire_behind(8_KiB);
  EXPECT_EQ(store_.pinned(), 24_KiB) << "what was stocked has given way";
}

/// A store with a clock that stands still, but when the test lets time pass.
class IdleStoreTest : public HostStoreTest {
 protected:
  static constexpr std::chrono::seconds kPatience =
      std::chrono::duration_cast<std::chrono::seconds>(IdlePatience::kShortest);

  Slab acquire(Bytes size = 4_KiB) {
    const auto slab = store_.acquire(size, false);
    EXPECT_TRUE(slab.ok());
    return slab.ok() ? *slab : Slab{};
  }
  /// Unpins all that has expired. @return how many slabs that were.
  int unpin() {
    int unpinned = 0;
    while (store_.unpin_expired()) ++unpinned;
    return unpinned;
  }
  [[nodiscard]] int pins() const { return device_.calls(Call::kPin); }

  HostStore::Clock::time_point now_{std::chrono::hours{1}};
  HostStore store_{
      device_, events_, {64_KiB}, std::chrono::milliseconds{100}, nullptr, [this] { return now_; }};
};

TEST_F(IdleStoreTest, UnpinsOneByOneWhatNobodyHasTakenForLong) {
  const Slab slabs[] = {acquire(), acquire(), acquire()};
  EXPECT_EQ(store_.next_expiry(), std::nullopt) << "none is idle";
  store_.release(slabs[0], {});
  store_.release(slabs[1], {});
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience);
  now_ += kPatience - std::chrono::milliseconds{1};
  EXPECT_FALSE(store_.unpin_expired());
  now_ += std::chrono::milliseconds{1};
  EXPECT_TRUE(store_.unpin_expired());
  EXPECT_EQ(store_.pinned(), 8_KiB);
  EXPECT_TRUE(store_.unpin_expired());
  EXPECT_FALSE(store_.unpin_expired()) << "the third one is in use";
  EXPECT_EQ(store_.pinned(), 4_KiB);
  EXPECT_EQ(device_.pinned_ranges(), 1U);
  EXPECT_EQ(store_.next_expiry(), std::nullopt);
}

TEST_F(IdleStoreTest, LeavesTheSlabsThatAreTakenInTurn) {
  const Slab slabs[] = {acquire(), acquire()};
  store_.release(slabs[0], {});
  store_.release(slabs[1], {});
  for (int i = 0; i < 10; ++i) {
    now_ += kPatience / 2;
    (void)unpin();
    store_.release(acquire(), {});
  }
  EXPECT_EQ(store_.pinned(), 4_KiB) << "one was enough for all";
  EXPECT_EQ(pins(), 2);
}

TEST_F(IdleStoreTest, ASlabThatIsTakenInTimeMakesItNoMorePatient) {
  for (int i = 0; i < 3; ++i) {
    store_.release(acquire(), {});
    now_ += kPatience * 2 / 3;
  }
  store_.release(acquire(), {});
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience);
}

TEST_F(IdleStoreTest, IsPatientForTwiceAsLongAsASlabWasIdleThatCouldNotBeUnpinned) {
  store_.release(acquire(), {});
  now_ += kPatience * 2;
  store_.release(acquire(), {});
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience * 4);
}

TEST_F(IdleStoreTest, ASlabWithATransferUnderWayCountsAsReleasedJustNow) {
  const StreamHandle stream = device_.program_stream();
  const Slab slab = acquire();
  device_.submit_blocking_host_function(stream);
  const auto event = events_.record(stream, 0);
  ASSERT_TRUE(event.ok());
  store_.release(slab, {*event});
  now_ += kPatience;
  EXPECT_FALSE(store_.unpin_expired());
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience);
  device_.release_host_functions();
  device_.drain();
  now_ += kPatience;
  EXPECT_TRUE(store_.unpin_expired());
}

TEST_F(IdleStoreTest, PassesThatTakeLongerThanItsPatiencePinAgainOnce) {
  for (int pass = 0; pass < 10; ++pass) {
    const Slab slabs[] = {acquire(4_KiB), acquire(8_KiB)};
    for (const Slab& slab : slabs) store_.release(slab, {});
    now_ += kPatience * 4;
    (void)unpin();
  }
  EXPECT_EQ(pins(), 4);
  EXPECT_EQ(store_.pinned(), 12_KiB);
  now_ += kPatience * 8;
  EXPECT_EQ(unpin(), 2) << "when the passes are over";
}

TEST_F(IdleStoreTest, WhatIsStockedExpiresAsWell) {
  for (int i = 0; i < 4; ++i) (void)acquire();
  now_ += kPatience;
  ASSERT_TRUE(store_.stock(4_KiB));
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience);
  now_ += kPatience;
  EXPECT_EQ(unpin(), 1);
  EXPECT_EQ(store_.lacking(), std::nullopt) << "not pinned again before somebody asks";
}

TEST_F(IdleStoreTest, WhatCertainEvictionsAloneMayHaveStaysUntilTheyAreNotExpected) {
  store_.expect(std::vector{4_KiB, 8_KiB});
  ASSERT_TRUE(store_.stock(4_KiB));
  now_ += 2 * kPatience;
  EXPECT_FALSE(store_.unpin_expired());
  store_.stop_expecting();
  EXPECT_TRUE(store_.has_unwatched());
  EXPECT_EQ(store_.next_expiry(), now_ + kPatience);
  now_ += kPatience;
  EXPECT_TRUE(store_.unpin_expired());
}

TEST_F(IdleStoreTest, LooksAgainForTheFirstToExpireWhenThatWasTaken) {
  const Slab slabs[] = {acquire(4_KiB), acquire(8_KiB), acquire(12_KiB)};
  for (const Slab& slab : slabs) {
    store_.release(slab, {});
    now_ += std::chrono::seconds{1};
  }
  const auto first = now_ - std::chrono::seconds{3};
  EXPECT_EQ(store_.next_expiry(), first + kPatience);
  (void)acquire(4_KiB);
  now_ = first + kPatience;
  EXPECT_FALSE(store_.unpin_expired()) << "it was taken";
  EXPECT_EQ(store_.next_expiry(), first + std::chrono::seconds{1} + kPatience);
  now_ += std::chrono::seconds{1};
  EXPECT_EQ(unpin(), 1);
  EXPECT_EQ(store_.next_expiry(), first + std::chrono::seconds{2} + kPatience);
}

TEST_F(IdleStoreTest, TellsWhetherAnIdleSlabIsUnwatched) {
  const Slab slabs[] = {acquire(), acquire()};
  EXPECT_FALSE(store_.has_unwatched());
  store_.release(slabs[0], {});
  EXPECT_TRUE(store_.has_unwatched());
  (void)store_.next_expiry();
  store_.release(slabs[1], {});
  EXPECT_FALSE(store_.has_unwatched()) << "that one expires no sooner";
  now_ += kPatience;
  EXPECT_EQ(unpin(), 2);
  (void)store_.next_expiry();
  EXPECT_FALSE(store_.has_unwatched());
  store_.release(acquire(), {});
  EXPECT_TRUE(store_.has_unwatched());
}

TEST_F(IdleStoreTest, ASlabThatCannotBeUnpinnedIsNotTriedAgain) {
  store_.release(acquire(), {});
  device_.fail(Call::kUnpin, 1, Status::kDeviceError);
  now_ += kPatience;
  EXPECT_EQ(unpin(), 1);
  EXPECT_EQ(device_.calls(Call::kUnpin), 1);
  EXPECT_EQ(store_.pinned(), 4_KiB) << "the device has it still";
  EXPECT_EQ(store_.next_expiry(), std::nullopt);
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

/// A store with room for all, of which 72 KiB were ever reserved: twice as much may be of any size.
class LendingStoreTest : public ::testing::Test {
 protected:
  LendingStoreTest() { EXPECT_TRUE(store_.reserve(72_KiB)); }
  Slab acquire(Bytes size, bool zeroed = false) {
    const auto slab = store_.acquire(size, zeroed);
    EXPECT_TRUE(slab.ok());
    return slab.ok() ? *slab : Slab{};
  }
  void release(std::initializer_list<Slab> slabs) {
    for (const Slab& slab : slabs) store_.release(slab, {});
  }

  FakeDevice device_{{}};
  EventPool events_{device_};
  HostStore store_{device_, events_, {1_MiB}, std::chrono::milliseconds{100}};
};

TEST_F(LendingStoreTest, SizesThatNeverComeAgainShareSlabs) {
  HostStore store{device_, events_, {1_GiB}, std::chrono::milliseconds{100}};
  ASSERT_TRUE(store.reserve(8_MiB));
  constexpr std::uint64_t kRounds = 200;
  for (const std::uint64_t step : {1, 511, 37}) {  // descending, ascending, mixed
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const auto slab = store.acquire(4_MiB - 4_KiB * (round * step % 512), false);
      const auto other = store.acquire(4_MiB, false);
      ASSERT_TRUE(slab.ok() && other.ok());
      store.release(*slab, {});
      store.release(*other, {});
    }
  }
  // Of each of the eight sizes from 2 to 4 MiB there is one.
  EXPECT_LE(store.pinned(), 2 * 8_MiB + 8 * 4_MiB);
}

TEST_F(LendingStoreTest, LendsTheSmallestSlabThatServesOnceTwiceWhatWasReservedIsPinned) {
  const Slab large = acquire(72_KiB);
  release({large});
  const Slab small = acquire(68_KiB);
  EXPECT_NE(small.data, large.data) << "there was no need yet";
  release({small});
  const Slab lent = acquire(64_KiB);
  EXPECT_EQ(lent.data, small.data);
  EXPECT_EQ(lent.size, 64_KiB);
  EXPECT_EQ(acquire(68_KiB).data, large.data);
  EXPECT_EQ(store_.pinned(), 140_KiB);
}

TEST_F(LendingStoreTest, ALentSlabServesItsOwnSizeAgain) {
  const Slab large = acquire(72_KiB);
  const Slab small = acquire(68_KiB);
  std::fill_n(small.data, small.size.count(), std::byte{9});
  release({large, small});
  const Slab lent = acquire(64_KiB, true);
  EXPECT_EQ(lent.data, small.data);
  EXPECT_TRUE(std::all_of(lent.data, lent.data + lent.size.count(),
                          [](std::byte byte) { return byte == std::byte{}; }));
  EXPECT_EQ(store_.reachable(), 1_MiB - 4_KiB) << "what is reserved has room beside the slack";
  release({lent});
  EXPECT_EQ(store_.reachable(), 1_MiB);
  EXPECT_EQ(acquire(68_KiB).data, small.data);
  EXPECT_EQ(acquire(72_KiB).data, large.data);
  EXPECT_EQ(store_.pinned(), 140_KiB);
}

TEST_F(LendingStoreTest, LendsNoneThatIsMuchLargerOrInUse) {
  const Slab large = acquire(72_KiB);
  const Slab small = acquire(68_KiB);
  release({large, small});
  release({acquire(60_KiB)});
  EXPECT_EQ(store_.pinned(), 200_KiB);
  const StreamHandle stream = device_.program_stream();
  device_.submit_blocking_host_function(stream);
  const auto event = events_.record(stream, 0);
  ASSERT_TRUE(event.ok());
  store_.release(acquire(68_KiB), {*event});
  EXPECT_EQ(acquire(64_KiB).data, large.data) << "a transfer of the smaller one is under way";
  device_.release_host_functions();
  device_.drain();
}

TEST_F(LendingStoreTest, PinsOneOfEightSizesThatServesThoseBelow) {
  release({acquire(140_KiB)});
  const Slab larger = acquire(116_KiB);
  EXPECT_EQ(larger.size, 116_KiB);
  EXPECT_EQ(store_.pinned(), 140_KiB + 120_KiB);
  release({larger});
  EXPECT_EQ(acquire(112_KiB + 4_KiB).data, larger.data);
  release({larger});
  EXPECT_EQ(acquire(120_KiB).data, larger.data);
}

TEST_F(HostStoreTest, ReportsMemoryThatCannotBePinned) {
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  EXPECT_EQ(store_.acquire(4_KiB, false).status(), Status::kOutOfHostMemory);
  EXPECT_EQ(store_.pinned(), Bytes{});
}

}  // namespace
}  // namespace superpipe::testing
