// A thread of superpipe's own: its signals, its ends, and what a fork's child finds of it.
#include "residency/own_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/hang_limit.h"

namespace superpipe::testing {
namespace {

/// What the end of a thread waits for: the thread runs until release().
class Gate {
 public:
  void pass() const { open_.wait(false); }
  void release() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

TEST(OwnThreadTest, RunsItsBodyOnceOnAThreadOfItsOwn) {
  OwnThread thread;
  EXPECT_FALSE(thread.is_started());
  std::thread::id ran_on;
  std::atomic<int> runs{0};
  ASSERT_TRUE(thread.start("test", [&] {
    ran_on = std::this_thread::get_id();
    ++runs;
  }));
  EXPECT_TRUE(thread.is_started());
  thread.join();
  EXPECT_FALSE(thread.is_started());
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(runs, 1);
}

TEST(OwnThreadTest, HasTheNameThatItWasGiven) {
  OwnThread thread;
  std::array<char, 16> name{};
  ASSERT_TRUE(thread.start("superpipe-mover", [&] {
    ASSERT_EQ(pthread_getname_np(pthread_self(), name.data(), name.size()), 0);
  }));
  thread.join();
  EXPECT_STREQ(name.data(), "superpipe-mover");
}

TEST(OwnThreadTest, TakesNoSignalsOfTheProgram) {
  OwnThread thread;
  bool blocked = false;
  ASSERT_TRUE(thread.start("test", [&] {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    blocked = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGTERM) == 1;
  }));
  thread.join();
  EXPECT_TRUE(blocked);
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGUSR1), 0);
}

TEST(OwnThreadTest, OneThatNeverBeganNeedsNoEnd) {
  OwnThread thread;
  EXPECT_TRUE(thread.is_owner());
  EXPECT_TRUE(thread.abandon());
  thread.join();
}

TEST(OwnThreadTest, AbandonTellsThatAThreadWhichEndsIsGone) {
  Gate gate;
  OwnThread thread;
  ASSERT_TRUE(thread.start("test", [&] { gate.pass(); }));
  gate.release();
  EXPECT_TRUE(thread.abandon(kHangLimit));
  EXPECT_FALSE(thread.is_started());
}

TEST(OwnThreadTest, AbandonDoesNotWaitForACallThatDoesNotReturn) {
  // Left behind on purpose: the thread uses it to the process's end.
  static auto* const thread = new OwnThread;
  static auto* const gate = new Gate;
  ASSERT_TRUE(thread->start("test", [] { gate->pass(); }));
  EXPECT_FALSE(thread->abandon());  // would hang if it waited for the end
  EXPECT_FALSE(thread->is_started());
}

TEST(OwnThreadTest, TheChildOfAForkHasNoneAndDoesNotWait) {
  Gate gate;
  OwnThread thread;
  ASSERT_TRUE(thread.start("test", [&] { gate.pass(); }));
  const int child = ::fork();
  if (child == 0) {
    ::alarm(kHangLimit.count());
    const bool owner = thread.is_owner();
    const bool gone = thread.abandon();
    ::_exit(owner || gone || thread.is_started() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(thread.is_started());
  gate.release();
  thread.join();
}

}  // namespace
}  // namespace superpipe::testing
