#include "residency/copy_routes.h"

#include <algorithm>
#include <new>
#include <span>
#include <vector>

namespace superpipe {

namespace {

// Whether a copy has to go to the device: the host has not the newest content of all that it names.
// A piece that is not in place and has a page is one whose eviction failed half-way.
bool is_on_device(std::span<const Piece> pieces) REQUIRES(manager_lock) {
  return std::ranges::any_of(pieces, [](const Piece& piece) REQUIRES(manager_lock) {
    return piece.place == Place::kIn || piece.page.has_value();
  });
}

}  // namespace

Result<CopyRoute> CopyRoutes::begin(Address address, Bytes size, StreamHandle stream,
                                    bool synchronous, bool in, UseToken& token) try {
  token.count_ = 0;
  const auto capturing = streams_.is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  const ManagerLock lock(core_.mutex);
  UseTracker::Use use{{&address, 1}, stream, in, *capturing};
  uses_.prepare(use, token);
  token.synchronous_ = synchronous;
  const auto deadline = core_.now() + core_.options.wait_limit;
  for (;;) {
    const std::uint32_t index = core_.arena->index_at(address);
    if (index == Arena::kNobody) return Status::kInvalidValue;
    const BufferId id{index};
    Buffer& buffer = core_.buffers[id];
    const std::uint64_t offset = address - buffer.base.load();
    if (offset > buffer.size.load() || size.count() > buffer.size.load() - offset) {
      return Status::kInvalidValue;
    }
    const auto pieces = buffer.pieces_at(Bytes{offset}, size);
    const bool is_moving = buffer.moving > 0;
    if (use.capturing || (!is_moving && is_on_device(pieces))) {
      const Status status = uses_.begin(use, token);
      if (status != Status::kOk) return status;
      if (in) core_.policy.on_host_write(id);
      return CopyRoute{};
    }
    if (!is_moving) {
      const Status status = begin_host_route(id, pieces, use, token);
      if (status != Status::kOk) return status;
      if (in) core_.policy.on_host_write(id);
      return CopyRoute{buffer.host.slab.data + offset};
    }
    if (!core_.wait_change(deadline)) return Status::kTimedOut;
  }
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

void CopyRoutes::end(UseToken& token, StreamHandle stream, bool submitted) noexcept {
  // A synchronous copy is done.
  const bool marks = submitted && token.slot_ != kNoSlot && !token.synchronous_;
  const ManagerLock lock(core_.mutex);
  const auto end = streams_.end_operation(stream, token.slot_, marks);
  HostCopy& copy = core_.buffers[token.inline_[0]].host;
  --copy.pins;
  if (marks) {
    copy.note({token.slot_, stream, token.writes_, end.event, end.seq});
    core_.streams.note_use(token.slot_, stream, end.seq, end.event);
  }
  core_.announce_to_waiters();
  core_.wake_worker();
  token.count_ = 0;
}

// Gets the host copy of a buffer that is out ready for an operation of the program, and holds off
// transfers of ours until its end.
Status CopyRoutes::begin_host_route(BufferId id, std::span<const Piece> pieces,
                                    const UseTracker::Use& use, UseToken& token) {
  Buffer& buffer = core_.buffers[id];
  HostCopy& copy = buffer.host;
  ++copy.pins;
  Status status = Status::kOk;
  const auto deadline = core_.now() + core_.options.wait_limit;
  while (copy.is_mapping && status == Status::kOk) {
    if (!core_.wait_change(deadline)) status = Status::kTimedOut;
  }
  if (status == Status::kOk && !copy.slab) {
    copy.is_mapping = true;
    status = mover_.ensure_slab(buffer, core_.options.zero_fill);
    copy.is_mapping = false;
    if (status != Status::kOk) ++core_.counters.errors;
    core_.announce_change();
  }
  if (status == Status::kOk) {
    status = order_host_route(copy, pieces, use, token.synchronous_);
    if (status != Status::kOk) ++core_.counters.errors;
  }
  if (status != Status::kOk) {
    --copy.pins;
    core_.announce_change();
    return status;
  }
  if (use.writes) buffer.fresh = false;
  token.host_route_ = true;
  token.count_ = 1;
  token.inline_[0] = id;
  return Status::kOk;
}

// The program orders its streams, but cannot know of our write-back. An asynchronous copy has its
// stream wait for that. A synchronous one is done when it returns, so it waits here, on the host,
// for the write-back and for earlier operations on the copy.
Status CopyRoutes::order_host_route(HostCopy& copy, std::span<const Piece> pieces,
                                    const UseTracker::Use& use, bool synchronous) {
  std::vector<EventRef> events;
  try {
    for (const Piece& piece : pieces) {
      if (piece.write_back != nullptr) events.push_back(piece.write_back);
    }
    // Noting the end of this operation, and of others under way, may not fail.
    copy.reserve_operations();
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
  if (synchronous) {
    const Status status = streams_.resolve(copy, !use.writes, events);
    if (status != Status::kOk) return status;
  }
  if (events.empty()) return Status::kOk;
  const Unlocked unlocked(core_.mutex);
  if (synchronous) {
    for (const EventRef& event : events) {
      const Status status = core_.events.wait(event, core_.options.wait_limit);
      if (status != Status::kOk) return status;
    }
    return Status::kOk;
  }
  const auto complete = core_.events.all_complete(events);
  if (!complete.ok()) return complete.status();
  return *complete ? Status::kOk : core_.events.stream_wait(use.stream, events);
}

}  // namespace superpipe
