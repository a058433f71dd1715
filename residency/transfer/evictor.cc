#include "residency/transfer/evictor.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {

namespace {

// A write-back to the whole slab comes after the operations on it, and what comes next waits for
// that write-back. Beside one to a part, only operations that are known to be over are forgotten:
// other parts may still have to wait for them.
void forget_operations(Buffer& buffer) REQUIRES(manager_lock) {
  if (buffer.pieces.size() == 1) {
    buffer.host.operations.clear();
  } else {
    buffer.host.forget_completed();
  }
}

// A fresh piece of the buffer is about to be written back. All of its pieces count as written: the
// slab would else be taken for what the others have.
void note_unseen_writes(Buffer& buffer) REQUIRES(manager_lock) { buffer.note_write(); }

}  // namespace

void Evictor::evict(PieceId id) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  core_.drop_digest(id);
  Plan plan{};
  plan.begun = core_.now();
  const bool may_be_zero = core_.digester.is_ready() && !buffer.host.has_home();
  if (buffer.is_fresh(id.index) && !may_be_zero) note_unseen_writes(buffer);
  plan.purpose = purpose_for(id);
  core_.pieces.enter(id, PieceState::kLeaving);
  buffer.forget_uses();  // all have completed
  const Outcome outcome = prepare_and_take_out(id, plan);
  if (plan.leave.slab && core_.compares_digests && !core_.digester.is_ready()) warn_once();
  if (outcome.status != Status::kOk) {
    keep(id, outcome);
  } else if (plan.leave.awaits_digest && outcome.has_digest()) {
    await_digest(id, plan, outcome.digest);
  } else if (plan.purpose == Purpose::kZeros) {
    write_back_late(id, plan.begun);
  } else {
    finish(id, plan, outcome);
  }
}

// What a digest of the piece would be for. A copy or a memset did write, so that nothing is to be
// decided. Of what nothing named since it came the host mostly has the content, however often
// launches changed it before.
Evictor::Purpose Evictor::purpose_for(PieceId id) const {
  const Buffer& buffer = core_.buffers[id.buffer];
  const Piece& piece = buffer.pieces[id.index];
  if (!core_.digester.is_ready()) return Purpose::kNone;
  if (buffer.is_fresh(id.index)) return Purpose::kZeros;
  if (!piece.host_digest || buffer.has_known_write(id.index)) return Purpose::kKnow;
  const bool is_open = !buffer.is_dirty(id.index) || piece.changes < tuning::kDigestMostChanges;
  return is_open ? Purpose::kDecide : Purpose::kKnow;
}

// The user asked for digests, and there are none.
void Evictor::warn_once() noexcept {
  if (std::exchange(warned_, true)) return;
  core_.warnings.once("digests", [] {
    return std::string(
        "this device does not compute digests: all that launches name is written back when it is "
        "evicted, whether they changed it or not (SUPERPIPE_WRITEBACK=always asks for that)");
  });
}

void Evictor::note_place(PieceId id, Plan& plan) const {
  const Buffer& buffer = core_.buffers[id.buffer];
  plan.place = ContentMover::place_of(buffer, id.index, buffer.pieces[id.index].page());
  plan.leave.content = buffer.content_of(id.index);
  plan.leave.digests = plan.purpose != Purpose::kNone;
  plan.leave.awaits_digest = plan.purpose == Purpose::kDecide || plan.purpose == Purpose::kZeros;
}

