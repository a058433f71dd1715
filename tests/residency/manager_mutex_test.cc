// The mutex that operations open in their midst.
#include "residency/manager_mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <thread>

#include "tests/hang_limit.h"

namespace superpipe::testing {
namespace {

/// What open_sections() says to somebody who holds the mutex.
int open_sections(ManagerMutex& mutex) {
  const ManagerLock lock(mutex);
  return mutex.open_sections();
}

TEST(ManagerMutex, LetsOthersInWhileASectionIsOpen) {
  ManagerMutex mutex;
  const ManagerLock lock(mutex);
  {
    const Unlocked unlocked(mutex);
    EXPECT_EQ(open_sections(mutex), 1) << "this would hang if the mutex were held";
  }
  EXPECT_EQ(mutex.open_sections(), 0);
}

TEST(ManagerMutex, CountsTheSectionsOfAllThreads) {
  ManagerMutex mutex;
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  std::promise<void> opened;
  std::thread other([&mutex, &opened, end] {
    const ManagerLock lock(mutex);
    const Unlocked unlocked(mutex);
    opened.set_value();
    end.wait();
  });
  opened.get_future().wait();
  EXPECT_EQ(open_sections(mutex), 1);
  {
    const ManagerLock lock(mutex);
    {
      const Unlocked unlocked(mutex);
      EXPECT_EQ(open_sections(mutex), 2);
    }
    EXPECT_EQ(mutex.open_sections(), 1) << "the other thread's is still open";
  }
  may_end.set_value();
  other.join();
  EXPECT_EQ(open_sections(mutex), 0);
}

TEST(ManagerMutex, CountsASectionUntilItHoldsTheMutexAgain) {
  ManagerMutex mutex;
  std::promise<void> opened;
  std::promise<void> may_end;
  std::thread other([&] {
    const ManagerLock lock(mutex);
    const Unlocked unlocked(mutex);
    opened.set_value();
    may_end.get_future().wait();
  });
  opened.get_future().wait();
  {
    const ManagerLock lock(mutex);
    may_end.set_value();
    // Whatever the other thread does now, it cannot go on under the mutex.
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(mutex.open_sections(), 1);
      std::this_thread::yield();
    }
  }
  other.join();
  EXPECT_EQ(open_sections(mutex), 0);
}

TEST(ManagerMutex, LetsOthersInWhileItWaits) {
  ManagerMutex mutex;
  std::condition_variable changed;
  bool done = false;
  const ManagerLock lock(mutex);
  std::thread other([&] {
    {
      const ManagerLock theirs(mutex);
      done = true;
    }
    changed.notify_all();
  });
  // Bounded, so that a wait that keeps the mutex makes the test fail rather than hang.
  const HangGuard guard;
  while (!done && !guard.is_over()) {
    mutex.wait_for(changed, std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(done);
  {
    const Unlocked unlocked(mutex);
    other.join();
  }
}

TEST(ManagerMutex, ComesBackWhenNobodyNotifies) {
  ManagerMutex mutex;
  std::condition_variable never;
  const ManagerLock lock(mutex);
  mutex.wait_for(never, std::chrono::nanoseconds(1));
  EXPECT_EQ(mutex.open_sections(), 0) << "to wait is not to open a section";
}

TEST(ManagerMutex, IsHeldAgainAfterEveryWaitAndEveryOpenSection) {
  constexpr int kTurns = 50;
  ManagerMutex mutex;
  std::condition_variable changed;
  int count = 0;
  // Of two threads that are in here at once, one would lose its increment.
  const auto increment = [&count] {
    const int before = count;
    std::this_thread::yield();
    count = before + 1;
  };
  const auto work = [&] {
    for (int i = 0; i < kTurns; ++i) {
      const ManagerLock lock(mutex);
      mutex.wait_for(changed, std::chrono::microseconds(1));
      increment();
      {
        const Unlocked unlocked(mutex);
        std::this_thread::yield();
      }
      increment();
    }
  };
  std::thread one(work);
  std::thread two(work);
  one.join();
  two.join();
  EXPECT_EQ(count, 4 * kTurns);
}

}  // namespace
}  // namespace superpipe::testing
