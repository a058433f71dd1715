#include "residency/event_pool.h"

namespace superpipe {

RecordedEvent::~RecordedEvent() { pool.give_back(handle); }

Result<EventRef> EventPool::record(StreamHandle stream, std::uint64_t seq) {
  EventHandle handle{};
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      handle = idle_.back();
      idle_.pop_back();
    }
  }
  if (handle == EventHandle{}) {
    const auto created = device_.create_event();
    if (!created.ok()) return created.status();
    handle = *created;
  }
  // Whoever still waits on the handle's previous life has captured that state: recording anew is
  // safe.
  if (const Status status = device_.record(handle, stream); status != Status::kOk) {
    give_back(handle);
    return status;
  }
  return std::make_shared<RecordedEvent>(*this, handle, seq);
}

Status EventPool::prepare() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) return Status::kOk;
  }
  const auto created = device_.create_event();
  if (created.ok()) give_back(*created);
  return created.status();
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
  std::vector<EventHandle> idle;
  {
    const std::lock_guard lock(mutex_);
    idle.swap(idle_);
  }
  for (const EventHandle handle : idle) (void)device_.destroy_event(handle);
}

void EventPool::give_back(EventHandle handle) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(handle);
}

}  // namespace superpipe