// Has all that can run out of host memory, or needs it, before anything is changed.
Status Evictor::prepare(PieceId id, Plan& plan) noexcept {
  note_place(id, plan);
  try {
    if (plan.purpose != Purpose::kZeros) return prepare_write_back(id, plan);
    if (spare_.empty()) spare_.emplace_back();
    return Status::kOk;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

// Gets the slab, and what the write-back has to wait for.
Status Evictor::prepare_write_back(PieceId id, Plan& plan) {
  Buffer& buffer = core_.buffers[id.buffer];
  // Another thread is getting it.
  if (!buffer.host.has_home() && buffer.host.is_mapping) return Status::kNotYet;
  Status status = mover_.ensure_slab_to_leave(buffer);
  if (status == Status::kOk) status = streams_.resolve(buffer.host, false, plan.leave.after);
  if (status != Status::kOk) return status;
  // Looked at last: what is done before opens the mutex.
  if (buffer.pieces[id.index].is_read_on_host) return Status::kNotYet;
  plan.leave.slab = buffer.slab_of(id.index);
  plan.leave.asks = !buffer.host.operations.empty();
  // Once the calls are made, noting them may not fail.
  buffer.pieces[id.index].page().after.reserve(Page::kMostAfter);
  if (plan.purpose != Purpose::kNone && spare_.empty()) spare_.emplace_back();
  return Status::kOk;
}

// Opens the mutex for the calls, and notes on the page which digest reads it.
Evictor::Outcome Evictor::prepare_and_take_out(PieceId id, Plan& plan) noexcept {
  Outcome outcome;
  outcome.status = prepare(id, plan);
  if (outcome.status == Status::kOk) {
    const Unlocked unlocked(core_.mutex);
    outcome = page_mover_.take(plan.place, plan.leave);
  }
  // A part of one that failed may still read the page, too.
  if (outcome.digest.done != nullptr) {
    Page& page = core_.buffers[id.buffer].pieces[id.index].page();
    page.digest = outcome.digest.done;
    page.digested_at = core_.now();
  }
  return outcome;
}

// The piece is out with its page until its digest has come.
void Evictor::await_digest(PieceId id, const Plan& plan,
                           const Digester::Enqueued& digest) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Pending& pending = note_digest(id, digest);
  pending.ticket = buffer.pieces[id.index].digest_ticket = core_.next_digest_ticket();
  pending.of_fresh = plan.purpose == Purpose::kZeros;
  if (pending.of_fresh) pending.former = core_.digester.of_zeros(plan.leave.content);
  buffer.set_ready(id.index, nullptr);
  core_.pieces.enter(id, PieceState::kDigesting);
}

// A digest is under way.
Evictor::Pending& Evictor::note_digest(PieceId id, const Digester::Enqueued& digest) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  pending_.splice(pending_.end(), spare_, spare_.begin());
  Pending& pending = pending_.back();
  pending = {id, buffer.generation, 0, digest.slot, digest.done, std::nullopt, false, core_.now()};
  ++core_.counters.digests;
  return pending;
}

// The piece is out, and a write-back is under way if one is needed.
void Evictor::finish(PieceId id, const Plan& plan, const Outcome& outcome) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  piece.page().forget_completed();
  if (outcome.written.done != nullptr || piece.was_precleaned) note_write_back(id);
  piece.was_precleaned = false;
  if (outcome.written.done != nullptr) {
    last_write_back_ = outcome.written.done;
    const auto former = std::exchange(piece.host_digest, std::nullopt);
    if (outcome.has_digest()) {
      Pending& pending = note_digest(id, outcome.digest);
      pending.former = former;
      pending.ticket = piece.digest_ticket = core_.next_digest_ticket();
    }
    piece.write_back = outcome.written.done;
    piece.clean_at = buffer.writes;
    forget_operations(buffer);
    piece.page().after.assign(1, outcome.written.done);
    core_.counters.d2h_bytes += plan.leave.slab.size;
    ++core_.counters.write_backs;
  } else {
    ++core_.counters.clean_evictions;
  }
  if (core_.timeline != nullptr) {
    core_.timeline->note_arrival(id.buffer, plan.begun);
    core_.timeline->add(Timeline::Kind::kEvictBegin, plan.begun, id.buffer, plan.place.bytes);
    core_.timeline->add_when(outcome.written.done, Timeline::Kind::kEvictEnd, core_.now(),
                             id.buffer, plan.place.bytes);
  }
  if (core_.trace) {
    const bool writes_back = outcome.written.done != nullptr;
    core_.trace->add(core_.now(), outcome.written.done,
                     TraceEviction{{},
                                   id.buffer,
                                   buffer.offset_of(id.index),
                                   writes_back ? plan.leave.slab.size : Bytes{},
                                   plan.place.bytes});
  }
  core_.under_way.note_eviction(outcome.written.done != nullptr ? plan.leave.slab.size : Bytes{});
  buffer.set_ready(id.index, nullptr);
  core_.pool->put(core_.pieces.leave(id));
}

