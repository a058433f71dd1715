#include "residency/transfer/content_mover.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "policy/budget.h"
#include "residency/tuning.h"

namespace superpipe {

namespace {

// A fetch of the whole slab comes after the writes to it, and what comes next waits for that fetch.
// Beside a fetch of a part, only operations that are known to be over are forgotten: other parts
// may still have to wait for them.
void forget_writes(Buffer& buffer) REQUIRES(manager_lock) {
  if (buffer.pieces.size() == 1) {
    buffer.host.forget_writes();
  } else {
    buffer.host.forget_completed();
  }
}

// Notes that a digest reads a page which another piece fills once `vacated` has completed.
void overtake(RecordedEvent& digest, const EventRef& vacated) {
  if (digest.is_overtaken) return;
  digest.is_overtaken = true;
  digest.overwritten_after = vacated;
}

}  // namespace

ContentMover::Fetched ContentMover::fetch(PieceId id, bool demand) {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  const bool is_read = piece.state() == PieceState::kCopying;
  Status status = Status::kOk;
  if (piece.has_page()) {
    core_.drop_digest(id);
    core_.pieces.enter(id, PieceState::kArriving);
    status = remap(id);
    // Nothing may be written to the page before it is copied.
    if (status == Status::kOk && is_read) buffer.set_ready(id.index, piece.write_back);
  } else {
    core_.pieces.enter(id, PieceState::kFetching);
    if (!may_copy(buffer, demand)) return leave_for_later(id, demand);
    using Terms = PageSupply::Terms;
    // What was freed lately stays for the program's next allocations while other room is coming.
    const Bytes bytes = buffer.bytes_of(id.index);
    const bool other_room_comes = core_.ledger.coming(Bytes{}) >= bytes;
    const Terms within = demand && !other_room_comes ? Terms::kMayWait : Terms::kAhead;
    auto page = pages_.acquire(bytes, piece.may_exceed_limit ? Terms::kOverLimit : within);
    if (page.status() == Status::kNotYet) return postpone(id, demand);
    if (page.ok() && is_being_digested(*page)) {
      core_.pool->put(std::move(*page));
      return postpone(id, demand);
    }
    const bool copies = buffer.has_host_content();
    const Mapping mapping = core_.options.maps_early ? Mapping::kAtOnce : Mapping::kOnArrival;
    status = page.ok() ? attach(id, std::move(*page), mapping, demand) : page.status();
    if (status == Status::kOk && copies) {
      core_.counters.h2d_bytes += buffer.content_of(id.index);
      // A launch that came to wait for it meanwhile has made it a demand.
      const bool demanded = demand || piece.want == Want::kDemand;
      ++(demanded ? core_.counters.demand_fetches : core_.counters.prefetches);
    }
    if (!page.ok()) core_.pieces.enter(id, PieceState::kOut);
  }
  if (status != Status::kOk && piece.want == Want::kDemand) piece.fetch_status = status;
  piece.want = Want::kNobody;
  piece.may_exceed_limit = false;
  core_.tell_whereabouts(id);
  core_.waits.announce();
  return Fetched::kSettled;
}

bool ContentMover::awaits_operations(const HostCopy& copy, bool writes_only) noexcept {
  for (;;) {
    // Looked for anew each time, since the list may change while the mutex is open.
    const auto found = std::ranges::find_if(copy.operations, [&](const HostOperation& operation) {
      return (operation.writes || !writes_only) && operation.done != nullptr &&
             !operation.done->is_known();
    });
    if (found == copy.operations.end()) return false;
    const EventRef end = found->done;
    const Unlocked unlocked(core_.mutex);
    const auto complete = core_.events.is_complete(end);
    if (!complete.ok() || !*complete) return true;
  }
}

// Whether the copy from the slab can be enqueued: other transfers are not to wait for work of the
// program.
bool ContentMover::may_copy(const Buffer& buffer, bool demand) noexcept {
  const HostCopy& copy = buffer.host;
  if (copy.operations.empty() || !buffer.has_host_content()) return true;
  const bool lacks_event = std::ranges::any_of(copy.operations, [](const HostOperation& operation) {
    return operation.writes && operation.done == nullptr;
  });
  if (!lacks_event && !awaits_operations(copy, /*writes_only=*/true)) return true;
  if (!demand) return false;
  const Unlocked unlocked(core_.mutex);
  return core_.transfers.may_fetch_apart();
}

// The program still writes the slab.
ContentMover::Fetched ContentMover::leave_for_later(PieceId id, bool demand) {
  core_.pieces.enter(id, PieceState::kOut);
  if (demand) return Fetched::kInUse;
  core_.buffers[id.buffer].pieces[id.index].want = Want::kNobody;
  core_.tell_whereabouts(id);
  core_.waits.announce();
  return Fetched::kSettled;
}

// Whether the page was digested a moment ago, so that the result should be there soon: it might be
// of no use if the page was filled before. But a kernel of the program may keep the digest from
// running, and the link does not wait for that; and behind a write-back, which takes longer than a
// digest, the page may be given on.
bool ContentMover::is_being_digested(const Page& page) {
  const auto age = core_.now() - page.digested_at;
  if (page.digest == nullptr || age >= tuning::kDigestKeepsFreePage) return false;
  const EventRef digest = page.digest;
  const Unlocked unlocked(core_.mutex);
  const auto complete = core_.events.is_complete(digest);
  if (!complete.ok() || *complete) return false;
  if (age < tuning::kDigestKeepsPage) return true;
  const auto vacated = core_.events.all_complete(page.after);
  return vacated.ok() && *vacated;
}

// There is no page for the piece now. A demand waits for one; a prefetch only while one is on its
// way, for it becomes a demand when a launch names the buffer.
// @return kSettled: it was dropped.
ContentMover::Fetched ContentMover::postpone(PieceId id, bool demand) {
  core_.pieces.enter(id, PieceState::kOut);
  core_.waits.announce();
  if (demand || core_.coming_ahead() > Bytes{}) return Fetched::kNoPage;
  core_.buffers[id.buffer].pieces[id.index].want = Want::kNobody;
  core_.tell_whereabouts(id);
  return Fetched::kSettled;
}

// Its eviction has not come to its end, or failed half-way: the page has the content still.
Status ContentMover::remap(PieceId id) {
  const Buffer& buffer = core_.buffers[id.buffer];
  const auto place = place_of(buffer, id.index, buffer.pieces[id.index].page());
  Status status = Status::kOk;
  {
    const Unlocked unlocked(core_.mutex);
    status = page_mover_.map(place);
  }
  core_.pieces.enter(id, status == Status::kOk ? PieceState::kIn : PieceState::kUnmapped);
  if (status != Status::kOk) ++core_.counters.errors;
  return status;
}

Status ContentMover::attach(PieceId id, Page page, Mapping mapping, bool demand) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  const auto begun = core_.now();
  std::vector<EventRef> after = std::exchange(page.after, {});
  const EventRef vacated = after.empty() ? nullptr : after.front();
  if (page.digest != nullptr && page.digest->is_known()) page.digest = nullptr;
  if (page.digest != nullptr) overtake(*page.digest, vacated);
  std::size_t own = 0;
  if (const Status prepared = prepare_fetch(id, after, own); prepared != Status::kOk) {
    page.after = std::move(after);
    core_.pool->put(std::move(page));
    core_.pieces.enter(id, PieceState::kOut);
    ++core_.counters.errors;
    return prepared;
  }
  // What the calls need of the buffer: nothing else changes it while content moves.
  const auto place = place_of(buffer, id.index, page);
  const Bytes visible = buffer.content_of(id.index);
  PageMover::Content content;
  if (buffer.has_host_content()) content.slab = buffer.slab_of(id.index);
  const Bytes copied = content.slab.size;
  if (core_.options.zero_fill || (piece.is_zero && !content.slab)) content.zeroed = page.extent;
  content.asks = content.slab && !buffer.host.operations.empty();
  content.after = std::move(after);
  content.own = own;
  PageMover::Filled filled;
  {
    const Unlocked unlocked(core_.mutex);
    filled = page_mover_.fill(place, content, mapping);
  }
  if (filled.status != Status::kOk) {
    give_up_attach(id, std::move(page), filled.copy, std::move(content.after));
    return filled.status;
  }
  const EventRef& done = filled.copy.done;
  page.extent = core_.options.zero_fill ? visible : page.size;
  content.after.clear();
  page.after = std::move(content.after);  // its room, for the event that its next owner waits for
  buffer.set_ready(id.index, done);
  const PieceState state = filled.is_mapped ? PieceState::kIn : PieceState::kArriving;
  core_.pieces.enter(id, state, std::move(page));
  if (!filled.is_mapped) {
    spare_.front() = {id, done, demand, begun};
    arrivals_.splice(arrivals_.end(), spare_, spare_.begin());
    ++core_.arrivals;
  }
  if (core_.timeline != nullptr) {
    // Until its page's former content is copied out, the fetch has only been asked for.
    core_.timeline->add_when(vacated, Timeline::Kind::kFetchBegin, begun, id.buffer, place.bytes);
    core_.timeline->add_when(done, Timeline::Kind::kFetchEnd, core_.now(), id.buffer, place.bytes);
  }
  if (core_.trace) {
    core_.trace->add(core_.now(), done,
                     TraceFetch{{},
                                id.buffer,
                                buffer.offset_of(id.index),
                                copied,
                                place.bytes,
                                demand || piece.want == Want::kDemand});
    core_.trace_memory();
  }
  piece.clean_at = buffer.writes;
  if (!content.slab && buffer.host.has_home()) buffer.note_slab_lacks(id.index);
  if (content.slab) forget_writes(buffer);
  return Status::kOk;
}

