#include "residency/evictor.h"

#include <new>
#include <optional>
#include <utility>

namespace superpipe {

namespace {

// A write-back to the whole slab comes after the operations on it, and whoever comes next waits for
// that write-back. Beside one to a part, only operations that are known to be over are forgotten:
// other parts may still have to wait for them.
void forget_operations(Buffer& buffer) REQUIRES(manager_lock) {
  if (buffer.pieces.size() == 1) {
    buffer.host.operations.clear();
  } else {
    buffer.host.forget_completed();
  }
}

}  // namespace

void Evictor::evict(PieceId id) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  Piece& piece = buffer.pieces[id.index];
  const Address address = buffer.address_of(id.index);
  const Bytes bytes = buffer.bytes_of(id.index);
  const bool writes_back = buffer.is_dirty(id.index);
  buffer.set_place(id.index, Place::kEvicting);
  buffer.uses = 0;  // all have completed
  core_.tell_whereabouts(id);
  const auto begun = core_.now();
  core_.ledger.begin_vacating(bytes);
  std::vector<EventRef> after;
  Status status = writes_back ? prepare_write_back(id, after) : Status::kOk;
  const Slab slab = writes_back && status == Status::kOk ? buffer.slab_of(id.index) : Slab{};
  const bool asks_operations = slab && !buffer.host.operations.empty();
  const PageHandle handle = piece.page->handle;
  const Address window = piece.page->window;
  Transferred written;
  bool mapped = true;
  if (status == Status::kOk) {
    const Unlocked unlocked(core_.mutex);
    status = core_.device.unmap(address, bytes);
    mapped = status != Status::kOk;
    if (!mapped && writes_back) {
      if (asks_operations) (void)core_.events.all_complete(after);
      written = core_.transfers.write_back(window, slab, slab.size, after);
      status = written.status;
      if (status != Status::kOk) {
        mapped = core_.device.map(address, bytes, handle) == Status::kOk;
      }
    }
  }
  core_.ledger.end_vacating(bytes);
  if (status != Status::kOk) {
    // The page keeps the content: in its place or, if it cannot even be mapped, out of it.
    ++core_.counters.errors;
    buffer.set_place(id.index, mapped ? Place::kIn : Place::kOut);
    piece.evict_failed = core_.turns;
    piece.page_is_untracked = piece.page_is_untracked || written.untracked;
    if (written.done != nullptr) piece.write_back = written.done;
    core_.tell_whereabouts(id);
    core_.announce_change();
    return;
  }
  if (core_.timeline != nullptr) {
    core_.timeline->note_arrival(id.buffer, begun);
    core_.timeline->add(Timeline::Kind::kEvictBegin, begun, id.buffer, bytes);
    core_.timeline->add_when(written.done, Timeline::Kind::kEvictEnd, core_.now(), id.buffer,
                             bytes);
  }
  if (writes_back) {
    piece.write_back = written.done;
    piece.clean_at = buffer.writes;
    forget_operations(buffer);
    piece.page->after.assign(1, written.done);
    core_.counters.d2h_bytes += slab.size;
    ++core_.counters.write_backs;
  } else {
    ++core_.counters.clean_evictions;
  }
  core_.pool->put(*std::exchange(piece.page, std::nullopt));
  buffer.set_place(id.index, Place::kOut);
  buffer.set_ready(id.index, nullptr);
  core_.tell_whereabouts(id);
  core_.announce_change();
}

// Gets the slab and appends what the write-back has to wait for.
Status Evictor::prepare_write_back(PieceId id, std::vector<EventRef>& after) noexcept {
  Buffer& buffer = core_.buffers[id.buffer];
  try {
    // The other pieces may never be written to it.
    const bool zeroed = core_.options.zero_fill && buffer.pieces.size() > 1;
    Status status = mover_.ensure_slab(buffer, zeroed);
    if (status == Status::kOk) status = streams_.resolve(buffer.host, false, after);
    // Once the write-back is enqueued, noting it may not fail.
    buffer.pieces[id.index].page->after.reserve(1);
    return status;
  } catch (const std::bad_alloc&) {
    return Status::kOutOfHostMemory;
  }
}

}  // namespace superpipe