// The page keeps the content: in its place or, if it cannot even be mapped, out of it.
void Evictor::keep(PieceId id, const Outcome& outcome) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  if (outcome.status != Status::kNotYet || !outcome.is_mapped) {
    ++core_.counters.errors;
    piece.evict_failed = core_.turns;
  }
  piece.page_is_untracked =
      piece.page_is_untracked || outcome.written.untracked || outcome.digest.untracked;
  piece.digest_ticket = 0;
  if (outcome.has_digest()) note_digest(id, outcome.digest);
  if (outcome.written.done != nullptr) {
    piece.write_back = outcome.written.done;
    piece.page().after.assign(1, outcome.written.done);
  }
  // A part of it may have come to the slab.
  if (outcome.written.done != nullptr || outcome.written.untracked) piece.host_digest.reset();
  core_.pieces.enter(id, outcome.is_mapped ? PieceState::kIn : PieceState::kUnmapped);
}

// For a later run, which may have the content copied before.
void Evictor::note_write_back(PieceId id) noexcept {
  const std::uint64_t number = core_.buffers[id.buffer].number - core_.options.buffers_before;
  if (noted_.size() >= kMostNoted || number > kMostNumbered) return;
  try {
    noted_.push_back({static_cast<std::uint32_t>(number - 1), id.index});
  } catch (const std::bad_alloc&) {
    // It is for a later run only.
  }
}

void Evictor::preclean(PieceId id) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  core_.drop_digest(id);
  Plan plan{};
  plan.begun = core_.now();
  plan.purpose = Purpose::kKnow;
  core_.pieces.enter(id, PieceState::kCopyStarting);
  buffer.forget_uses();  // all have completed
  const Outcome outcome = prepare_and_take_out(id, plan);
  if (outcome.status != Status::kOk) return keep(id, outcome);
  // What the slab has is neither the former content any more nor the present one yet.
  piece.host_digest.reset();
  piece.write_back = last_write_back_ = outcome.written.done;
  piece.page().after.assign(1, outcome.written.done);
  forget_operations(buffer);
  core_.counters.d2h_bytes += plan.leave.slab.size;
  ++core_.counters.precleaned;
  if (outcome.has_digest()) ++core_.counters.digests;
  buffer.set_ready(id.index, nullptr);
  precleaning_ = {id,
                  buffer.generation,
                  buffer.writes,
                  outcome.has_digest(),
                  outcome.digest.slot,
                  outcome.digest.done,
                  outcome.written.done,
                  plan.begun};
  core_.is_precleaning = true;
  if (core_.trace) {
    const Bytes offset = buffer.offset_of(id.index);
    core_.trace->add(core_.now(), outcome.written.done,
                     TraceEviction{{}, id.buffer, offset, plan.leave.slab.size, Bytes{}});
  }
  core_.pieces.enter(id, PieceState::kCopying);
}

// A copy that has ended is what the page has, with or without a digest: nothing was mapped. A
// digest that a kernel of the program keeps from running is not waited for.
bool Evictor::settle_precleaning() noexcept {
  if (!precleaning_) return false;
  const EventRef copy = precleaning_->written;
  const EventRef reading = precleaning_->digested;
  Result<bool> written = false;
  Result<bool> digested = true;
  {
    const Unlocked unlocked(core_.mutex);
    written = core_.events.is_complete(copy);
    if (reading != nullptr) digested = core_.events.is_complete(reading);
  }
  const bool is_overdue = core_.now() - precleaning_->since >= kPatience;
  if (written.ok() && !*written) return false;
  if (digested.ok() && !*digested && !is_overdue) return false;
  const Precleaning over = *std::exchange(precleaning_, std::nullopt);
  core_.is_precleaning = false;
  core_.waits.announce();
  std::optional<ContentDigest> digest;
  if (over.has_digest && digested.ok() && *digested) digest = take_result(over.slot, true);
  if (over.has_digest && digested.ok() && !*digested) leave_to_end(over);
  if (!written.ok() || !digested.ok()) ++core_.counters.errors;
  Buffer& buffer = core_.buffers[over.piece.buffer];
  if (buffer.generation != over.generation) return true;
  Piece& piece = buffer.pieces[over.piece.index];
  // It was wanted, and may be used or leaving.
  if (piece.state() != PieceState::kCopying) return true;
  if (written.ok()) {
    piece.clean_at = over.writes;
    piece.host_digest = digest;
    piece.was_precleaned = true;
    piece.changes = 0;
  }
  // One that launches were begun without comes in again when it is used.
  if (piece.want == Want::kNobody && !buffer.is_left_out()) {
    core_.pieces.enter(over.piece, PieceState::kArriving);
    (void)mover_.remap(over.piece);
  } else {
    core_.pieces.enter(over.piece, PieceState::kUnmapped);
  }
  return true;
}

