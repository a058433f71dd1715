// Streams: queues of operations, each with a worker thread, on the modelled timeline.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/streams/stream_order.h"

namespace simgpu {

/// Work for a stream.
///
/// `work` runs on the stream's thread at the operation's modelled start, `finish` (may be empty) at
/// its modelled end; both under the fault guard: a SIGSEGV, SIGBUS or AccessFault inside makes the
/// context's error sticky (700) with one line that names `label`; any other exception 719. Neither
/// runs once the context has a sticky error. Reading inputs in `work` and writing outputs in
/// `finish` makes a missing wait a wrong result on either side.
struct Operation {
  std::string label;              ///< e.g. the kernel's name, for the fault line
  Engine engine = Engine::kNone;  ///< which engine it occupies for `duration`
  Nanoseconds duration = 0;       ///< modelled
  Nanoseconds link_read = 0;      ///< of a kernel: for which it also takes the link from the host,
  Nanoseconds link_written = 0;   ///< and the link to the host
  /// Called when all that the operation waits for is settled: changes what is above by what is
  /// mapped then. Empty where the process has no pages on the host.
  std::function<void(Operation&)> plan;
  std::function<void()> work;  ///< at the modelled start
  /// Like `work`, but told the modelled start and end: work that paces itself in between.
  std::function<void(Nanoseconds start, Nanoseconds end)> timed_work;
  std::function<void()> finish;      ///< at the modelled end
  std::vector<CompletionPtr> waits;  ///< what it also waits for, besides the stream's order
  bool host_function = false;     ///< runs program code: starts and ends in real time, no overrun
  bool even_after_error = false;  ///< `work` runs although the context is broken (callbacks)
};

class Stream;
using StreamPtr = std::shared_ptr<Stream>;

/// The context a stream belongs to.
Context& context_of(const Stream& stream);
/// The number of a stream, by which points in its order name it.
std::uint64_t number_of(const Stream& stream);

/// Enqueues `operation`: after all that was enqueued on `stream` before, and, by the rules of the
/// legacy default stream, after (legacy) all work of the context's blocking streams or (blocking
/// stream) all work of the legacy stream. Never waits: await_room() did. Thread-safe. `*mark` (may
/// be null) becomes the operation's place among those of all streams.
/// @return the operation's completion, for synchronous calls and events.
CompletionPtr enqueue(const StreamPtr& stream, Operation operation, StreamMark* mark = nullptr);

/// What is enqueued on `stream` from now on comes after `mark`, and after what `mark` comes after:
/// the caller makes it wait.
void follow(const StreamPtr& stream, const StreamMark& mark);

/// Whether what is enqueued on `stream` from now on comes after `point`: by the order of the stream
/// itself, by the events that it was made to wait for, or by the rules of the legacy stream.
bool comes_after(const StreamPtr& stream, StreamPoint point);

/// Waits while the queue of `stream` is full (SIMGPU_QUEUE_DEPTH). What a driver function does
/// before it enqueues, without holding any lock.
void await_room(const StreamPtr& stream);

/// What must complete before `stream` counts as idle: its own last operation, and for the legacy
/// stream those of all blocking streams.
std::vector<CompletionPtr> pending_of(const StreamPtr& stream);

/// All that was enqueued in `context` and is not complete.
std::vector<CompletionPtr> pending_of(Context& context);

/// Whether everything now on `stream` is complete (for the legacy stream: on all blocking streams
/// of its context too).
bool is_complete(const StreamPtr& stream);

/// Waits until everything now on `stream` is complete (for the legacy stream: as is_complete()).
/// @return the context's sticky error.
CUresult synchronize(const StreamPtr& stream);

/// Waits (in real time) until everything enqueued so far in `context` is complete.
/// @return the sticky error.
CUresult synchronize(Context& context);

}  // namespace simgpu
