// How many operations a stream's queue holds.
#pragma once

#include <condition_variable>
#include <mutex>

namespace simgpu {

/// Counts the operations of one stream that are not complete, and makes callers wait while there
/// are as many as the queue holds. A queue of a real driver holds about 1,000 launches, each stream
/// its own, and a launch then returns when an earlier one has completed.
///
/// Waiting and counting are two steps, so that a caller waits before it takes any lock: threads
/// that come at the same moment exceed the depth by their number. Thread-safe.
class QueueRoom {
 public:
  explicit QueueRoom(unsigned depth) : depth_(depth) {}

  /// Waits until the queue has room. Call it without holding a lock that others need. The
  /// operations in the queue wait only for what was submitted before them, so it ends, unless one
  /// of them is a host function that waits for the caller.
  void await();
  /// An operation enters the queue. Never waits.
  void enter();
  /// An operation is complete.
  void leave();

 private:
  const unsigned depth_;
  std::mutex mutex_;
  std::condition_variable room_;
  unsigned used_ = 0;
  unsigned waiting_ = 0;
};

}  // namespace simgpu
