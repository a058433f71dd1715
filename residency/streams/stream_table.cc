#include "residency/streams/stream_table.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

namespace superpipe {

std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

std::uint64_t thread_of(StreamHandle stream) {
  return stream == kPerThreadStream ? this_thread_number() : 0;
}

namespace {

/// Tells when its thread ends. What the thread does after that, as it destroys other things of its
/// own, is not told from what a thread does that never ends.
class ThreadEnd {
 public:
  ThreadEnd() {
    try {
      flag_ = std::make_shared<std::atomic<bool>>(false);
    } catch (const std::bad_alloc&) {
      // Then the thread's end is not told.
    }
  }
  ~ThreadEnd() {
    if (flag_ != nullptr) flag_->store(true, std::memory_order_release);
    has_passed_ = true;
  }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  /// Of the calling thread; null if it is about to end, or could not be watched.
  static std::shared_ptr<const std::atomic<bool>> of_this_thread() {
    if (has_passed_) return nullptr;
    thread_local const ThreadEnd end;
    return end.flag_;
  }

 private:
  static constinit thread_local bool has_passed_;
  std::shared_ptr<std::atomic<bool>> flag_;
};

constinit thread_local bool ThreadEnd::has_passed_ = false;

bool has_ended(const StreamTable::Entry& entry) {
  return entry.has_ended != nullptr && entry.has_ended->load(std::memory_order_acquire);
}

bool is_complete(const EventRef& event) {
  return event != nullptr && event->complete.load(std::memory_order_acquire);
}

}  // namespace

Slot StreamTable::slot_of(StreamHandle stream) {
  if (const auto known = find(stream)) return *known;
  Slot unused = kShared;
  for (Slot i = 0; i < end_ && unused == kShared; ++i) {
    if (!entries_[i].used) unused = i;
  }
  if (unused == kShared && end_ < kShared) unused = end_++;
  if (unused == kShared) {
    has_shared_ = true;
    return kShared;
  }
  entries_[unused] = Entry{};
  entries_[unused].stream = stream;
  entries_[unused].thread = thread_of(stream);
  if (stream == kPerThreadStream) entries_[unused].has_ended = ThreadEnd::of_this_thread();
  entries_[unused].awaited.reserve(kMostAwaited);
  entries_[unused].used = true;
  return unused;
}

std::optional<Slot> StreamTable::find(StreamHandle stream) const {
  const std::uint64_t thread = thread_of(stream);
  for (Slot i = 0; i < end_; ++i) {
    const Entry& entry = entries_[i];
    if (!entry.used || entry.retired || entry.stream != stream || entry.thread != thread) continue;
    // What a thread does at its very end has another slot than what it did before.
    if (thread == 0 || !has_ended(entry)) return i;
  }
  return std::nullopt;
}

void StreamTable::note_use(Slot slot, StreamHandle stream, std::uint64_t seq,
                           EventRef event) noexcept {
  entries_[slot].last_use = seq;
  if (slot != kShared) {
    if (event != nullptr) note_event(slot, std::move(event));
    return;
  }
  shared_.note({stream, thread_of(stream), seq, std::move(event)});
}

bool StreamTable::covered(Slot slot, std::uint64_t seq, std::vector<EventRef>& events) const {
  const Entry& entry = entries_[slot];
  // A stream whose last use is older than what is asked for is covered by an older event as well.
  const std::uint64_t needed = std::min(seq, entry.last_use);
  if (needed <= entry.completed) return true;
  for (const EventRef& awaited : entry.awaited) {
    if (awaited->seq < needed) continue;
    events.push_back(awaited);  // recorded earlier than the latest
    return true;
  }
  if (entry.latest == nullptr || entry.latest->seq < needed) return false;
  events.push_back(entry.latest);
  return true;
}

void StreamTable::note_event(Slot slot, EventRef event) noexcept {
  Entry& entry = entries_[slot];
  if (entry.latest == nullptr || entry.latest->seq < event->seq) entry.latest = std::move(event);
}

void StreamTable::await_latest(Slot slot) noexcept {
  Entry& entry = entries_[slot];
  const bool is_newer = entry.latest != nullptr && entry.latest->seq > awaited_to(slot);
  if (!is_newer || entry.awaited.size() >= kMostAwaited) return;
  entry.awaited.push_back(entry.latest);
  entry.unawaited = {};
}

void StreamTable::retire_ended() noexcept {
  for (Slot i = 0; i < end_; ++i) {
    if (entries_[i].used && has_ended(entries_[i])) entries_[i].retired = true;
  }
}

std::uint64_t StreamTable::recycle() {
  std::uint64_t freed = 0;
  for (Slot i = 0; i < end_; ++i) {
    Entry& entry = entries_[i];
    if (!entry.used || !entry.retired || entry.visitors > 0) continue;
    const bool quiet =
        entry.last_use == 0 || (is_complete(entry.latest) && entry.latest->seq >= entry.last_use);
    if (!quiet) continue;
    entry = Entry{};
    freed |= std::uint64_t{1} << i;
  }
  return freed;
}

}  // namespace superpipe
