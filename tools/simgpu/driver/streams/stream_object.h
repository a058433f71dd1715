// The stream object itself, for the files that implement streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "tools/simgpu/driver/streams/queue_room.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// What kind of stream, which decides whom it waits for.
enum class StreamKind { kLegacy, kPerThread, kBlocking, kNonBlocking };

/// A queue of operations with a worker thread. The worker holds a reference, and ends when the
/// stream is closed and empty.
class Stream {
 public:
  Stream(Context& context, StreamKind kind, unsigned flags, int priority);

  /// Starts the worker thread of `stream`.
  static void start(const StreamPtr& stream);
  /// No more work will come: the worker finishes what there is, and ends.
  void close();

  Context& context;
  GreenContext* green = nullptr;  ///< whose it is; null: the context's own. Set as it is made
  const StreamKind kind;
  const unsigned flags;
  const int priority;
  const std::uint64_t id;
  const std::uint64_t number;  ///< which no other stream of the process has had

  /// The completion of what was enqueued last, or null. Under context.enqueue_mutex.
  CompletionPtr last;
  /// @name The stream's place in the order of operations. Under context.enqueue_mutex.
  /// @{
  std::uint64_t position = 0;       ///< operations enqueued so far
  std::uint64_t before_legacy = 0;  ///< how many of them the legacy stream has waited for
  std::shared_ptr<const PointsBefore> followed;  ///< what it was made to wait for, by events
  /// @}
  /// No more work will come. Written under context.enqueue_mutex.
  std::atomic<bool> closed{false};

 private:
  friend CompletionPtr enqueue(const StreamPtr& stream, Operation operation, StreamMark* mark);
  friend void await_room(const StreamPtr& stream);

  struct Item {
    Operation operation;
    Nanoseconds submitted;
    CompletionPtr completion;
  };

  void work();
  void run(Item& item);

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Item> queue_;
  bool closing_ = false;
  bool idle_ = false;    ///< the worker waits for more
  Nanoseconds end_ = 0;  ///< of the last operation; the worker's
  QueueRoom room_;
};

/// A new stream of `context`, which owns it until it is closed and drained.
StreamPtr make_stream(Context& context, StreamKind kind, unsigned flags, int priority);

}  // namespace simgpu
