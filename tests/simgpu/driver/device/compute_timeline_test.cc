#include "tools/simgpu/driver/device/compute_timeline.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/hang_limit.h"

namespace simgpu {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;

TEST(ComputeTimeline, GivesEachRequestTheEngineThatIsFreeFirst) {
  ComputeTimeline two{2};
  const Nanoseconds now = now_ns();
  EXPECT_EQ(two.reserve(now, kMillisecond, 0), now);
  EXPECT_EQ(two.reserve(now, 3 * kMillisecond, 0), now);
  EXPECT_EQ(two.reserve(now, kMillisecond, 0), now + kMillisecond);
  EXPECT_EQ(two.reserve(now, kMillisecond, 0), now + 2 * kMillisecond);
}

TEST(ComputeTimeline, ServesTheGreatestPriorityFirstAndEqualOnesInTurn) {
  const Nanoseconds busy = 100 * kMillisecond;
  // On a busy machine the engine may be free before all of them wait for it: then again.
  const superpipe::testing::HangGuard guard;
  for (bool all_waited = false; !all_waited;) {
    ASSERT_FALSE(guard.is_over());
    ComputeTimeline one{1};
    const Nanoseconds begin = now_ns();
    ASSERT_EQ(one.reserve(begin, busy, 0), begin);
    Nanoseconds starts[3]{};
    const int priorities[3]{0, 0, -5};
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < 3; ++index) {
      threads.emplace_back(
          [&, index] { starts[index] = one.reserve(begin, kMillisecond, priorities[index]); });
      while (one.waiting() != index + 1 && now_ns() < begin + busy) std::this_thread::yield();
    }
    all_waited = one.waiting() == 3;
    for (std::thread& thread : threads) thread.join();
    if (!all_waited) continue;
    EXPECT_EQ(starts[2], begin + busy);
    EXPECT_EQ(starts[0], begin + busy + kMillisecond);
    EXPECT_EQ(starts[1], begin + busy + 2 * kMillisecond);
  }
}

TEST(ComputeTimeline, LatenessMovesWhatComesNext) {
  ComputeTimeline one{1};
  const Nanoseconds now = now_ns();
  EXPECT_EQ(one.reserve(now, kMillisecond, 0), now);
  one.push_back(now + kMillisecond, now + 5 * kMillisecond);
  EXPECT_EQ(one.reserve(now, kMillisecond, 0), now + 5 * kMillisecond);
}

}  // namespace
}  // namespace simgpu