bool ContentMover::settle_arrivals() noexcept {
  bool settled = false;
  // Fetches end in their order: behind one that is under way there is none to ask about. What is
  // not a copy from the host ends apart from them.
  bool is_link_behind = false;
  // The worker alone adds to the list and takes from it; a free marks what it cancels.
  for (auto it = arrivals_.begin(); it != arrivals_.end();) {
    Arrival& arrival = *it;
    const bool is_fetch = arrival.done->fetch != 0;
    Result<bool> complete = false;
    if (!arrival.is_cancelled && (!is_fetch || !is_link_behind)) {
      const EventRef done = arrival.done;
      const Unlocked unlocked(core_.mutex);
      complete = core_.events.is_complete(done);
    }
    if (!arrival.is_cancelled) {
      Content content = complete.ok() ? Content::kThere : Content::kUnknown;
      if (complete.ok() && !*complete) {
        is_link_behind = is_link_behind || is_fetch;
        if (!is_overdue(arrival)) {
          ++it;
          continue;
        }
        content = Content::kOnItsWay;
      } else {
        arrived_at_ = core_.now();
      }
      arrival.is_being_mapped = true;
      finish_arrival(arrival, content);
      settled = true;
    }
    it = arrivals_.erase(it);
    --core_.arrivals;
  }
  return settled;
}

