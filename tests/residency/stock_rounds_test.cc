// Host memory that is pinned ahead of need.
#include "residency/stock_rounds.h"

#include <gtest/gtest.h>

#include "residency/buffer_lifetimes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

class StockRoundsTest : public UsingCoreTest {
 protected:
  StockRoundsTest() : UsingCoreTest(options_of(1024)) { core_.stocker.attach(rounds_); }

  /// Buffers of one page that leave the device, each for the first time.
  void evict(int buffers) REQUIRES(manager_lock) {
    for (int i = 0; i < buffers; ++i) {
      const BufferId id = make_fresh(1);
      ASSERT_EQ(mover_.ensure_slab(core_.buffers[id], false), Status::kOk);
    }
  }

  StockRounds rounds_{core_};
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

}  // namespace
}  // namespace superpipe::testing
