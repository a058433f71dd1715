// Streams: queues, workers, and how operations take modelled time.
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/memory/pool_table.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {
namespace {

// A stream's thread does real work a little before the modelled moment that the work belongs to,
// its start or its end, and the operation shows as complete at its modelled end. So it does not
// matter that a thread wakes some microseconds late, unless the work ends later than modelled: that
// is an overrun.
//
// How long before the moment the thread gets up:
constexpr Nanoseconds kLead = 5'000;
// A moment that is nearer than this is not slept for, since the sleep would take longer than what
// it waits for. So chains of short kernels run ahead by up to this much, in batches.
constexpr Nanoseconds kNear = 50'000;
// What counts as a short kernel.
constexpr Nanoseconds kShort = 100'000;
// Work that ends later than this after its modelled end is an overrun, and moves the timeline. Less
// is the lateness of a thread, which does not add up.
constexpr Nanoseconds kTolerance = 100'000;
// Of how many other streams a stream remembers what it was made to wait for.
constexpr std::size_t kMostFollowed = 256;

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

void keep_pending(std::vector<CompletionPtr>& list, const CompletionPtr& completion) {
  if (completion != nullptr && !completion->complete()) list.push_back(completion);
}

bool is_blocking(const Stream& stream) { return stream.kind != StreamKind::kNonBlocking; }

/// REQUIRES: the enqueue mutex.
void forget_drained(Context& context) {
  std::erase_if(context.streams, [](const StreamPtr& stream) {
    return stream->closed && (stream->last == nullptr || stream->last->complete());
  });
}

void add_blocking_streams(const Context& context, std::vector<CompletionPtr>& list) {
  for (const StreamPtr& stream : context.streams) {
    if (is_blocking(*stream)) keep_pending(list, stream->last);
  }
}

/// What comes before the next operation of `stream`, besides the stream's own: what its events made
/// it wait for and, of a blocking stream, what the legacy stream has made it wait for.
/// REQUIRES: the enqueue mutex.
std::shared_ptr<const PointsBefore> points_before(const Stream& stream) {
  const StreamPtr& legacy = stream.context.legacy_stream;
  if (legacy == nullptr || !is_blocking(stream)) return stream.followed;
  auto points = std::make_shared<PointsBefore>();
  if (stream.followed != nullptr) *points = *stream.followed;
  const auto add = [&](std::uint64_t number, std::uint64_t position) {
    std::uint64_t& known = (*points)[number];
    known = std::max(known, position);
  };
  add(legacy->number, legacy->position);
  for (const StreamPtr& other : stream.context.streams) {
    if (is_blocking(*other)) add(other->number, other->before_legacy);
  }
  return points;
}

bool is_near(Nanoseconds moment) { return moment - now_ns() <= kNear; }

/// Returns when the work of an operation that starts at `start` may be done.
void wait_for_start(Nanoseconds start) {
  if (!is_near(start)) sleep_until(start - kLead);
}

/// Returns when the last part of `operation`, which ends at `end`, may be done.
void wait_for_end(const Operation& operation, Nanoseconds end) {
  if (operation.engine != Engine::kCompute || operation.duration >= kShort) {
    sleep_until(end - kLead);
  } else if (!is_near(end)) {
    sleep_until_about(end - kNear);
  }
}

}  // namespace

Stream::Stream(Context& owner, StreamKind stream_kind, unsigned stream_flags, int stream_priority)
    : context(owner),
      kind(stream_kind),
      flags(stream_flags),
      priority(stream_priority),
      id(static_cast<std::uint64_t>(now_ns())),
      number(next_object_id()),
      room_(configuration().queue_depth) {}

void Stream::start(const StreamPtr& stream) {
  std::thread{[stream] { stream->work(); }}.detach();
}

void Stream::close() {
  {
    const std::lock_guard lock{context.enqueue_mutex};
    closed = true;
  }
  const std::lock_guard lock{mutex_};
  closing_ = true;
  more_.notify_one();
}

void Stream::work() {
  block_signals();
  use_precise_timer();
  for (;;) {
    std::unique_lock lock{mutex_};
    idle_ = true;
    more_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    idle_ = false;
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    run(item);
  }
}

void Stream::run(Item& item) {
  Operation& operation = item.operation;
  Nanoseconds ready = std::max(item.submitted, end_);
  for (const CompletionPtr& awaited : operation.waits) {
    ready = std::max(ready, awaited->wait_settled());
  }
  const auto is_broken = [&] {
    return context.sticky_error() != CUDA_SUCCESS && !operation.even_after_error;
  };
  if (operation.plan && !is_broken()) operation.plan(operation);
  // The remaining operations of a broken context take no time.
  if (is_broken()) {
    operation.duration = 0;
    operation.link_read = 0;
    operation.link_written = 0;
  }
  Slot slot{ready, ready + operation.duration};
  if (operation.link_read > 0 || operation.link_written > 0) {
    slot = context.device().reserve_with_link(
        ready, {operation.duration, operation.link_read, operation.link_written}, priority);
    operation.duration = slot.end - slot.start;
  } else if (operation.engine != Engine::kNone && operation.duration > 0) {
    slot = context.device().reserve(operation.engine, ready, operation.duration, priority);
  }
  const Nanoseconds start = slot.start;
  Nanoseconds end = slot.end;
  if (operation.duration >= kShort) item.completion->announce(end);
  if (operation.host_function) {
    sleep_until(start);
    std::unique_lock turn{context.host_function_mutex, std::defer_lock};
    if (configuration().serial_host_functions) turn.lock();
    if (!is_broken() && operation.work) operation.work();
    end = std::max(end, now_ns());
  } else {
    if (operation.work || operation.timed_work) {
      wait_for_start(start);
      if (!is_broken() && operation.work) run_guarded(context, operation.label, operation.work);
      if (!is_broken() && operation.timed_work) {
        run_guarded(context, operation.label, [&] { operation.timed_work(start, end); });
      }
    }
    if (operation.finish) {
      wait_for_end(operation, end);
      if (!is_broken()) run_guarded(context, operation.label, operation.finish);
    } else if (operation.duration > 0) {
      // Nothing is left to do, but the next operation must not run far ahead of this one's end.
      wait_for_end(operation, end);
    }
    const Nanoseconds actual = now_ns();
    if (operation.engine != Engine::kNone && actual - end > kTolerance) {
      context.device().overrun(operation.engine, slot, actual);
      end = actual;
    }
  }
  end_ = end;
  // Releases what the operation holds, such as memory that is being freed, before it counts as
  // complete.
  operation = Operation{};
  item.completion->settle(end);
  room_.leave();
}

StreamPtr make_stream(Context& context, StreamKind kind, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>(context, kind, flags, priority);
  {
    const std::lock_guard lock{context.enqueue_mutex};
    forget_drained(context);
    if (kind != StreamKind::kLegacy) context.streams.push_back(stream);
  }
  Stream::start(stream);
  return stream;
}

Context& context_of(const Stream& stream) { return stream.context; }

std::uint64_t number_of(const Stream& stream) { return stream.number; }

CompletionPtr enqueue(const StreamPtr& stream, Operation operation, StreamMark* mark) {
  auto completion = std::make_shared<Completion>();
  Context& context = stream->context;
  // Held until the operation is queued: the order of `last` is the order of the queue.
  const std::lock_guard lock{context.enqueue_mutex};
  if (stream->kind == StreamKind::kLegacy) {
    add_blocking_streams(context, operation.waits);
    for (const StreamPtr& other : context.streams) {
      if (is_blocking(*other)) other->before_legacy = other->position;
    }
  } else if (is_blocking(*stream) && context.legacy_stream != nullptr) {
    keep_pending(operation.waits, context.legacy_stream->last);
  }
  stream->last = completion;
  ++stream->position;
  if (mark != nullptr) {
    *mark = {.point = {stream->number, stream->position}, .before = points_before(*stream)};
  }
  stream->room_.enter();
  std::unique_lock queue_lock{stream->mutex_};
  stream->queue_.push_back({std::move(operation), now_ns(), completion});
  const bool idle = stream->idle_;
  queue_lock.unlock();
  if (idle) stream->more_.notify_one();
  return completion;
}

void follow(const StreamPtr& stream, const StreamMark& mark) {
  if (mark.point.stream == 0) return;
  const std::lock_guard lock{stream->context.enqueue_mutex};
  auto points = std::make_shared<PointsBefore>();
  if (stream->followed != nullptr) *points = *stream->followed;
  const auto add = [&](std::uint64_t number, std::uint64_t position) {
    std::uint64_t& known = (*points)[number];
    known = std::max(known, position);
  };
  if (mark.before != nullptr) {
    for (const auto& [number, position] : *mark.before) add(number, position);
  }
  add(mark.point.stream, mark.point.position);
  // Streams that a program made long ago are probably gone.
  while (points->size() > kMostFollowed) points->erase(points->begin());
  stream->followed = std::move(points);
}

bool comes_after(const StreamPtr& stream, StreamPoint point) {
  Context& context = stream->context;
  const std::lock_guard lock{context.enqueue_mutex};
  const StreamMark next{.point = {stream->number, ~std::uint64_t{0}}, .before = stream->followed};
  if (next.covers(point)) return true;
  if (!is_blocking(*stream)) return false;
  const StreamPtr& legacy = context.legacy_stream;
  if (legacy != nullptr && legacy->number == point.stream) return true;
  return std::any_of(context.streams.begin(), context.streams.end(), [&](const StreamPtr& other) {
    if (other->number != point.stream || !is_blocking(*other)) return false;
    return stream->kind == StreamKind::kLegacy || point.position <= other->before_legacy;
  });
}
void await_room(const StreamPtr& stream) { stream->room_.await(); }

std::vector<CompletionPtr> pending_of(const StreamPtr& stream) {
  std::vector<CompletionPtr> list;
  Context& context = stream->context;
  const std::lock_guard lock{context.enqueue_mutex};
  keep_pending(list, stream->last);
  if (stream->kind == StreamKind::kLegacy) add_blocking_streams(context, list);
  return list;
}

std::vector<CompletionPtr> pending_of(Context& context) {
  std::vector<CompletionPtr> list;
  const std::lock_guard lock{context.enqueue_mutex};
  for (const StreamPtr& stream : context.streams) keep_pending(list, stream->last);
  if (context.legacy_stream != nullptr) keep_pending(list, context.legacy_stream->last);
  return list;
}

bool is_complete(const StreamPtr& stream) { return pending_of(stream).empty(); }

CUresult synchronize(const StreamPtr& stream) {
  for (const CompletionPtr& completion : pending_of(stream)) completion->wait();
  note_synchronisation(stream->context.device(),
                       [&](StreamPoint point) { return comes_after(stream, point); });
  return stream->context.sticky_error();
}

CUresult synchronize(Context& context) {
  for (const CompletionPtr& completion : pending_of(context)) completion->wait();
  note_synchronisation(context.device(), [](StreamPoint) { return true; });
  return context.sticky_error();
}

}  // namespace simgpu