void ContentMover::cancel_arrivals(BufferId id) noexcept {
  for (Arrival& arrival : arrivals_) {
    if (arrival.piece.buffer != id || arrival.is_being_mapped || arrival.is_cancelled) continue;
    arrival.is_cancelled = true;
    Page page = core_.pieces.leave(arrival.piece);
    page.after.assign(1, arrival.done);  // there is room: attach() left it
    page.extent = page.size;
    core_.pool->put(std::move(page));
  }
}

// Whether content that something waits for has not come for longer than any link takes for it, with
// nothing before it coming either.
bool ContentMover::is_overdue(const Arrival& arrival) const {
  if (core_.waits.waiters == 0) return false;
  const Bytes bytes = core_.buffers[arrival.piece.buffer].bytes_of(arrival.piece.index);
  const auto patience = core_.options.patience() +
                        std::chrono::microseconds(bytes.count() / tuning::kLateBytesOfMicrosecond);
  return core_.now() - std::max(arrival.since, arrived_at_) >= patience;
}

void ContentMover::warn_late(const Arrival& arrival) noexcept {
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(core_.now() - arrival.since);
  core_.warnings.once("late content", [waited] {
    return "content had not arrived on the device after " + std::to_string(waited.count()) +
           " ms (does a stream wait for the program, or is the machine very busy?), and was mapped "
           "before that: a kernel that finds it by a pointer in device memory may read what was "
           "there before";
  });
}

// Maps a piece whose content is there, or on its way.
void ContentMover::finish_arrival(const Arrival& arrival, Content content) noexcept {
  const PieceId id = arrival.piece;
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  Status status = Status::kDeviceError;
  if (content != Content::kUnknown) {
    const auto place = place_of(buffer, id.index, piece.page());
    const Unlocked unlocked(core_.mutex);
    status = page_mover_.map(place);
  }
  if (content == Content::kOnItsWay) {
    warn_late(arrival);
  } else {
    buffer.set_ready(id.index, nullptr);
  }
  if (status == Status::kOk) {
    core_.pieces.enter(id, PieceState::kIn);
  } else {
    give_up_arrival(arrival, content, status);
  }
}

// The piece is out as before: the host copy has its content, or it is known to be zero.
void ContentMover::give_up_arrival(const Arrival& arrival, Content content,
                                   Status status) noexcept {
  const PieceId id = arrival.piece;
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  ++core_.counters.errors;
  buffer.set_ready(id.index, nullptr);
  // The launch that asked may have given up since.
  const bool is_awaited = (arrival.demand && buffer.pins > 0) || piece.want == Want::kDemand;
  if (is_awaited) piece.fetch_status = status;
  Page page = core_.pieces.leave(id);
  page.extent = page.size;
  if (content == Content::kThere) {
    core_.pool->put(std::move(page));
  } else {
    buffer.host.is_untracked = buffer.host.is_untracked || buffer.has_host_content();
    core_.pool->keep_untracked(std::move(page));
  }
}

