// Every managed buffer: what it is, where its newest content is, and what still uses it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"
#include "residency/content_digest.h"
#include "residency/device_memory.h"
#include "residency/host/host_copy.h"
#include "residency/host/host_store.h"
#include "residency/manager_mutex.h"
#include "residency/pieces/fetch_queue.h"
#include "residency/pieces/page_pool.h"
#include "residency/pieces/piece_state.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/stream_table.h"

namespace superpipe {

/// A part of a buffer that is on the device or not: it has a physical page of its own. While its
/// content moves, only the operation that moves it changes its page.
class Piece {
 public:
  /// Completes when its content has arrived; null: it has. Changed by Buffer::set_ready().
  EventRef ready GUARDED_BY(manager_lock);
  /// Completes when the slab has the content; null: it has.
  EventRef write_back GUARDED_BY(manager_lock);
  /// The number of its buffer's last write that the slab has, too (Buffer::writes).
  std::uint64_t clean_at GUARDED_BY(manager_lock) = 0;
  /// Of what its part of the slab has; nullopt: not known.
  std::optional<ContentDigest> host_digest GUARDED_BY(manager_lock);
  /// Of the digest under way of what its page had when it was taken out; 0: none, or of no use any
  /// more.
  std::uint64_t digest_ticket GUARDED_BY(manager_lock) = 0;
  /// The program has written to its part of the slab, and HostDigests is to compute the digest.
  bool awaits_host_digest GUARDED_BY(manager_lock) = false;
  /// Of the digest that HostDigests is computing of its part of the slab; 0: none, or of no use.
  std::uint64_t host_digest_ticket GUARDED_BY(manager_lock) = 0;
  /// HostDigests is reading its part of the slab: nothing may write to that.
  bool is_read_on_host GUARDED_BY(manager_lock) = false;
  /// Until it is in, its content is known to be zero: no page has it, and a slab only if that was
  /// zeroed.
  bool is_zero GUARDED_BY(manager_lock) = false;
  /// Evictor::preclean() has copied its content to the slab, and no eviction has taken it out
  /// since.
  bool was_precleaned GUARDED_BY(manager_lock) = false;
  /// How many digests in a row found its content changed, as far as it matters to the evictor.
  std::uint8_t changes GUARDED_BY(manager_lock) = 0;
  /// Of the eviction that is to take it; 0: none.
  std::uint64_t evict_ticket GUARDED_BY(manager_lock) = 0;
  /// The turn in which an eviction of it failed: it is not chosen again in that turn; 0: none.
  std::uint64_t evict_failed GUARDED_BY(manager_lock) = 0;
  Want want GUARDED_BY(manager_lock) = Want::kNobody;
  /// A transfer of ours on its page has an end that no event marks: never moved, never reused.
  bool page_is_untracked GUARDED_BY(manager_lock) = false;
  /// Policy has been told that it is on the device, or on its way there.
  bool told_in GUARDED_BY(manager_lock) = false;
  /// The pool has been told that its page comes back soon.
  bool told_vacating GUARDED_BY(manager_lock) = false;
  /// Its demand is served over the limit.
  bool may_exceed_limit GUARDED_BY(manager_lock) = false;
  /// Why its last demand failed.
  Status fetch_status GUARDED_BY(manager_lock) = Status::kOk;

  [[nodiscard]] PieceState state() const REQUIRES(manager_lock) { return state_; }
  /// Whether its page is mapped at its address.
  [[nodiscard]] bool is_in() const REQUIRES(manager_lock) { return state_ == PieceState::kIn; }
  /// Whether it can be asked for, to be brought in.
  [[nodiscard]] bool is_out() const REQUIRES(manager_lock) { return facts_of(state_).is_out; }
  /// Whether it is being brought in or taken out: nothing else may do that, nor use it.
  [[nodiscard]] bool is_moving() const REQUIRES(manager_lock) { return facts_of(state_).is_moving; }
  /// Whether it is out, and the slab has its newest content, if there is any.
  [[nodiscard]] bool is_on_host() const REQUIRES(manager_lock) {
    return state_ == PieceState::kOut;
  }
  /// Whether it is being brought in, and has its page: nothing needs to leave for it any more.
  [[nodiscard]] bool is_on_its_way() const REQUIRES(manager_lock) {
    return state_ == PieceState::kArriving;
  }
  [[nodiscard]] bool has_page() const REQUIRES(manager_lock) { return page_.has_value(); }
  /// REQUIRES: has_page().
  [[nodiscard]] Page& page() REQUIRES(manager_lock) { return *page_; }
  [[nodiscard]] const Page& page() const REQUIRES(manager_lock) { return *page_; }
  /// Whether its content has not arrived yet, as far as it is known.
  [[nodiscard]] bool is_filling() const REQUIRES(manager_lock) {
    return ready != nullptr && !ready->is_known();
  }

