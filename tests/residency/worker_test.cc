// The worker's thread: when it begins, rests, runs and ends.
#include "residency/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"

namespace superpipe::testing {
namespace {

/// Rounds that the test scripts and counts.
class CountedRounds : public WorkerRounds {
 public:
  explicit CountedRounds(ManagerMutex& mutex) : mutex_(mutex) {}

  bool run() noexcept override REQUIRES(manager_lock) {
    ++count;
    ran_.notify_all();
    return round(count);
  }
  [[nodiscard]] bool is_pending() const override REQUIRES(manager_lock) { return pending; }
  [[nodiscard]] bool is_awaited() const override REQUIRES(manager_lock) { return awaited; }
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override REQUIRES(manager_lock) {
    return rest;
  }

  /// Waits until `wanted` rounds have begun. @return false if they do not within a long time.
  bool wait_for(int wanted) REQUIRES(manager_lock) {
    const HangGuard guard;
    while (count < wanted && !guard.is_over()) {
      mutex_.wait_for(ran_, std::chrono::milliseconds{100});
    }
    return count >= wanted;
  }

  /// What the round of that number does. @return whether anything was done.
  std::function<bool(int)> round = [](int) { return false; };
  bool pending = false;
  bool awaited = false;
  std::chrono::nanoseconds rest = std::chrono::hours{1};
  int count = 0;

 private:
  ManagerMutex& mutex_;
  std::condition_variable ran_;
};

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() { worker_.attach(rounds_); }
  void TearDown() override {
    end();
    worker_.join();
  }

  void end() EXCLUDES(manager_lock) {
    const ManagerLock lock(mutex_);
    worker_.end();
  }