// Nothing needs the digest any more, but its slot serves another one when it has ended. It began
// before all that are pending.
void Evictor::leave_to_end(const Precleaning& over) noexcept {
  try {
    pending_.push_front({over.piece, over.generation, 0, over.slot, over.digested, std::nullopt,
                         false, core_.now()});
  } catch (const std::bad_alloc&) {
    // Without host memory the slot serves no other.
  }
}

bool Evictor::is_writing_back() noexcept {
  const EventRef last = last_write_back_;
  if (last == nullptr) return false;
  Result<bool> complete = false;
  {
    const Unlocked unlocked(core_.mutex);
    complete = core_.events.is_complete(last);
  }
  const bool is_over = complete.ok() && *complete;
  if (is_over && last_write_back_ == last) last_write_back_ = nullptr;
  return !is_over;
}

bool Evictor::settle_digests() noexcept {
  bool settled = false;
  while (!pending_.empty()) {
    const EventRef done = pending_.front().done;
    Result<bool> complete = false;
    {
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(done);
    }
    if (complete.ok() && !*complete) return settle_overdue() || settled;
    std::list<Pending> oldest;
    oldest.splice(oldest.end(), pending_, pending_.begin());
    settle(oldest.front(), complete.ok(), is_of_one_owner(*done));
    settled_at_ = core_.now();
    settled = true;
  }
  return settled;
}

// The result of a digest that has ended; nullopt if it has none. `is_complete`: false if the device
// does not tell. Then the slot serves no other digest.
std::optional<ContentDigest> Evictor::take_result(Digester::Slot slot, bool is_complete) noexcept {
  std::optional<ContentDigest> digest;
  if (is_complete) {
    digest = core_.digester.result(slot);
    core_.digester.give_back(slot);
  }
  if (!digest) ++core_.counters.errors;
  return digest;
}

// The piece for which the result of a digest still matters; null: for none.
Piece* Evictor::holder_of(const Pending& pending) const {
  Buffer& buffer = core_.buffers[pending.piece.buffer];
  if (buffer.generation != pending.generation || pending.ticket == 0) return nullptr;
  Piece& piece = buffer.pieces[pending.piece.index];
  return piece.digest_ticket == pending.ticket ? &piece : nullptr;
}

// Whether no piece that was given the page since can have filled it before the digest ended. The
// digest has ended by now.
bool Evictor::is_of_one_owner(const RecordedEvent& digest) {
  if (!digest.is_overtaken) return true;
  const EventRef vacated = digest.overwritten_after;
  if (vacated == nullptr) return false;
  const Unlocked unlocked(core_.mutex);
  const auto complete = core_.events.is_complete(vacated);
  return complete.ok() && !*complete;
}

// `is_of_one_owner`: false if its result may be that of another's content.
void Evictor::settle(const Pending& pending, bool is_complete, bool is_of_one_owner) noexcept {
  std::optional<ContentDigest> digest = take_result(pending.slot, is_complete);
  if (!is_of_one_owner) digest.reset();
  Piece* const piece = holder_of(pending);
  if (piece == nullptr) return;
  const bool decides = piece->state() == PieceState::kDigesting;
  if (decides && pending.of_fresh) return settle_fresh(pending, digest);
  const auto former = decides ? piece->host_digest : pending.former;
  const bool is_unchanged = digest && former == digest;
  if (digest && former) {
    piece->changes = is_unchanged ? std::uint8_t{0}
                                  : std::min(static_cast<std::uint8_t>(piece->changes + 1),
                                             tuning::kDigestMostChanges);
  }
  if (!decides) {
    piece->digest_ticket = 0;
    piece->host_digest = digest;
  } else if (piece->want != Want::kNobody) {
    // Its page is about to be mapped again.
    core_.drop_digest(pending.piece);
    if (is_unchanged) piece->clean_at = core_.buffers[pending.piece.buffer].writes;
  } else if (is_unchanged) {
    piece->digest_ticket = 0;
    finish_unchanged(pending);
  } else {
    piece->digest_ticket = 0;
    write_back_late(pending.piece, pending.since);
    if (!piece->has_page()) piece->host_digest = digest;
  }
}

