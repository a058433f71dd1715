#include "residency/transfer/host_digests.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {

namespace {

// An event behind which the piece's part of the slab has its content, and of which it is not known
// yet whether it has completed; null: there is none. Where a fetch was enqueued behind a write, the
// write has been forgotten, but not the end of the fetch.
EventRef first_unknown(const Buffer& buffer, const Piece& piece) REQUIRES(manager_lock) {
  for (const EventRef& event : {piece.ready, piece.write_back}) {
    if (event != nullptr && !event->is_known()) return event;
  }
  for (const HostOperation& operation : buffer.host.operations) {
    if (operation.writes && operation.done != nullptr && !operation.done->is_known()) {
      return operation.done;
    }
  }
  return nullptr;
}

// Whether the slab is written to by an operation of which the end will never be known.
bool has_endless_write(const Buffer& buffer) REQUIRES(manager_lock) {
  return std::ranges::any_of(buffer.host.operations, [](const HostOperation& operation) {
    return operation.writes && operation.done == nullptr;
  });
}

}  // namespace

void HostDigests::note_write(PieceId id) noexcept try {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  const bool is_wanted = core_.digester.is_ready() && !piece.awaits_host_digest;
  if (!is_wanted || waiting_.size() >= kMostWaiting) return;
  waiting_.push_back({id, buffer.generation, core_.now()});
  piece.awaits_host_digest = true;
  rest_ = kQuiet;
  if (!core_.stocker.wake()) ++core_.counters.errors;
} catch (const std::bad_alloc&) {
  // It is written back once, as content of which nothing is known.
}

std::optional<std::chrono::nanoseconds> HostDigests::rest() const {
  if (!piece_ && waiting_.empty()) return std::nullopt;
  return rest_;
}

bool HostDigests::run() noexcept {
  const bool found = (piece_ || begin_next()) && step(*piece_);
  rest_ = found ? kQuiet : std::min<std::chrono::nanoseconds>(2 * rest_, kLongestRest);
  return found;
}

// Begins to read the first piece that can be read. Those that cannot yet go to the end, and those
// of which the digest is known, or about to be, are left out.
bool HostDigests::begin_next() noexcept {
  for (int looks = 0; looks < tuning::kHostDigestMostLooks && !waiting_.empty(); ++looks) {
    if (core_.now() - waiting_.front().since < kQuiet) return false;
    // The mutex is opened: other threads may put pieces behind it, and none takes it.
    const Readiness readiness = readiness_of(waiting_.front());
    const Waiting first = waiting_.front();
    if (readiness == Readiness::kLater) {
      waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
      continue;
    }
    waiting_.pop_front();
    if (Buffer* const buffer = live(first)) {
      buffer->pieces[first.piece.index].awaits_host_digest = false;
    }
    if (readiness == Readiness::kNever) continue;
    Piece& piece = core_.buffers[first.piece.buffer].pieces[first.piece.index];
    piece.host_digest_ticket = core_.next_digest_ticket();
    piece_ = {first, piece.host_digest_ticket, {}, {}};
    return true;
  }
  return false;
}

// The buffer of a piece that waits, if it is still that one; else null.
Buffer* HostDigests::live(const Waiting& waiting) const {
  Buffer& buffer = core_.buffers[waiting.piece.buffer];
  const bool lives =
      buffer.generation == waiting.generation && buffer.live && buffer.host.has_home();
  return lives ? &buffer : nullptr;
}

// Whether something may be about to write to the piece's part of the slab, or the page may have
// what the slab has not.
bool HostDigests::is_worked_on(const Buffer& buffer, const Piece& piece) {
  const bool is_half_way = piece.is_out() && !piece.is_on_host();
  return buffer.host.is_busy() || piece.is_moving() || is_half_way;
}

// Whether the piece's part of the slab has what the program has written there, and nothing can be
// writing to it. Asks the device about each event once, and opens the mutex for that: says kNow
// only after a look at all of it under the mutex.
HostDigests::Readiness HostDigests::readiness_of(const Waiting& waiting) noexcept try {
  for (;;) {
    const Buffer* const buffer = live(waiting);
    if (buffer == nullptr) return Readiness::kNever;
    const Piece& piece = buffer->pieces[waiting.piece.index];
    if (piece.host_digest || piece.digest_ticket != 0) return Readiness::kNever;
    if (has_endless_write(*buffer)) return Readiness::kNever;
    if (is_worked_on(*buffer, piece)) return Readiness::kLater;
    const EventRef unknown = first_unknown(*buffer, piece);
    if (unknown == nullptr) return Readiness::kNow;
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(unknown);
    }
    if (!complete.ok()) return Readiness::kNever;
    if (!*complete) return Readiness::kLater;
  }
} catch (const std::bad_alloc&) {
  return Readiness::kLater;  // the device could not even say
}

// Reads on, unless something has written to the piece since, or is about to.
// @return whether it did.
bool HostDigests::step(Begun& begun) noexcept {
  const PieceId id = begun.piece.piece;
  const auto counts = [&]() REQUIRES(manager_lock) {
    const Buffer* const buffer = live(begun.piece);
    return buffer != nullptr && buffer->pieces[id.index].host_digest_ticket == begun.ticket;
  };
  if (!counts()) {
    piece_.reset();
    return true;
  }
  Piece& piece = core_.buffers[id.buffer].pieces[id.index];
  if (is_worked_on(core_.buffers[id.buffer], piece)) return false;
  const Slab slab = core_.buffers[id.buffer].slab_of(id.index);
  const Bytes part = std::min(kStep, slab.size - begun.read);
  piece.is_read_on_host = true;
  reading_ = {id.buffer, {}, {}};
  ContentDigest digest;
  {
    const Unlocked unlocked(core_.mutex);
    digest = core_.digester.part_of_host({slab.data, slab.size.count()}, begun.read.count(),
                                         part.count());
  }
  Reading over = std::move(*std::exchange(reading_, std::nullopt));
  if (over.orphan) core_.host.release(over.orphan, std::move(over.after));
  core_.waits.announce_to_waiters();
  if (live(begun.piece) != nullptr) piece.is_read_on_host = false;
  begun.sum = sum_of(std::array{begun.sum, digest});
  begun.read += part;
  const bool is_whole = begun.read == slab.size;
  if (counts() && is_whole) {
    piece.host_digest_ticket = 0;
    piece.host_digest = begun.sum;
  }
  if (!counts() || is_whole) piece_.reset();
  return true;
}

bool HostDigests::release_later(BufferId id, const Slab& slab,
                                std::vector<EventRef>& after) noexcept {
  const bool is_read = reading_ && reading_->buffer == id && !reading_->orphan;
  if (is_read) {
    reading_->orphan = slab;
    reading_->after = std::move(after);
  }
  return is_read;
}

}  // namespace superpipe
