// Host memory that is pinned ahead of need, and unpinned when nobody needs it any more.
#include "residency/stock_rounds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "residency/uses/buffer_lifetimes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class StockRoundsTest : public UsingCoreTest {
 protected:
  static constexpr auto kPatience =
      std::chrono::duration_cast<std::chrono::seconds>(IdlePatience::kShortest);

  explicit StockRoundsTest(const ResidencyOptions& options = options_of(1024))
      : UsingCoreTest(options) {
    core_.stocker.attach(rounds_);
  }

  /// Buffers of one page that leave the device, each for the first time.
  void evict(int buffers) REQUIRES(manager_lock) {
    for (int i = 0; i < buffers; ++i) {
      const BufferId id = make_fresh(1);
      ASSERT_EQ(mover_.ensure_slab(core_.buffers[id], false), Status::kOk);
    }
  }

  /// Slabs of one page that are idle.
  void leave_idle(int slabs) REQUIRES(manager_lock) {
    std::vector<Slab> pinned;
    for (int i = 0; i < slabs; ++i) {
      const auto slab = core_.host.acquire(kGranule, false);
      ASSERT_TRUE(slab.ok());
      pinned.push_back(*slab);
    }
    for (const Slab& slab : pinned) core_.host.release(slab, {});
    // What the acquisitions made lacking is there.
    while (core_.host.lacking()) (void)core_.stocker.run_once();
  }

  /// Has the stocker look until it finds that nothing was submitted since, and that all that was
  /// has completed. @return the bytes that it has unpinned.
  Bytes look_again(int looks = 3) REQUIRES(manager_lock) {
    const Bytes before = core_.host.pinned();
    for (int i = 0; i < looks && core_.host.pinned() == before; ++i) {
      device_.let_time_pass(StockRounds::kLookInterval);
      EXPECT_FALSE(core_.stocker.run_once()) << "it rests after each look";
      device_.drain();
    }
    return before - core_.host.pinned();
  }

  StockRounds rounds_{core_, evictions_, evictor_, completion_, uses_, digests_};
};

TEST_F(StockRoundsTest, PinsASlabOfASizeThatEvictionsAskForAgainAndAgain) {
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(core_.stocker.run_once()) << "nothing has left";
  evict(1);
  EXPECT_FALSE(core_.stocker.run_once()) << "it may be the only one";
  evict(3);
  EXPECT_TRUE(core_.stocker.run_once());
  EXPECT_EQ(core_.host.pinned(), 5 * kGranule);
  EXPECT_FALSE(core_.stocker.run_once()) << "one is enough";
  const int pins = device_.calls(Call::kPin);
  evict(1);
  EXPECT_EQ(device_.calls(Call::kPin), pins) << "the eviction did not wait for a pin";
  EXPECT_TRUE(core_.stocker.run_once());
  EXPECT_EQ(device_.calls(Call::kPin), pins + 1);
}

TEST_F(StockRoundsTest, GoesOnWithoutHostMemory) {
  const ManagerLock lock(core_.mutex);
  evict(4);
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  EXPECT_FALSE(core_.stocker.run_once());
  EXPECT_EQ(core_.host.pinned(), 4 * kGranule);
  EXPECT_EQ(core_.counters.errors, 0U) << "nobody needed it yet";
}

TEST_F(StockRoundsTest, UnpinsIdleSlabsOneInARound) {
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(rounds_.longest_rest(), std::chrono::hours{1}) << "none is idle";
  leave_idle(2);
  EXPECT_EQ(look_again(), Bytes{}) << "somebody may take them yet";
  EXPECT_GT(rounds_.longest_rest(), kPatience - std::chrono::seconds{4});
  EXPECT_LE(rounds_.longest_rest(), kPatience);
  device_.let_time_pass(kPatience);
  device_.on_call = [&](Call call) NO_THREAD_SAFETY_ANALYSIS {
    if (call != Call::kUnpin) return;
    EXPECT_EQ(core_.mutex.open_sections(), 1) << "held meanwhile";
  };
  EXPECT_EQ(look_again(1), Bytes{}) << "nobody knows what was submitted just before";
  EXPECT_EQ(look_again(1), kGranule);
  EXPECT_EQ(look_again(1), kGranule);
  EXPECT_EQ(core_.host.pinned(), Bytes{});
  EXPECT_EQ(rounds_.longest_rest(), std::chrono::hours{1});
  device_.on_call = nullptr;
}

