// Where linear copies go: to the device, or to the host copy of a buffer that is out.
#include <algorithm>
#include <utility>

#include "residency/residency_impl.h"

namespace superpipe {

Result<CopyRoute> ResidencyManager::Impl::begin_copy(Address address, Bytes size,
                                                     StreamHandle stream, bool synchronous, bool in,
                                                     UseToken& token) try {
  token.count_ = 0;
  const auto capturing = is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  Lock lock(mutex_);
  Use use{{&address, 1}, stream, kNoSlot, in, *capturing, KernelId{}};
  if (!use.capturing) use.slot = slot_of(lock, stream);
  const auto deadline = now() + options_.wait_limit;
  for (;;) {
    const std::uint32_t index = arena_->index_at(address);
    if (index == Arena::kNobody) return Status::kInvalidValue;
    const BufferId id{index};
    Buffer& buffer = buffers_[id];
    const std::uint64_t offset = address - buffer.base.load();
    if (offset > buffer.size.load() || size.count() > buffer.size.load() - offset) {
      return Status::kInvalidValue;
    }
    token.slot_ = use.slot;
    token.host_route_ = false;
    token.writes_ = in;
    token.synchronous_ = synchronous;
    const bool has_pages = buffer.place == Place::kIn || buffer.page.has_value();
    const bool moving = buffer.place == Place::kFetching || buffer.place == Place::kEvicting;
    if (use.capturing || (has_pages && !moving)) {
      collect(use.words, token);
      Status status = Status::kOk;
      if (all_ready(token, use)) {
        pin(token);
        mark_used(token, use);
      } else {
        status = acquire(lock, token, use, Decision{});
      }
      if (status != Status::kOk) return status;
      if (in) policy_.on_host_write(id);
      return CopyRoute{};
    }
    if (!moving) {
      const Status status = begin_host_route(lock, id, stream, synchronous, in, token);
      if (status != Status::kOk) return status;
      if (in) policy_.on_host_write(id);
      return CopyRoute{buffer.slab.data + offset};
    }
    if (!wait_change(lock, deadline)) return Status::kTimedOut;
  }
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

// Gets the host copy of a buffer that is out ready for an operation of the program, and holds off
// transfers of ours until its end.
Status ResidencyManager::Impl::begin_host_route(Lock& lock, BufferId id, StreamHandle stream,
                                                bool synchronous, bool in, UseToken& token) {
  Buffer& buffer = buffers_[id];
  ++buffer.host_pins;
  Status status = Status::kOk;
  const auto deadline = now() + options_.wait_limit;
  while (buffer.slab_busy && status == Status::kOk) {
    if (!wait_change(lock, deadline)) status = Status::kTimedOut;
  }
  if (status == Status::kOk && !buffer.slab) {
    buffer.slab_busy = true;
    status = ensure_slab(lock, buffer, options_.zero_fill);
    buffer.slab_busy = false;
    changed();
  }
  if (status == Status::kOk) {
    // Streams of the program are ordered by the program; what it cannot know of is our write-back.
    // A synchronous copy does not run on a stream: it also waits for earlier operations here.
    std::vector<EventRef> events;
    try {
      if (buffer.write_back != nullptr) events.push_back(buffer.write_back);
      // Its end, and those of others under way, may not fail: they come after the submission.
      buffer.host_operations.reserve(buffer.host_operations.size() + buffer.host_pins);
    } catch (const std::bad_alloc&) {
      status = Status::kOutOfHostMemory;
    }
    if (synchronous && status == Status::kOk) {
      status = resolve_host_operations(lock, buffer, !in, events);
    }
    if (status == Status::kOk && !events.empty()) {
      const Unlocked unlocked(lock);
      if (synchronous) {
        for (const EventRef& event : events) {
          if (status == Status::kOk) status = events_.wait(event, options_.wait_limit);
        }
      } else {
        const auto complete = events_.all_complete(events);
        status = complete.ok() ? Status::kOk : complete.status();
        if (status == Status::kOk && !*complete) status = events_.stream_wait(stream, events);
      }
    }
    if (status != Status::kOk) ++stats_.errors;
  }
  if (status != Status::kOk) {
    --buffer.host_pins;
    changed();
    return status;
  }
  if (in) buffer.fresh = false;
  token.host_route_ = true;
  token.count_ = 1;
  token.inline_[0] = id;
  return Status::kOk;
}

Status ResidencyManager::Impl::pin_forever(std::span<const std::uint64_t> words,
                                           const char* reason) try {
  if (!names_arena(words)) return Status::kOk;
  UseToken token;
  Lock lock(mutex_);
  collect(words, token);
  if (token.count_ == 0) return Status::kOk;
  // As on a capturing stream: waited for here, and never moved again.
  const Use use{words, kLegacyStream, kNoSlot, true, true, KernelId{}};
  token.slot_ = kNoSlot;
  token.host_route_ = false;
  if (all_ready(token, use)) return Status::kOk;
  if (moves()) {
    warn_once([&] {
      return std::pair{std::string("pin ") + reason,
                       std::string("buffers stay on the device for good: ") + reason};
    });
  }
  const Status status = acquire(lock, token, use, Decision{});
  if (status == Status::kOk) unpin(token);
  return status;
} catch (const std::bad_alloc&) {
  return Status::kOutOfHostMemory;
}

}  // namespace superpipe
