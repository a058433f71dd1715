#include "residency/transfer/stream_marker.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace superpipe {

Slot StreamMarker::slot_of(StreamHandle stream) {
  const Slot slot = core_.streams.slot_of(stream);
  return slot != StreamTable::kShared ? slot : reuse_slot(stream);
}

// All slots are taken: asks whether destroyed streams, and those of threads that have ended, have
// come to their end.
Slot StreamMarker::reuse_slot(StreamHandle stream) {
  core_.streams.retire_ended();
  std::vector<EventRef> ends;
  for (Slot i = 0; i < StreamTable::kShared; ++i) {
    const auto& entry = core_.streams.entry(i);
    if (entry.retired && entry.latest != nullptr) ends.push_back(entry.latest);
  }
  if (!ends.empty()) {
    const Unlocked unlocked(core_.mutex);
    for (const EventRef& end : ends) (void)core_.events.is_complete(end);
  }
  Slot slot = StreamTable::kShared;
  if (const std::uint64_t freed = core_.streams.recycle(); freed != 0) {
    const auto was_freed = [freed](Slot old) { return old < kNoSlot && (freed >> old & 1) != 0; };
    for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
      Buffer& buffer = core_.buffers[BufferId{i}];
      buffer.uses &= ~freed;
      buffer.waited &= ~freed;
      // The slot will be another stream's: what was on the stream that is gone no longer has one.
      if (was_freed(buffer.freed_on)) buffer.freed_on = kNoSlot;
      for (HostOperation& operation : buffer.host.operations) {
        if (was_freed(operation.slot)) operation.slot = kNoSlot;
      }
    }
    slot = core_.streams.slot_of(stream);
  }
  // The end of a use may not fail, because the operation has been submitted by then.
  if (slot == StreamTable::kShared) core_.streams.prepare_shared();
  return slot;
}

void StreamMarker::mark_ends(std::uint64_t slots) {
  struct Marked {
    Slot slot;
    StreamHandle stream;
    EventRef event;
  };
  std::vector<Marked> marked;
  for (Slot slot = 0; slot < StreamTable::kShared; ++slot) {
    if ((slots >> slot & 1) != 0 && core_.streams.recordable(slot)) {
      marked.push_back({slot, core_.streams.entry(slot).stream, nullptr});
    }
  }
  const std::uint64_t seq = core_.seq;
  std::uint64_t failed = 0;
  for (const Marked& one : marked) ++core_.streams.entry(one.slot).visitors;
  {
    const Unlocked unlocked(core_.mutex);
    for (Marked& one : marked) {
      auto event = core_.events.record(one.stream, seq);
      if (event.ok()) {
        one.event = std::move(*event);
      } else if (event.status() != Status::kCapturing) {
        ++failed;
      }  // else what the stream did before cannot be marked now: its buffers stay
    }
  }
  core_.counters.errors += failed;
  for (Marked& one : marked) {
    --core_.streams.entry(one.slot).visitors;
    if (one.event != nullptr) core_.streams.note_event(one.slot, std::move(one.event));
  }
  core_.waits.announce_to_waiters();
}

void StreamMarker::mark_all_ends() noexcept {
  std::uint64_t unmarked = 0;
  for (Slot slot = 0; slot < core_.streams.end(); ++slot) {
    const auto& entry = core_.streams.entry(slot);
    const bool is_marked = entry.latest != nullptr && entry.latest->seq >= entry.last_use;
    if (entry.used && !is_marked) unmarked |= std::uint64_t{1} << slot;
  }
  try {
    if (unmarked != 0) mark_ends(unmarked);
  } catch (const std::bad_alloc&) {
    // Buffers that were used there stay where they are.
  }
}

StreamMarker::OperationEnd StreamMarker::mark_operation(StreamHandle stream, Slot slot) noexcept {
  EventRef event;
  {
    // Uses that other threads submit to the stream from here on may or may not be covered: only
    // those up to now are.
    const std::uint64_t before = core_.seq;
    const Unlocked unlocked(core_.mutex);
    auto recorded = core_.events.record_now(stream, before);
    if (recorded.ok()) event = std::move(*recorded);
  }
  const std::uint64_t seq = ++core_.seq;
  if (event == nullptr) ++core_.counters.errors;
  // A per-thread stream has no other threads, and nothing else has the event yet.
  if (event != nullptr && stream == kPerThreadStream && slot != StreamTable::kShared) {
    event->seq = seq;
  }
  return {seq, std::move(event)};
}