TEST_F(StockRoundsTest, RestsForManyTimesAsLongAsAnUnpinTook) {
  const ManagerLock lock(core_.mutex);
  leave_idle(2);
  device_.let_time_pass(kPatience);
  (void)look_again(1);
  constexpr std::chrono::milliseconds kTook{100};
  device_.on_call = [&](Call call) {
    if (call == Call::kUnpin) device_.let_time_pass(kTook);
  };
  device_.let_time_pass(StockRounds::kLookInterval);
  (void)core_.stocker.run_once();
  device_.on_call = nullptr;
  ASSERT_EQ(core_.host.pinned(), kGranule);
  EXPECT_GT(rounds_.longest_rest(), 49 * kTook);
  device_.let_time_pass(49 * kTook);
  (void)core_.stocker.run_once();
  EXPECT_EQ(core_.host.pinned(), kGranule) << "somebody has woken it";
  device_.let_time_pass(2 * kTook);
  (void)core_.stocker.run_once();
  EXPECT_EQ(core_.host.pinned(), Bytes{});
}

TEST_F(StockRoundsTest, UnpinsNothingWhileAnEvictionWaits) {
  const ManagerLock lock(core_.mutex);
  leave_idle(1);
  const BufferId victim = make_dirty(1);
  ASSERT_GT(evictions_.request(std::vector{victim}), Bytes{});
  device_.let_time_pass(kPatience);
  EXPECT_EQ(look_again(), Bytes{});
  EXPECT_GT(rounds_.longest_rest(), std::chrono::milliseconds{900}) << "it looks again";
  EXPECT_LE(rounds_.longest_rest(), StockRounds::kLookInterval);
  EXPECT_EQ(device_.calls(Call::kUnpin), 0);
  evictions_.revoke(victim);
  while (evictions_.take_next()) {
  }
  EXPECT_EQ(look_again(), kGranule);
}

TEST_F(StockRoundsTest, UnpinsNothingWhileAFetchWaits) {
  const ManagerLock lock(core_.mutex);
  const BufferId wanted = make_out(1);
  leave_idle(1);
  core_.want({wanted, 0}, Want::kPrefetch);
  device_.let_time_pass(kPatience);
  EXPECT_EQ(look_again(), Bytes{});
  run_rounds();
  EXPECT_EQ(look_again(), kGranule);
}

TEST_F(StockRoundsTest, UnpinsNothingWhileAnOperationHasNotCompleted) {
  const ManagerLock lock(core_.mutex);
  leave_idle(1);
  use(make_dirty(1), device_.program_stream());
  use(make_dirty(1), blocked_stream());
  device_.let_time_pass(kPatience);
  EXPECT_EQ(look_again(10), Bytes{}) << "the driver would wait for it, and all others for that";
  EXPECT_EQ(device_.calls(Call::kUnpin), 0);
  unblock();
  EXPECT_EQ(look_again(), kGranule);
}

TEST_F(StockRoundsTest, UnpinsNothingWhileATransferHasNotCompleted) {
  const ManagerLock lock(core_.mutex);
  leave_idle(1);
  const Page page = make_page(kGranule);
  const auto filled = core_.transfers.fill(page.window, kGranule, std::vector{blocked_event()});
  ASSERT_EQ(filled.status, Status::kOk);
  device_.let_time_pass(kPatience);
  EXPECT_EQ(look_again(), Bytes{});
  unblock();
  EXPECT_EQ(look_again(), kGranule);
}

