#include "residency/streams/event_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace superpipe {

bool any_follows_program(std::span<const EventRef> events) {
  return std::ranges::any_of(events, [](const EventRef& event) {
    return event != nullptr && event->follows_program && !event->is_known();
  });
}

EventPool::EventPool(DeviceMemory& device) : device_(device) {
  idle_.reserve(kSetAside);
  set_aside_.reserve(kSetAside);
  while (set_aside_.size() < kSetAside) {
    set_aside_.push_back(std::make_shared<RecordedEvent>(*this, EventHandle{}, 0));
  }
}

RecordedEvent::~RecordedEvent() {
  if (handle != EventHandle{}) pool.give_back(handle);
}

Result<EventRef> EventPool::record(StreamHandle stream, std::uint64_t seq) {
  return record(prepare(false), stream, seq);
}

Result<EventRef> EventPool::record_now(StreamHandle stream, std::uint64_t seq) {
  return record(prepare(true), stream, seq);
}

Result<EventRef> EventPool::record(Result<EventRef> event, StreamHandle stream, std::uint64_t seq) {
  if (!event.ok()) return event;
  (*event)->seq = seq;
  (*event)->follows_program = true;
  if (const Status status = record(*event, stream); status != Status::kOk) return status;
  return event;
}

Result<EventRef> EventPool::prepare() { return prepare(false); }

Result<EventRef> EventPool::prepare(bool may_take) {
  const auto handle = take_handle(may_take);
  if (!handle.ok()) return handle.status();
  EventRef event = make(*handle, may_take);
  if (event != nullptr) return event;
  give_back(*handle);
  return Status::kOutOfHostMemory;
}

// An event in new memory, or in some that was set aside; null where neither can be had.
EventRef EventPool::make(EventHandle handle, bool may_take) noexcept {
  EventRef event;
  EventRef another;  // to set aside, one at a time
  try {
    event = std::make_shared<RecordedEvent>(*this, handle, 0);
    const std::lock_guard lock(mutex_);
    if (set_aside_.size() == kSetAside) return event;
  } catch (const std::bad_alloc&) {
  }
  try {
    another = std::make_shared<RecordedEvent>(*this, EventHandle{}, 0);
  } catch (const std::bad_alloc&) {
  }
  const std::lock_guard lock(mutex_);
  if (another != nullptr && set_aside_.size() < kSetAside) {
    set_aside_.push_back(std::move(another));
  }
  if (event == nullptr && may_take && !set_aside_.empty()) {
    event = std::move(set_aside_.back());
    set_aside_.pop_back();
    event->handle = handle;
  }
  return event;
}

// What still waits on the handle's previous life has captured that state: recording anew is safe.
Status EventPool::record(const EventRef& event, StreamHandle stream) {
  return device_.record(event->handle, stream);
}

Result<bool> EventPool::is_complete(const EventRef& event) {
  if (event == nullptr || event->complete.load(std::memory_order_acquire)) return true;
  auto complete = device_.is_complete(event->handle);
  if (complete.ok() && *complete) event->complete.store(true, std::memory_order_release);
  return complete;
}

Result<bool> EventPool::all_complete(std::span<const EventRef> events) {
  for (const EventRef& event : events) {
    auto complete = is_complete(event);
    if (!complete.ok() || !*complete) return complete;
  }
  return true;
}

Status EventPool::wait(const EventRef& event, std::chrono::milliseconds limit) {
  if (event == nullptr || event->complete.load(std::memory_order_acquire)) return Status::kOk;
  const Status status = device_.wait(event->handle, limit);
  if (status == Status::kOk) event->complete.store(true, std::memory_order_release);
  return status;
}

Status EventPool::stream_wait(StreamHandle stream, std::span<const EventRef> events) {
  for (const EventRef& event : events) {
    if (event == nullptr || event->complete.load(std::memory_order_acquire)) continue;
    const Status status = device_.stream_wait(stream, event->handle);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

void EventPool::clear() {
  for (;;) {
    EventHandle handle{};
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) return;
      handle = idle_.back();
      idle_.pop_back();
      --handles_;
    }
    (void)device_.destroy_event(handle);
  }
}

// A handle for which there is room in the list of idle ones. Room for those of the events that are
// set aside is made ahead; while no more can be had, nothing else takes it.
Result<EventHandle> EventPool::take_handle(bool may_take) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const EventHandle handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
    if (idle_.capacity() < handles_ + 1 + kSetAside) {
      try {
        idle_.reserve(2 * handles_ + 64);
      } catch (const std::bad_alloc&) {
        if (!may_take || idle_.capacity() <= handles_) return Status::kOutOfHostMemory;
      }
    }
    ++handles_;
  }
  auto created = device_.create_event();
  if (!created.ok()) {
    const std::lock_guard lock(mutex_);
    --handles_;
  }
  return created;
}

void EventPool::give_back(EventHandle handle) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(handle);
}

}  // namespace superpipe