Status StreamMarker::resolve(HostCopy& copy, bool writes_only,
                             std::vector<EventRef>& events) noexcept {
  try {
    events.reserve(events.size() + copy.operations.size());
    std::vector<std::uint64_t> resolved;
    resolved.reserve(copy.operations.size());
    for (;;) {
      // Looked for anew each time: while the mutex is open, the end of an operation with a host
      // route and the end of a stream change the list.
      const auto found = std::find_if(
          copy.operations.begin(), copy.operations.end(), [&](const HostOperation& operation) {
            return std::find(resolved.begin(), resolved.end(), operation.noted) == resolved.end();
          });
      if (found == copy.operations.end()) return Status::kOk;
      const HostOperation operation = *found;
      resolved.push_back(operation.noted);
      if (writes_only && !operation.writes) continue;
      auto end = end_of(operation);
      if (!end.ok()) return end.status();
      if (*end != nullptr) events.push_back(std::move(*end));
    }
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

// The event behind `operation`: its own or, if none could be recorded at the time, a later one of
// its stream. Null: the stream is gone, and all its work was over then.
Result<EventRef> StreamMarker::end_of(const HostOperation& operation) noexcept {
  if (operation.done != nullptr) return operation.done;
  if (operation.slot == kNoSlot) return EventRef{};
  auto& entry = core_.streams.entry(operation.slot);
  const bool shared = operation.slot == StreamTable::kShared;
  if (!shared && entry.latest != nullptr && entry.latest->seq >= operation.noted) {
    return entry.latest;
  }
  // Another thread may record on neither a per-thread stream nor one that is destroyed.
  const bool gone = shared ? operation.stream == StreamHandle{} : entry.retired;
  if (gone || operation.stream == kPerThreadStream) return Status::kDeviceError;
  const std::uint64_t seq = core_.seq;
  ++entry.visitors;
  auto end = [&]() REQUIRES(manager_lock) {
    const Unlocked unlocked(core_.mutex);
    return core_.events.record(operation.stream, seq);
  }();
  --entry.visitors;
  core_.waits.announce_to_waiters();
  if (end.ok() && !shared) core_.streams.note_event(operation.slot, *end);
  return end;
}

void StreamMarker::retire(StreamHandle stream) noexcept {
  // The shared slot may have uses of the stream beside a slot of its own, which it got later.
  const auto own = core_.streams.find(stream);
  const auto is_unmarked = [stream](const HostOperation& operation) {
    return operation.slot == StreamTable::kShared && operation.stream == stream &&
           operation.done == nullptr;
  };
  bool needs_end = core_.streams.shared().lacks_event(stream);
  for (std::uint32_t i = 0; i < core_.buffers.end() && core_.streams.has_shared() && !needs_end;
       ++i) {
    const Buffer& buffer = core_.buffers[BufferId{i}];
    const auto& operations = buffer.host.operations;
    needs_end = buffer.rare->marked.lacks_event(stream) ||
                std::any_of(operations.begin(), operations.end(), is_unmarked);
  }
  if (own) {
    auto& entry = core_.streams.entry(*own);
    const bool marked = entry.latest != nullptr && entry.latest->seq >= entry.last_use;
    needs_end = needs_end || (entry.last_use > 0 && !marked);
    ++entry.visitors;  // this thread: the slot is not to be used again meanwhile
    core_.streams.retire(*own);
  }
  const EventRef end = needs_end ? mark_last_end(stream) : nullptr;
  if (core_.streams.has_shared()) {
    core_.streams.shared().retire(stream, end);
    for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
      core_.buffers[BufferId{i}].rare->marked.retire(stream, end);
    }
  }
  if (needs_end) {
    if (end != nullptr && own) core_.streams.note_event(*own, end);
    for (std::uint32_t i = 0; i < core_.buffers.end() && core_.streams.has_shared(); ++i) {
      for (HostOperation& operation : core_.buffers[BufferId{i}].host.operations) {
        if (!is_unmarked(operation)) continue;
        operation.done = end;
        if (end == nullptr) operation.stream = StreamHandle{};  // its end can be marked no more
      }
    }
    core_.waits.announce();
  }
  // From here on no other thread begins to mark the stream; those that have begun are waited for.
  const auto deadline = core_.now() + core_.options.wait_limit;
  const auto is_visited = [&]() REQUIRES(manager_lock) {
    return (own && core_.streams.entry(*own).visitors > 1) ||
           core_.streams.entry(StreamTable::kShared).visitors > 0;
  };
  while (is_visited() && core_.wait_change(deadline)) {
  }
  if (own) --core_.streams.entry(*own).visitors;
}

// An event behind all that was submitted to `stream`; null if there can be none: buffers that it
// used then stay where they are.
EventRef StreamMarker::mark_last_end(StreamHandle stream) noexcept {
  const std::uint64_t seq = core_.seq;
  EventRef end;
  bool failed = false;
  {
    const Unlocked unlocked(core_.mutex);
    auto recorded = core_.events.record_now(stream, seq);
    if (recorded.ok()) end = std::move(*recorded);
    failed = !recorded.ok() && recorded.status() != Status::kCapturing;
  }
  if (failed) ++core_.counters.errors;
  return end;
}

}  // namespace superpipe