 private:
  friend struct Buffer;
  friend class PieceStates;

  PieceState state_ GUARDED_BY(manager_lock) = PieceState::kOut;
  std::optional<Page> page_ GUARDED_BY(manager_lock);
};

/// What few buffers ever have, apart from what each launch looks at.
struct RareUses {
  /// The ends of launches that were begun without the buffer, in the order in which they were
  /// submitted; those that are known to have completed may be missing.
  std::vector<EventRef> left_out_until;
  /// What streams of the shared slot did with it; once it is cached, what all streams did except
  /// that of the free. None uses its memory again before this is over.
  SharedUses marked;
};

/// One managed buffer, cut into pieces of one size and a remainder. `base` and `size` are read
/// without the manager's mutex. Fields that a launch touches come first.
struct alignas(64) Buffer {
  std::atomic<Address> base{0};
  /// Mask of slots with uses that are not known to be over.
  std::uint64_t uses GUARDED_BY(manager_lock) = 0;
  /// Mask of slots ordered behind `ready` of all pieces.
  std::uint64_t waited GUARDED_BY(manager_lock) = 0;
  /// Sequence of its last submitted use.
  std::uint64_t last_use GUARDED_BY(manager_lock) = 0;
  /// The collection that named it last (to name it once).
  std::uint64_t mark GUARDED_BY(manager_lock) = 0;
  /// How many operations may have written it on the device.
  std::uint64_t writes GUARDED_BY(manager_lock) = 0;
  /// Operations between begin and end.
  std::uint32_t pins GUARDED_BY(manager_lock) = 0;
  /// Pieces that are not in place.
  std::uint32_t missing GUARDED_BY(manager_lock) = 0;
  /// Pieces with a `ready`.
  std::uint32_t filling GUARDED_BY(manager_lock) = 0;
  /// Pieces of which an eviction was requested.
  std::uint32_t evictions_requested GUARDED_BY(manager_lock) = 0;
  // -- second cache line
  /// The number of the last of the `writes` that was no launch: a copy or a memset, which does
  /// write.
  std::uint64_t known_write GUARDED_BY(manager_lock) = 0;
  /// How many buffers the program had asked for by then, this one included.
  std::uint64_t number GUARDED_BY(manager_lock) = 0;
  /// As the program asked, in bytes.
  std::atomic<std::uint64_t> size{0};
  /// Bytes of its pages.
  Bytes footprint GUARDED_BY(manager_lock);
  /// Bytes of each piece except the last.
  Bytes piece_size GUARDED_BY(manager_lock);
  std::vector<Piece> pieces GUARDED_BY(manager_lock);
  /// Pieces whose content moves at this moment.
  std::uint32_t moving GUARDED_BY(manager_lock) = 0;
  /// The program has it; else it is cached, about to begin its life, or an unused id.
  bool live GUARDED_BY(manager_lock) = false;
  /// Taken out of the cache or created, and about to begin its life.
  bool is_beginning GUARDED_BY(manager_lock) = false;
  /// Never written: there is no content to keep.
  bool fresh GUARDED_BY(manager_lock) = true;
  /// Never to be moved again.
  bool pinned_forever GUARDED_BY(manager_lock) = false;
  /// No host memory is set aside for its content, so that it stays on the device (HostBacking).
  bool stays GUARDED_BY(manager_lock) = false;
  /// Nothing marks the end of a launch that was begun without it.
  bool stays_left_out GUARDED_BY(manager_lock) = false;
  /// It was freed while such a launch may run, and is neither cached nor forgotten before it ends.
  bool is_held_back GUARDED_BY(manager_lock) = false;
  /// Cached: the slot of the stream on which it was freed.
  Slot freed_on GUARDED_BY(manager_lock) = kNoSlot;
  /// Launches between begin and end that named it and were begun without it: until they have
  /// completed nothing of it may come in, for a kernel that does use it shall fault and not read
  /// what is not there yet.
  std::uint32_t left_out GUARDED_BY(manager_lock) = 0;
  /// The last kernel that was launched without it; KernelId{}: none was.
  KernelId left_out_by GUARDED_BY(manager_lock){};
  /// Counts lives of the id, so that stale jobs are seen.
  std::uint64_t generation GUARDED_BY(manager_lock) = 0;
  HostCopy host GUARDED_BY(manager_lock);
  /// Cached: what must complete before others use it; null: all has.
  EventRef freed GUARDED_BY(manager_lock);
  /// Never null: the id has it for as long as the table lives.
  std::unique_ptr<RareUses> rare GUARDED_BY(manager_lock);

