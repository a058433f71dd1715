#include "residency/uses/copy_routes.h"

#include <algorithm>
#include <new>
#include <span>
#include <vector>

namespace superpipe {

namespace {

// Whether a digest is being computed of what the host has of any of them.
bool is_read_on_host(std::span<const Piece> pieces) REQUIRES(manager_lock) {
  return std::ranges::any_of(
      pieces, [](const Piece& piece) REQUIRES(manager_lock) { return piece.is_read_on_host; });
}

// The first pieces that a copy can go to in one way: all in place, or all on the host. Empty: the
// first one is neither.
std::span<const Piece> first_run(std::span<const Piece> pieces) REQUIRES(manager_lock) {
  const auto count = [&](const auto& is_alike) {
    return static_cast<std::size_t>(std::ranges::find_if_not(pieces, is_alike) - pieces.begin());
  };
  const std::size_t in =
      count([](const Piece& piece) REQUIRES(manager_lock) { return piece.is_in(); });
  if (in > 0) return pieces.first(in);
  return pieces.first(
      count([](const Piece& piece) REQUIRES(manager_lock) { return piece.is_on_host(); }));
}

}  // namespace

Result<CopyRoute> CopyRoutes::begin(Address address, Bytes size, StreamHandle stream, bool in,
                                    UseToken& token, bool may_come_in) try {
  token.count_ = 0;
  const auto capturing = streams_.is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  const ManagerLock lock(core_.mutex);
  UseTracker::Use use{{&address, 1}, stream, in, *capturing};
  uses_.prepare(use, token);
  const auto begun = core_.now();
  const auto deadline = begun + core_.options.wait_limit;
  const auto patience = begun + core_.options.patience();
  bool lacks_slab = false;  // and is not getting one soon
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
    const auto run = first_run(pieces);
    const bool is_broken = run.empty() && pieces.front().state() == PieceState::kUnmapped;
    // There is no host memory for what a copy would leave there: it goes to the device.
    const auto stays = [&]() REQUIRES(manager_lock) {
      if (!run.front().is_on_host()) return false;
      return buffer.stays || !core_.backing.back(buffer) || (lacks_slab && !buffer.host.has_home());
    };
    if (use.capturing || is_broken || (!run.empty() && stays())) {
      if (!may_come_in) return Status::kNotYet;
      const Status status = begin_on_device(id, use, token);
      if (status != Status::kOk) return status;
      return CopyRoute{nullptr, size};
    }
    if (!run.empty()) {
      const auto last = static_cast<std::uint32_t>(&run.back() - buffer.pieces.data());
      const Bytes end = std::min(buffer.offset_of(last) + buffer.piece_size, Bytes{offset} + size);
      const bool on_host = run.front().is_on_host();
      const Status status =
          on_host ? begin_host_route(id, run, use, token) : uses_.begin_in_place(id, use, token);
      if (status == Status::kNotYet) {
        // What would make room for its slab is in use still, by work that may not end (I7).
        lacks_slab = !core_.wait_change(patience);
        continue;
      }
      if (status != Status::kOk) return status;
      if (in && core_.asks_policy) core_.policy.on_host_write(id);
      return CopyRoute{on_host ? buffer.host.slab.data + offset : nullptr, end - Bytes{offset}};
    }
    if (!core_.wait_change(deadline)) {
      core_.warn_gave_up("for a buffer to stop moving, so that it can be copied");
      core_.flush_warnings();
      return Status::kTimedOut;
    }
  }
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

Result<CopyRoute> CopyRoutes::begin_in_place(Address address, Bytes size, StreamHandle stream,
                                             bool in, UseToken& token) try {
  token.count_ = 0;
  const auto capturing = streams_.is_capturing(stream);
  if (!capturing.ok()) return capturing.status();
  const ManagerLock lock(core_.mutex);
  UseTracker::Use use{{&address, 1}, stream, in, *capturing};
  use.may_shrink = true;  // the caller has another way, or says what failed
  uses_.prepare(use, token);
  const std::uint32_t index = core_.arena->index_at(address);
  if (index == Arena::kNobody) return Status::kInvalidValue;
  const Status status = begin_on_device(BufferId{index}, use, token);
  if (status != Status::kOk) return status;
  return CopyRoute{nullptr, size};
} catch (const std::bad_alloc&) {
  token.count_ = 0;
  return Status::kOutOfHostMemory;
}

Status CopyRoutes::begin_on_device(BufferId id, const UseTracker::Use& use, UseToken& token) {
  const Status status = uses_.begin(use, token);
  if (status == Status::kOk && use.writes && core_.asks_policy) core_.policy.on_host_write(id);
  return status;
}

void CopyRoutes::end(UseToken& token, StreamHandle stream, bool submitted) noexcept {
  const bool marks = submitted && token.slot_ != kNoSlot;
  const ManagerLock lock(core_.mutex);
  const auto end = streams_.end_operation(stream, token.slot_, marks);
  HostCopy& copy = core_.buffers[token.inline_[0]].host;
  --copy.pins;
  if (marks) {
    copy.note({token.slot_, stream, token.writes_, end.event, end.seq});
    core_.streams.note_use(token.slot_, stream, end.seq, end.event);
  }
  core_.waits.announce_to_waiters();
  core_.wake_worker();
  token.count_ = 0;
}

// Gets the host copy of a buffer that is out ready for an operation of the program, and holds off
// transfers of ours until its end. @return kNotYet: no slab can be had before something changes.
Status CopyRoutes::begin_host_route(BufferId id, std::span<const Piece> pieces,
                                    const UseTracker::Use& use, UseToken& token) {
  Buffer& buffer = core_.buffers[id];
  HostCopy& copy = buffer.host;
  ++copy.pins;
  Status status = Status::kOk;
  const auto deadline = core_.now() + core_.options.wait_limit;
  const auto is_taken = [&]() REQUIRES(manager_lock) {
    return copy.is_mapping || (use.writes && is_read_on_host(pieces));
  };
  while (is_taken() && status == Status::kOk) {
    if (!core_.wait_change(deadline)) status = Status::kTimedOut;
  }
  if (status == Status::kTimedOut) {
    core_.warn_gave_up("for another thread to pin or to read host memory");
  }
  if (status == Status::kOk && !copy.has_home()) {
    status = mover_.ensure_slab(buffer, core_.options.zero_fill, HostStore::User::kProgram);
    if (status != Status::kOk && status != Status::kNotYet) ++core_.counters.errors;
    core_.waits.announce();
  }
  if (status == Status::kOk) {
    status = order_host_route(copy, pieces, use);
    if (status != Status::kOk) ++core_.counters.errors;
  }
  if (status != Status::kOk) {
    --copy.pins;
    core_.waits.announce();
    return status;
  }
  if (use.writes) {
    // What pieces in place have is content from now on.
    if (buffer.fresh) buffer.note_write();
    const auto first = static_cast<std::uint32_t>(pieces.data() - buffer.pieces.data());
    for (std::uint32_t index = first; index < first + pieces.size(); ++index) {
      core_.drop_digest({id, index});
      buffer.pieces[index].host_digest.reset();
      digests_.note_write({id, index});
    }
  }
  token.host_route_ = true;
  token.count_ = 1;
  token.inline_[0] = id;
  return Status::kOk;
}

// The program orders its streams, but cannot know of our write-back: the copy's stream waits for
// it.
Status CopyRoutes::order_host_route(HostCopy& copy, std::span<const Piece> pieces,
                                    const UseTracker::Use& use) {
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
  if (events.empty()) return Status::kOk;
  const Unlocked unlocked(core_.mutex);
  const auto complete = core_.events.all_complete(events);
  if (!complete.ok()) return complete.status();
  return *complete ? Status::kOk : core_.events.stream_wait(use.stream, events);
}

}  // namespace superpipe