// Drops the content of a fresh piece if it is zero, or writes it back. A slab that has come since
// has something else for it.
void Evictor::settle_fresh(const Pending& pending,
                           const std::optional<ContentDigest>& digest) noexcept {
  Buffer& buffer = core_.buffers[pending.piece.buffer];
  Piece& piece = buffer.pieces[pending.piece.index];
  if (piece.want != Want::kNobody) return core_.drop_digest(pending.piece);
  const bool has_home = buffer.host.has_or_gets_home();
  piece.digest_ticket = 0;
  if (digest && digest == pending.former && !has_home) {
    piece.is_zero = true;
    finish_unchanged(pending);
  } else {
    write_back_late(pending.piece, pending.since);
    if (!piece.has_page()) piece.host_digest = digest;
  }
}

// What launches might have changed is what the host has.
void Evictor::finish_unchanged(const Pending& pending) noexcept {
  const PieceId id = pending.piece;
  Buffer& buffer = core_.buffers[id.buffer];
  buffer.pieces[id.index].clean_at = buffer.writes;
  ++core_.counters.unchanged;
  Plan plan{};
  plan.begun = pending.since;
  plan.place.bytes = buffer.bytes_of(id.index);
  finish(id, plan, Outcome{});
}

// How long a digest is waited for after the one before it has come.
std::chrono::nanoseconds Evictor::patience_for(const Pending& pending) const {
  const Bytes bytes = core_.buffers[pending.piece.buffer].bytes_of(pending.piece.index);
  return tuning::kDigestPatience +
         std::chrono::nanoseconds(bytes.count() / tuning::kDigestBytesOfNanosecond);
}

// Writes back what has waited for a digest too long. What the digest says then is known the next
// time.
bool Evictor::settle_overdue() noexcept {
  const auto now = core_.now();
  const auto is_overdue = [&](const Pending& pending) REQUIRES(manager_lock) {
    const Piece* const piece = holder_of(pending);
    // One that is wanted keeps its page, and is mapped again in its turn.
    return piece != nullptr && piece->state() == PieceState::kDigesting &&
           piece->want == Want::kNobody &&
           now - std::max(pending.since, settled_at_) >= patience_for(pending);
  };
  bool settled = false;
  for (;;) {
    // From the front again, for to write back opens the mutex.
    const auto overdue = std::ranges::find_if(pending_, is_overdue);
    if (overdue == pending_.end()) return settled;
    overdue->former = holder_of(*overdue)->host_digest;
    write_back_late(overdue->piece, overdue->since);
    settled = true;
  }
}

// Writes back a piece that is out and has its page, or maps it again.
void Evictor::write_back_late(PieceId id, ResidencyCore::Clock::time_point begun) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Plan plan{};
  plan.begun = begun;
  Outcome outcome;
  if (buffer.is_fresh(id.index)) note_unseen_writes(buffer);
  if (buffer.pieces[id.index].state() == PieceState::kDigesting) {
    core_.pieces.enter(id, PieceState::kLeaving);
  }
  note_place(id, plan);
  // Nothing of ours shall wait for the program, which works on the slab (I7).
  outcome.status = mover_.awaits_operations(buffer.host, /*writes_only=*/false) ? Status::kNotYet
                                                                                : prepare(id, plan);
  outcome.is_mapped = false;
  {
    const Unlocked unlocked(core_.mutex);
    if (outcome.status == Status::kOk) {
      outcome = page_mover_.write_back(plan.place, plan.leave);
    } else {
      outcome.is_mapped = page_mover_.map(plan.place) == Status::kOk;
    }
  }
  if (outcome.status == Status::kOk) {
    finish(id, plan, outcome);
  } else {
    keep(id, outcome);
  }
}

}  // namespace superpipe