  /// Cuts it into pieces of `bytes` each, all out. `bytes`: a multiple of the granule. Throws
  /// std::bad_alloc, with nothing changed.
  void cut(Bytes whole, Bytes bytes) REQUIRES(manager_lock);
  /// The reverse: no page, no piece, no footprint.
  void uncut() noexcept REQUIRES(manager_lock);

  [[nodiscard]] Bytes offset_of(std::uint32_t piece) const REQUIRES(manager_lock) {
    return Bytes{piece * piece_size.count()};
  }
  /// What the page of a piece takes.
  [[nodiscard]] Bytes bytes_of(std::uint32_t piece) const REQUIRES(manager_lock) {
    return std::min(piece_size, footprint - offset_of(piece));
  }
  /// What the program can see of a piece.
  [[nodiscard]] Bytes content_of(std::uint32_t piece) const REQUIRES(manager_lock) {
    return std::min(piece_size, Bytes{size.load(std::memory_order_relaxed)} - offset_of(piece));
  }
  [[nodiscard]] Address address_of(std::uint32_t piece) const REQUIRES(manager_lock) {
    return base.load(std::memory_order_relaxed) + offset_of(piece).count();
  }
  /// The part of the slab that backs a piece. REQUIRES: there is a slab.
  [[nodiscard]] Slab slab_of(std::uint32_t piece) const REQUIRES(manager_lock) {
    return {host.slab.data + offset_of(piece).count(), content_of(piece)};
  }
  /// The pieces that hold bytes of [offset, offset + bytes), which lies within the buffer.
  [[nodiscard]] std::span<const Piece> pieces_at(Bytes offset, Bytes bytes) const
      REQUIRES(manager_lock);