  ManagerMutex mutex_;
  CountedRounds rounds_{mutex_};
  Worker worker_{"test", mutex_, true};
};

TEST_F(WorkerTest, RunsNothingBeforeItIsWoken) {
  end();
  worker_.join();
  EXPECT_TRUE(worker_.abandon());
  EXPECT_EQ(rounds_.count, 0);
}

TEST_F(WorkerTest, RunsARoundOnAThreadOfItsOwnWhenWoken) {
  std::thread::id ran_on;
  rounds_.round = [&](int) {
    ran_on = std::this_thread::get_id();
    return false;
  };
  const ManagerLock lock(mutex_);
  EXPECT_TRUE(worker_.wake());
  ASSERT_TRUE(rounds_.wait_for(1));
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(WorkerTest, GoesOnWithoutARestWhileARoundDoesSomething) {
  rounds_.round = [](int number) { return number < 50; };
  const ManagerLock lock(mutex_);
  EXPECT_TRUE(worker_.wake());
  EXPECT_TRUE(rounds_.wait_for(50));  // the rest would be an hour
}

TEST_F(WorkerTest, LooksAgainByItselfWhileSomethingIsPending) {
  const ManagerLock lock(mutex_);
  rounds_.pending = true;
  EXPECT_TRUE(worker_.wake());
  EXPECT_TRUE(rounds_.wait_for(5));
  rounds_.pending = false;
}

TEST_F(WorkerTest, RestsNoLongerThanItIsTold) {
  const ManagerLock lock(mutex_);
  rounds_.rest = std::chrono::milliseconds{1};
  EXPECT_TRUE(worker_.wake());
  EXPECT_TRUE(rounds_.wait_for(3));
}

TEST_F(WorkerTest, AWakeEndsARest) {
  const ManagerLock lock(mutex_);
  EXPECT_TRUE(worker_.wake());
  ASSERT_TRUE(rounds_.wait_for(1));
  // The round was run under the mutex, so that the thread rests, with the mutex open, by now.
  EXPECT_TRUE(worker_.wake());
  EXPECT_TRUE(rounds_.wait_for(2));
}

TEST_F(WorkerTest, WhoeverOnlyWaitsWakesItIfItWouldNotLookByItself) {
  const ManagerLock lock(mutex_);
  EXPECT_TRUE(worker_.wake_unless_pending());
  ASSERT_TRUE(rounds_.wait_for(1));
  EXPECT_TRUE(worker_.wake_unless_pending());
  EXPECT_TRUE(rounds_.wait_for(2)) << "its rest is an hour";
}

TEST_F(WorkerTest, NoRoundBeginsAfterTheEnd) {
  {
    const ManagerLock lock(mutex_);
    EXPECT_TRUE(worker_.wake());
    ASSERT_TRUE(rounds_.wait_for(1));
    worker_.end();
    EXPECT_TRUE(worker_.wake());
  }
  worker_.join();
  EXPECT_EQ(rounds_.count, 1);
}

// A round opens the mutex, and the end may come then. Its rest would be an hour.
TEST_F(WorkerTest, AnEndThatComesInTheMidstOfARoundIsNotSleptThrough) {
  {
    const ManagerLock lock(mutex_);
    rounds_.round = [this](int) {
      worker_.end();
      return false;
    };
    ASSERT_TRUE(worker_.wake());
    EXPECT_TRUE(rounds_.wait_for(1));
  }
  worker_.join();
}

TEST_F(WorkerTest, AWorkerThatEndedBeforeItBeganRunsNothing) {
  end();
  {
    const ManagerLock lock(mutex_);
    EXPECT_TRUE(worker_.wake());
  }
  worker_.join();
  EXPECT_EQ(rounds_.count, 0);
}

TEST_F(WorkerTest, AbandonTellsThatAThreadWhichEndsIsGone) {
  int thread = 0;
  {
    const ManagerLock lock(mutex_);
    rounds_.round = [&thread](int) {
      thread = ::gettid();
      return false;
    };
    EXPECT_TRUE(worker_.wake());
    ASSERT_TRUE(rounds_.wait_for(1));
  }
  end();
  // From abandon() on it has 0.2 s, of which a busy machine may let nothing come to it.
  wait_for_end_of_thread(thread);
  EXPECT_TRUE(worker_.abandon());
}

TEST(WorkerWithoutAThreadTest, RunsRoundsOnlyWhereItIsAskedTo) {
  ManagerMutex mutex;
  CountedRounds rounds(mutex);
  Worker worker("test", mutex, false);
  worker.attach(rounds);
  rounds.round = [](int number) { return number == 1; };
  const ManagerLock lock(mutex);
  EXPECT_TRUE(worker.wake());
  EXPECT_EQ(rounds.count, 0);
  EXPECT_TRUE(worker.run_once());
  EXPECT_FALSE(worker.run_once());
  EXPECT_EQ(rounds.count, 2);
}

/// Notes what a clock is told, in order.
class NotedClock : public WorkerClock {
 public:
  void wake() noexcept override { notes.emplace_back("wake"); }
  void begin_round() noexcept override { notes.emplace_back("begin"); }
  void end_round(std::chrono::nanoseconds rest) noexcept override {
    notes.push_back("rest " + std::to_string(rest.count()));
  }
  std::vector<std::string> notes;
};

TEST(WorkerWithAClockTest, TellsItOfWakesAndOfTheRestsThatAThreadWouldTake) {
  ManagerMutex mutex;
  CountedRounds rounds(mutex);
  NotedClock clock;
  Worker worker("test", mutex, false, &clock);
  worker.attach(rounds);
  rounds.round = [](int number) { return number == 1; };
  rounds.pending = true;
  rounds.rest = std::chrono::seconds{1};
  const ManagerLock lock(mutex);
  EXPECT_TRUE(worker.wake());
  for (int round = 0; round < 3; ++round) (void)worker.run_once();
  rounds.pending = false;
  (void)worker.run_once();
  rounds.pending = true;
  (void)worker.run_once();
  // After work none; then 20 us, and longer each time; a second where nothing is pending.
  EXPECT_EQ(clock.notes, (std::vector<std::string>{"wake", "begin", "rest 0", "begin", "rest 20000",
                                                   "begin", "rest 25000", "begin",
                                                   "rest 1000000000", "begin", "rest 20000"}));
}

// A launch that waits is told of what a round has changed, and looks; if that woke the worker, it
// would run the next round at once, and so on.
TEST(WorkerWithAClockTest, IsLeftAloneByWhoeverOnlyWaitsWhileItLooksByItself) {
  ManagerMutex mutex;
  CountedRounds rounds(mutex);
  NotedClock clock;
  Worker worker("test", mutex, false, &clock);
  worker.attach(rounds);
  const ManagerLock lock(mutex);
  rounds.pending = true;
  (void)worker.run_once();
  clock.notes.clear();
  for (int look = 0; look < 3; ++look) EXPECT_TRUE(worker.wake_unless_pending());
  EXPECT_EQ(clock.notes, std::vector<std::string>{});
  rounds.pending = false;
  (void)worker.run_once();
  clock.notes.clear();
  EXPECT_TRUE(worker.wake_unless_pending());
  EXPECT_EQ(clock.notes, std::vector<std::string>{"wake"}) << "it would rest for an hour";
}

TEST(WorkerWithAClockTest, LooksMoreOftenWhileThreadsOfTheProgramWait) {
  ManagerMutex mutex;
  CountedRounds rounds(mutex);
  NotedClock clock;
  Worker worker("test", mutex, false, &clock);
  worker.attach(rounds);
  rounds.pending = true;
  const ManagerLock lock(mutex);
  for (int round = 0; round < 20; ++round) (void)worker.run_once();
  EXPECT_EQ(clock.notes.back(), "rest 200000");
  rounds.awaited = true;
  (void)worker.run_once();
  EXPECT_EQ(clock.notes.back(), "rest 50000");
}

}  // namespace
}  // namespace superpipe::testing
