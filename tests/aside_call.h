// A call on a thread of its own, of which a test can tell that it waits.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "tests/hang_limit.h"

namespace superpipe::testing {

/// The kernel's letter for what the thread `id` of this process does, such as 'R' for one that runs
/// or could, and 'S' for one that sleeps; 'X' if there is no such thread any more.
inline char state_of_thread(int id) {
  std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return 'X';
  const auto name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'X' : text[name_end + 2];
}

/// Returns once the thread `id` of this process has ended; fails the test if it does not.
inline void wait_for_end_of_thread(int id) {
  for (const HangGuard guard; state_of_thread(id) != 'X'; std::this_thread::yield()) {
    if (guard.is_over()) {
      ADD_FAILURE() << "the thread does not end";
      return;
    }
  }
}

/// Whether the thread `id` of this process sleeps for longer than a moment: it is found asleep at
/// some looks in a row. On its way it may sleep for moments at locks that others hold.
inline bool is_asleep(int id) {
  constexpr int kLooks = 20;
  for (int look = 0; look < kLooks; ++look) {
    if (state_of_thread(id) != 'S') return false;
  }
  return true;
}

/// Returns once it does; fails the test if the thread ends instead, or goes on.
inline void wait_until_asleep(int id) {
  for (const HangGuard guard; !is_asleep(id); std::this_thread::yield()) {
    if (guard.is_over() || state_of_thread(id) == 'X') {
      ADD_FAILURE() << "the thread does not wait";
      return;
    }
  }
}

/// Runs a body on a thread of its own. A test that expects it to wait asks whether it does, instead
/// of giving it some time in which it might have come to its end.
template <typename Value>
class AsideCall {
 public:
  template <typename Body>
  explicit AsideCall(Body body)
      : value_(std::async(std::launch::async, [this, body = std::move(body)]() mutable {
          thread_ = ::gettid();
          return body();
        })) {}
  AsideCall(const AsideCall&) = delete;
  AsideCall& operator=(const AsideCall&) = delete;

  /// Returns once the body sleeps, or has come to its end. @return whether it sleeps.
  [[nodiscard]] bool waits() {
    while (thread_ == 0 || !is_asleep(thread_)) {
      if (value_.wait_for(std::chrono::seconds{0}) == std::future_status::ready) return false;
      std::this_thread::yield();
    }
    return true;
  }

  /// Waits for the end. @return what the body returned. To be called once.
  Value get() { return value_.get(); }

 private:
  std::atomic<int> thread_{0};
  std::future<Value> value_;
};

}  // namespace superpipe::testing