  /// The content of a piece arrives with `ready`: no stream has waited for that yet. Null: it is
  /// there.
  void set_ready(std::uint32_t piece, EventRef ready) noexcept REQUIRES(manager_lock);
  /// An operation that may write the buffer uses it on the device.
  void note_write() REQUIRES(manager_lock) {
    ++writes;
    fresh = false;
  }
  /// The operation that was noted last does write it.
  void note_known_write() REQUIRES(manager_lock) { known_write = writes; }
  /// All its uses are over.
  void forget_uses() REQUIRES(manager_lock) {
    uses = 0;
    rare->marked.clear();
  }
  /// The slab has nothing of what a piece has, whether or not an operation that was noted wrote it.
  void note_slab_lacks(std::uint32_t piece) REQUIRES(manager_lock) {
    pieces[piece].clean_at = ~std::uint64_t{0};
  }
  /// Whether the page of a piece may be newer than the slab.
  [[nodiscard]] bool is_dirty(std::uint32_t piece) const REQUIRES(manager_lock) {
    return !fresh && pieces[piece].clean_at != writes;
  }
  /// Whether no operation that was noted has written to a piece that is in place, and the host has
  /// no content of it either.
  [[nodiscard]] bool is_fresh(std::uint32_t piece) const REQUIRES(manager_lock) {
    return fresh || (!host.has_home() && pieces[piece].clean_at == writes);
  }
  /// Whether a launch that was begun without it may not have completed.
  [[nodiscard]] bool is_left_out() const REQUIRES(manager_lock) {
    return left_out > 0 || stays_left_out || !rare->left_out_until.empty();
  }
  /// Whether a slab has to be pinned before a piece can leave, which takes long.
  [[nodiscard]] bool lacks_slab_for(std::uint32_t piece) const REQUIRES(manager_lock) {
    return is_dirty(piece) && !host.has_home();
  }
  /// Whether a copy or a memset has written to the buffer since the slab had what the piece has.
  [[nodiscard]] bool has_known_write(std::uint32_t piece) const REQUIRES(manager_lock) {
    return known_write > pieces[piece].clean_at;
  }
  /// Whether the host has the content of all pieces that have been there, which a fetch copies. A
  /// further kind of home changes this, HostCopy::has_home() and has_or_gets_home().
  [[nodiscard]] bool has_host_content() const REQUIRES(manager_lock) {
    return !fresh && host.has_home();
  }
  /// Whether the content of a piece that is out is known to be zero.
  [[nodiscard]] bool has_zeros() const REQUIRES(manager_lock) {
    return std::ranges::any_of(
        pieces, [](const Piece& piece) REQUIRES(manager_lock) { return piece.is_zero; });
  }
  /// Whether a piece is neither in place nor on its way to that.
  [[nodiscard]] bool needs_fetch() const REQUIRES(manager_lock) {
    const auto is_needed = [](const Piece& piece) REQUIRES(manager_lock) {
      return !piece.is_in() && !piece.is_on_its_way();
    };
    return missing > 0 && std::ranges::any_of(pieces, is_needed);
  }
  /// Whether any piece has a page, in place or not.
  [[nodiscard]] bool has_pages() const REQUIRES(manager_lock);
  /// What the pieces in place take.
  [[nodiscard]] Bytes bytes_in_place() const REQUIRES(manager_lock);
  /// Whether a transfer on the page of any piece has an end that no event marks.
  [[nodiscard]] bool is_untracked() const REQUIRES(manager_lock);
  /// Whether the content of all pieces is known to have arrived; forgets what there was to wait
  /// for. O(pieces) while some may not have.
  [[nodiscard]] bool has_arrived() noexcept REQUIRES(manager_lock);

  /// Whether a launch on `slot` lacks nothing of it: it is in place, and its content
  /// has arrived or the stream was made to wait for it.
  [[nodiscard]] bool is_ready_for(Slot slot) REQUIRES(manager_lock) {
    if ((missing | filling) == 0) [[likely]]
      return true;
    return missing == 0 && (has_waited(slot) || has_arrived());
  }
  /// Whether the stream of `slot` is ordered behind all that is not there yet.
  [[nodiscard]] bool has_waited(Slot slot) const REQUIRES(manager_lock) {
    return slot < StreamTable::kShared && (waited >> slot & 1) != 0;
  }

 private:
  friend class PieceStates;

  void set_state(std::uint32_t piece, PieceState state) noexcept REQUIRES(manager_lock);
};

// A launch finds each of its buffers several times, in a table: by a shift, at this size.
static_assert(sizeof(Buffer) == 256);

/// A piece, by its buffer's id and its number there.
struct PieceId {
  BufferId buffer;
  std::uint32_t index;
  bool operator==(const PieceId&) const = default;
};

/// Buffers by id. Ids are small and reused, last freed first; buffers never move.
///
/// operator[] is lock-free.
class BufferTable {
 public:
  static constexpr std::uint32_t kChunk = 256;
  static constexpr std::uint32_t kChunks = 4096;

  BufferTable() = default;
  ~BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;

  /// A new id with a fresh buffer; nullopt if there are a million already. Throws std::bad_alloc,
  /// with nothing changed.
  std::optional<BufferId> create() REQUIRES(manager_lock);
  /// Forgets the buffer; its id will come again. Its generation goes on. Allocates nothing.
  void destroy(BufferId id) noexcept REQUIRES(manager_lock);

  /// REQUIRES: create() has returned `id` once.
  [[nodiscard]] Buffer& operator[](BufferId id) const noexcept {
    const std::uint32_t index = index_of(id);
    return chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
  }

  /// Ids are below it.
  [[nodiscard]] std::uint32_t end() const REQUIRES(manager_lock) { return end_; }

 private:
  std::array<std::atomic<Buffer*>, kChunks> chunks_{};
  std::uint32_t end_ GUARDED_BY(manager_lock) = 0;
  std::vector<BufferId> unused_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