// Appends what a fetch has to wait for, and makes room for what one that fails half-way leaves, so
// that nothing can run out of memory afterwards. `own`: so many of them are transfers of ours, the
// others work of the program.
Status ContentMover::prepare_fetch(PieceId id, std::vector<EventRef>& after,
                                   std::size_t& own) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  own = after.size();
  try {
    after.reserve(std::max(Page::kMostAfter, after.size() + 1));
    if (spare_.empty()) spare_.emplace_back();
    if (!buffer.has_host_content()) return Status::kOk;
    buffer.host.reserve_operations();
    const EventRef& write_back = buffer.pieces[id.index].write_back;
    if (write_back != nullptr) after.push_back(write_back);
    own = after.size();
    return streams_.resolve(buffer.host, true, after);
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

void ContentMover::give_up_attach(PieceId id, Page page, const Transferred& filled,
                                  std::vector<EventRef> after) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  ++core_.counters.errors;
  page.extent = page.size;
  core_.pieces.enter(id, PieceState::kOut);
  const bool reads_slab = buffer.has_host_content();
  if (filled.untracked) {
    buffer.host.is_untracked = buffer.host.is_untracked || reads_slab;
    core_.pool->keep_untracked(std::move(page));
    return;
  }
  if (filled.done != nullptr) {
    after.assign(1, filled.done);
    if (reads_slab) buffer.host.note({kNoSlot, StreamHandle{}, false, filled.done, 0});
  }
  page.after = std::move(after);
  core_.pool->put(std::move(page));
}

Status ContentMover::ensure_slab(Buffer& buffer, bool zeroed, HostStore::User user) {
  if (buffer.host.has_home()) return Status::kOk;
  if (!core_.backing.back(buffer)) {
    core_.warnings.once("unbacked", [&] {
      return "a buffer of " + exact_bytes(Bytes{buffer.size.load()}) +
             " stays on the device: the host store is full, with " +
             exact_bytes(core_.host.reserved()) + " (SUPERPIPE_HOST_MEM" +
             core_.host.words_of_others() + ")";
    });
    return Status::kOutOfHostMemory;
  }
  // No page has the content of pieces that are known to be zero: from now on the slab has it.
  zeroed = zeroed || buffer.has_zeros();
  const Bytes backing = buffer.host.backing;
  Result<Slab> slab = Status::kOutOfHostMemory;
  buffer.host.is_mapping = true;
  {
    const Unlocked unlocked(core_.mutex);
    slab = core_.host.acquire(backing, zeroed, user);
  }
  buffer.host.is_mapping = false;
  // Threads that wait for more than the end of this attempt are told once it has come to something.
  if (slab.status() != Status::kNotYet) core_.waits.announce_to_waiters();
  if (slab.ok()) {
    buffer.host.slab = *slab;
    for (std::uint32_t piece = 0; piece < buffer.pieces.size(); ++piece) {
      if (buffer.pieces[piece].has_page()) buffer.note_slab_lacks(piece);
    }
  }
  core_.wake_stocker();
  return slab.status();
}

Status ContentMover::renew(BufferId id, std::optional<StreamHandle> stream) {
  Buffer& buffer = core_.buffers[id];
  if (core_.options.zero_fill) {
    for (std::uint32_t piece = 0; piece < buffer.pieces.size(); ++piece) {
      if (!buffer.pieces[piece].is_in()) continue;
      const Status status = zero({id, piece});
      if (status != Status::kOk) return status;
    }
  } else if (stream) {
    std::vector<EventRef> after;
    (void)buffer.rare->marked.covered(after);
    const Slot slot = streams_.slot_of(*stream);
    const bool same_stream = slot == buffer.freed_on && slot != StreamTable::kShared;
    if (buffer.freed != nullptr && !same_stream) after.push_back(buffer.freed);
    if (!after.empty()) {
      const Unlocked unlocked(core_.mutex);
      const Status status = core_.events.stream_wait(*stream, after);
      if (status != Status::kOk) return status;
    }
  }
  buffer.freed = nullptr;
  buffer.rare->marked.clear();
  return Status::kOk;
}

// Makes a piece of a freed buffer that is in place read as zero, behind what still uses it.
Status ContentMover::zero(PieceId id) {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  std::vector<EventRef> after;
  for (const EventRef& event : {buffer.freed, piece.ready}) {
    if (event != nullptr) after.push_back(event);
  }
  (void)buffer.rare->marked.covered(after);
  const Address window = piece.page().window;
  const Bytes extent = piece.page().extent;
  Transferred filled;
  {
    const Unlocked unlocked(core_.mutex);
    filled = core_.transfers.fill(window, extent, after);
  }
  piece.page().extent =
      filled.status == Status::kOk ? buffer.content_of(id.index) : piece.page().size;
  if (filled.done != nullptr || filled.status == Status::kOk) {
    // Also where it failed: part of it may still come, which the page's next owner waits for.
    buffer.set_ready(id.index, filled.done);
  }
  piece.page_is_untracked = piece.page_is_untracked || filled.untracked;
  return filled.status;
}

}  // namespace superpipe
