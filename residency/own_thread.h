// A thread of superpipe's own in the program's process.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "residency/tuning.h"

namespace superpipe {

/// Runs one function on a thread that takes none of the program's signals, and gives it up at the
/// end of the process or in the child of a fork, where it may never end.
///
/// start() and the ends are for one thread at a time.
class OwnThread {
 public:
  OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  /// Starts it under `name`, which debuggers and top show. REQUIRES: it was not started; `name` has
  /// at most 15 characters, for the system takes no longer one, and lives as long as the process.
  /// @return false if there is no thread to be had, or no host memory for one.
  bool start(const char* name, std::function<void()> body) noexcept;
  /// Whether it was started and has not been joined or left to itself since.
  [[nodiscard]] bool is_started() const noexcept { return thread_.joinable(); }
  /// Whether this process, and not a fork's child, has the thread.
  [[nodiscard]] bool is_owner() const noexcept;
  /// Waits for its end, if it was started.
  void join();

  /// Waits for its end for about `patience` at most, and in the child of a fork, which has no such
  /// thread, not at all; then leaves it to itself. REQUIRES: it was told to end.
  /// @return whether it has ended, or never began, so that what it uses may go.
  bool abandon(std::chrono::milliseconds patience = tuning::kThreadEndPatience) noexcept;

 private:
  const int owner_;  // the process that may have the thread
  std::atomic<bool> exited_{false};
  std::thread thread_;
};

}  // namespace superpipe
