#include "residency/own_thread.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace superpipe {

OwnThread::OwnThread() : owner_(getpid()) {}

bool OwnThread::start(const char* name, std::function<void()> body) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    thread_ = std::thread([this, name, body = std::move(body)] {
      (void)pthread_setname_np(pthread_self(), name);
      body();
      exited_ = true;
    });
  } catch (const std::exception&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

bool OwnThread::is_owner() const noexcept { return getpid() == owner_; }

void OwnThread::join() {
  if (thread_.joinable()) thread_.join();
}

bool OwnThread::abandon(std::chrono::milliseconds patience) noexcept {
  if (!thread_.joinable()) return true;
  if (!is_owner()) {
    thread_.detach();
    return false;
  }
  for (auto left = patience; left.count() > 0 && !exited_; --left) usleep(1000);
  if (!exited_) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

}  // namespace superpipe
