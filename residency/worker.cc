#include "residency/worker.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

namespace superpipe {

namespace {

/// How long the worker rests when all it has is events to ask for: short at first, so that the link
/// does not stand idle, then longer, so that the program's own threads are not disturbed.
constexpr std::chrono::microseconds kShortestRest{20};
constexpr std::chrono::microseconds kLongestRest{200};

}  // namespace

Worker::Worker(ManagerMutex& mutex, bool has_thread)
    : mutex_(mutex), has_thread_(has_thread), owner_(getpid()) {}

bool Worker::wake() noexcept {
  if (!has_thread_ || ended_) return true;
  if (thread_.joinable()) {
    work_.notify_one();
    return true;
  }
  // The program's signal handlers must not run on a thread of ours.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    thread_ = std::thread([this] { main(); });
  } catch (const std::exception&) {
    started = false;  // no thread, or no host memory
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void Worker::main() {
  {
    const ManagerLock lock(mutex_);
    std::chrono::nanoseconds rest = kShortestRest;
    while (!ended_) {
      if (rounds_->run()) {
        rest = kShortestRest;
      } else if (rounds_->is_pending()) {
        mutex_.wait_for(work_, rest);
        rest = std::min<std::chrono::nanoseconds>(rest * 5 / 4, kLongestRest);
      } else {
        mutex_.wait_for(work_, rounds_->longest_rest());
        rest = kShortestRest;
      }
    }
  }
  exited_ = true;
}

void Worker::end() noexcept {
  ended_ = true;
  // In the child of a fork nobody waits, and the notification itself could wait for who did.
  if (is_owner()) work_.notify_all();
}

bool Worker::is_owner() const noexcept { return getpid() == owner_; }

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

bool Worker::abandon() noexcept {
  if (!thread_.joinable()) return true;
  if (!is_owner()) {
    thread_.detach();  // the child of a fork has no such thread
    return false;
  }
  for (int i = 0; i < 200 && !exited_; ++i) usleep(1000);
  if (!exited_) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

}  // namespace superpipe