TEST_F(StockRoundsTest, UnpinsNothingBetweenUses) {
  const ManagerLock lock(core_.mutex);
  leave_idle(1);
  const BufferId used = make_dirty(1);
  const StreamHandle stream = device_.program_stream();
  device_.let_time_pass(kPatience);
  for (int i = 0; i < 5; ++i) {
    use(used, stream);
    (void)completion_.advance();
    device_.drain();
    EXPECT_EQ(look_again(1), Bytes{}) << "another one may come at any time";
  }
  EXPECT_EQ(look_again(), kGranule);
}

TEST_F(StockRoundsTest, UnpinsNothingBetweenLaunchesThatNameNoBuffer) {
  core_.mutex.lock();
  leave_idle(1);
  device_.let_time_pass(kPatience);
  for (int i = 0; i < 5; ++i) {
    core_.mutex.unlock();
    UseToken token;
    EXPECT_EQ(uses_.begin_launch(KernelId{1}, {}, kLegacyStream, token), Status::kOk);
    core_.mutex.lock();
    EXPECT_EQ(look_again(1), Bytes{});
  }
  EXPECT_EQ(look_again(), kGranule);
  core_.mutex.unlock();
}

TEST_F(StockRoundsTest, UnpinsNothingIfWorkBeginsWhileItAsksTheDevice) {
  const ManagerLock lock(core_.mutex);
  leave_idle(1);
  const BufferId used = make_dirty(1);
  const StreamHandle stream = device_.program_stream();
  device_.let_time_pass(kPatience);
  (void)look_again(1);
  bool has_begun = false;
  device_.on_call = [&](Call call) NO_THREAD_SAFETY_ANALYSIS {
    if (call == Call::kIsComplete && !std::exchange(has_begun, true)) use(used, stream);
  };
  const auto filled = core_.transfers.fill(make_page(kGranule).window, kGranule, {});
  ASSERT_EQ(filled.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(look_again(1), Bytes{});
  EXPECT_TRUE(has_begun);
  device_.on_call = nullptr;
  EXPECT_EQ(look_again(), kGranule);
}

/// Counts how often the stocker is woken.
class CountingClock : public WorkerClock {
 public:
  void wake() noexcept override { ++wakes; }
  void begin_round() noexcept override {}
  void end_round(std::chrono::nanoseconds /*rest*/) noexcept override {}
  int wakes = 0;
};

class WakingTheStockerTest : public StockRoundsTest {
 protected:
  WakingTheStockerTest() : StockRoundsTest(with_clock(&clock_)) {}

  static ResidencyOptions with_clock(WorkerClock* clock) {
    ResidencyOptions options = options_of(1024);
    options.stocker_clock = clock;
    return options;
  }
  void free_one_with_a_slab(std::uint64_t pages) EXCLUDES(manager_lock) {
    const BufferId id = out(pages);
    ASSERT_EQ(lifetimes_.free(core_.buffers[id].base, std::nullopt), Status::kOk);
  }

  CountingClock clock_;
  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
};

TEST_F(WakingTheStockerTest, TheFirstFreeThatLeavesASlabIdleWakesIt) {
  const BufferId without = dirty(1);
  ASSERT_EQ(lifetimes_.free(core_.buffers[without].base, std::nullopt), Status::kOk);
  const int before = clock_.wakes;
  free_one_with_a_slab(1);
  EXPECT_EQ(clock_.wakes, before + 1);
}

TEST_F(WakingTheStockerTest, LaterOnesDoNotWhileItRestsUntilThatExpires) {
  free_one_with_a_slab(1);
  {
    const ManagerLock lock(core_.mutex);
    while (core_.stocker.run_once()) {
    }
  }
  const int before = clock_.wakes;
  for (const std::uint64_t pages : {2, 3, 4}) free_one_with_a_slab(pages);
  EXPECT_EQ(clock_.wakes, before);
}

}  // namespace
}  // namespace superpipe::testing
