// Events of ours, shared by everything that has to wait for the same point of a stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "profiler/completion.h"
#include "residency/device_memory.h"
#include "residency/result.h"

namespace superpipe {

class EventPool;

/// A recorded point of a stream. Its handle returns to the pool with the last reference.
///
/// Immutable except for the completion, which the pool sets when the device said so.
struct RecordedEvent : Completion {
  RecordedEvent(EventPool& owner, EventHandle event, std::uint64_t sequence)
      : pool(owner), handle(event), seq(sequence) {}
  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;
  ~RecordedEvent();

  EventPool& pool;
  EventHandle handle;
  /// The manager's use sequence when it was recorded: every use up to it is covered.
  std::uint64_t seq;
  /// Of a fetch: its number among those of its engine, which end in that order. 0: it is none.
  std::uint64_t fetch = 0;
  /// It comes behind work of the program that was not known to be over when it was enqueued, and
  /// that may wait for the program itself (I7): no thread of the program is to wait for it on the
  /// host. Set before others see the event.
  bool follows_program = false;
  /// Of a digest: what it reads was given to another owner before it was known to have ended. Its
  /// result is of use only if it ended before `overwritten_after` did. Under the manager's mutex.
  bool is_overtaken = false;
  /// That owner touches nothing of what the digest reads before this has completed. Null: at once.
  std::shared_ptr<RecordedEvent> overwritten_after;
};

using EventRef = std::shared_ptr<RecordedEvent>;

/// Whether any of the events is not known to have completed and comes behind work of the program.
[[nodiscard]] bool any_follows_program(std::span<const EventRef> events);

/// Creates, records, queries and recycles events. Thread-safe; calls the device without a lock.
class EventPool {
 public:
  /// `device` must outlive the pool, the pool all its events. Throws std::bad_alloc.
  explicit EventPool(DeviceMemory& device);
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Marks the present end of `stream`, one of the program's. kPerThreadStream: the calling
  /// thread's. @return the device's error, kOutOfHostMemory; nothing is then recorded.
  Result<EventRef> record(StreamHandle stream, std::uint64_t seq);
  /// The same for an end that cannot be marked later: while there is no host memory, the first 32
  /// of them take what was set aside.
  Result<EventRef> record_now(StreamHandle stream, std::uint64_t seq);

  /// An event to be recorded later: had before work is enqueued whose end must be marked, so that
  /// what can fail fails first. @return the device's error, kOutOfHostMemory.
  Result<EventRef> prepare();

  /// Marks the present end of `stream` by `event`. REQUIRES: prepare() gave it, nothing else has
  /// it, and it was not recorded yet. @return the device's error.
  Status record(const EventRef& event, StreamHandle stream);

  /// Whether the event has completed; one device query at most, none once it has.
  Result<bool> is_complete(const EventRef& event);

  /// Whether all have completed. Stops at the first that has not.
  Result<bool> all_complete(std::span<const EventRef> events);

  /// Waits on the device for the event, at most `limit`. @return kTimedOut.
  Status wait(const EventRef& event, std::chrono::milliseconds limit);

  /// Makes later work of `stream` wait for each event that is not known to have completed.
  Status stream_wait(StreamHandle stream, std::span<const EventRef> events);

  /// Destroys the idle handles. REQUIRES: no event is in use any more.
  void clear();

 private:
  friend struct RecordedEvent;
  static constexpr std::size_t kSetAside = 32;

  Result<EventRef> record(Result<EventRef> event, StreamHandle stream, std::uint64_t seq);
  EventRef make(EventHandle handle, bool may_take) noexcept;
  Result<EventRef> prepare(bool may_take);
  Result<EventHandle> take_handle(bool may_take);
  void give_back(EventHandle handle) noexcept;

  DeviceMemory& device_;
  std::mutex mutex_;
  std::vector<EventHandle> idle_;    // has room for all handles: giving one back allocates nothing
  std::size_t handles_ = 0;          // that exist
  std::vector<EventRef> set_aside_;  // without handles
};

}  // namespace superpipe
