// Carries out the eviction of one piece.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "policy/recorded_run.h"
#include "residency/content_digest.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/digester.h"
#include "residency/transfer/page_mover.h"
#include "residency/transfer/stream_marker.h"
#include "residency/tuning.h"

namespace superpipe {

/// Takes pieces out, with the device calls that this takes.
///
/// A launch may write each buffer that it names, but mostly it only reads; and it may write buffers
/// that it does not name, through pointers that nothing of ours has seen. So no piece is dropped
/// because nothing is known to have written it: of content that only launches may have changed the
/// device computes a digest, between unmapping and write-back. If that of what the host has is
/// known, the piece waits for it, out and with its page, and is written back only if they differ;
/// else it is written back at once, and its digest is known the next time. Content that was found
/// changed twice in a row is not waited for any more, until a digest finds it unchanged. Where the
/// device computes no digests, each piece that leaves is written back.
///
/// A fresh piece, which nothing is known to have written, may have been written through a pointer
/// that nothing of ours saw. So it is dropped only if its digest is that of zeros, and reads as
/// zero when it comes back; else it is written back.
///
/// A part of the manager, under its mutex, which it opens for each call of the device. Waits for no
/// work of the program: write-backs and digests are enqueued, and events mark their ends. It may
/// wait, bounded, for a slab that is being pinned. Whatever fails, the newest content stays in at
/// least one place (I3).
class Evictor {
 public:
  /// A digest that has not come so long after the one before it, and some nanoseconds for its
  /// bytes, is not waited for: kernels of the program may keep it from running, and the page is
  /// wanted.
  static constexpr auto kPatience = tuning::kDigestPatience;

  Evictor(ResidencyCore& core, StreamMarker& streams, ContentMover& mover, PageMover& page_mover)
      : core_(core), streams_(streams), mover_(mover), page_mover_(page_mover) {}

  /// Takes out a piece of a buffer that nothing uses any more: unmaps it first, then copies its
  /// content or has it digested (I2). REQUIRES: it is in, and that the events of all uses of the
  /// buffer have completed.
  void evict(PieceId id) noexcept REQUIRES(manager_lock);

  /// Copies the content of a piece that stays to the host, so that a later eviction finds nothing
  /// to write back: unmaps it first (I2), and maps it again in settle_precleaning(), when the copy
  /// has ended, or when it is wanted; then launches wait for the copy, which does not count.
  /// REQUIRES: as evict(); its content has arrived and is dirty; core.is_precleaning is false.
  void preclean(PieceId id) noexcept REQUIRES(manager_lock);
  /// Brings that to its end if the copy has come to its own. @return whether it was.
  bool settle_precleaning() noexcept REQUIRES(manager_lock);
  /// Whether a write-back may be under way. Asks the device about the last one.
  [[nodiscard]] bool is_writing_back() noexcept REQUIRES(manager_lock);
  /// Pieces whose evictions found content that the host did not have, or had by preclean() alone,
  /// in order; the first kMostNoted of them. Buffers are numbered from 0.
  [[nodiscard]] const std::vector<RecordedRun::PieceOf>& noted_write_backs() const
      REQUIRES(manager_lock) {
    return noted_;
  }

  /// Brings evictions to their end whose digests have come, or are overdue. Asks the device about
  /// the oldest digest that has not. @return whether anything was done.
  bool settle_digests() noexcept REQUIRES(manager_lock);

  /// Whether digests are under way.
  [[nodiscard]] bool is_pending() const REQUIRES(manager_lock) { return !pending_.empty(); }
  /// REQUIRES: no digest is under way, or nothing will ask for it.
  void clear() REQUIRES(manager_lock) {
    pending_.clear();
    spare_.clear();
    precleaning_.reset();
    core_.is_precleaning = false;
    last_write_back_ = nullptr;
  }

 private:
  /// A digest under way, of what a piece had when it was taken out.
  struct Pending {
    PieceId piece;
    std::uint64_t generation;
    std::uint64_t ticket;  ///< 0: nothing needs it
    Digester::Slot slot;
    EventRef done;
    /// Of what the slab had before, if that was known; of zeros, if `of_fresh`.
    std::optional<ContentDigest> former;
    bool of_fresh;  ///< whether a fresh piece may be dropped is to be decided
    ResidencyCore::Clock::time_point since;
  };
  /// A piece whose content is being copied to the host, and stays.
  struct Precleaning {
    PieceId piece;
    std::uint64_t generation;
    std::uint64_t writes;  ///< Buffer::writes that the copy has
    bool has_digest;
    Digester::Slot slot;
    EventRef digested;  ///< null: no digest reads it
    EventRef written;
    ResidencyCore::Clock::time_point since;
  };
  static constexpr std::size_t kMostNoted = 65'536;
  static constexpr std::uint64_t kMostNumbered = std::uint64_t{1} << 32;

  /// What a digest is computed for.
  enum class Purpose {
    kNone,    ///< there is none
    kDecide,  ///< whether there is anything to write back
    kKnow,    ///< to be compared with at the next eviction
    kZeros,   ///< whether a fresh piece may be dropped
  };
  /// What the calls of an eviction need to know of the piece: nothing else changes it meanwhile.
  struct Plan {
    ResidencyCore::Clock::time_point begun;
    Purpose purpose;
    PageMover::Place place;
    PageMover::Leave leave;
  };
  using Outcome = PageMover::Left;

  [[nodiscard]] Purpose purpose_for(PieceId id) const REQUIRES(manager_lock);
  void note_place(PieceId id, Plan& plan) const REQUIRES(manager_lock);
  Status prepare(PieceId id, Plan& plan) noexcept REQUIRES(manager_lock);
  Status prepare_write_back(PieceId id, Plan& plan) REQUIRES(manager_lock);
  Outcome prepare_and_take_out(PieceId id, Plan& plan) noexcept REQUIRES(manager_lock);
  void await_digest(PieceId id, const Plan& plan, const Digester::Enqueued& digest) noexcept
      REQUIRES(manager_lock);
  Pending& note_digest(PieceId id, const Digester::Enqueued& digest) noexcept
      REQUIRES(manager_lock);
  void warn_once() noexcept REQUIRES(manager_lock);
  void finish(PieceId id, const Plan& plan, const Outcome& outcome) noexcept REQUIRES(manager_lock);
  void keep(PieceId id, const Outcome& outcome) noexcept REQUIRES(manager_lock);
  void note_write_back(PieceId id) noexcept REQUIRES(manager_lock);
  void leave_to_end(const Precleaning& over) noexcept REQUIRES(manager_lock);
  std::optional<ContentDigest> take_result(Digester::Slot slot, bool is_complete) noexcept
      REQUIRES(manager_lock);

  [[nodiscard]] Piece* holder_of(const Pending& pending) const REQUIRES(manager_lock);
  [[nodiscard]] bool is_of_one_owner(const RecordedEvent& digest) REQUIRES(manager_lock);
  void settle(const Pending& pending, bool is_complete, bool is_of_one_owner) noexcept
      REQUIRES(manager_lock);
  void finish_unchanged(const Pending& pending) noexcept REQUIRES(manager_lock);
  void settle_fresh(const Pending& pending, const std::optional<ContentDigest>& digest) noexcept
      REQUIRES(manager_lock);
  bool settle_overdue() noexcept REQUIRES(manager_lock);
  [[nodiscard]] std::chrono::nanoseconds patience_for(const Pending& pending) const
      REQUIRES(manager_lock);
  void write_back_late(PieceId id, ResidencyCore::Clock::time_point begun) noexcept
      REQUIRES(manager_lock);

  ResidencyCore& core_;
  StreamMarker& streams_;
  ContentMover& mover_;
  PageMover& page_mover_;
  std::list<Pending> pending_ GUARDED_BY(manager_lock);  ///< in the order of the device
  std::list<Pending> spare_ GUARDED_BY(manager_lock);    ///< at most one: the next one's node
  /// When the last digest was seen to have come.
  ResidencyCore::Clock::time_point settled_at_ GUARDED_BY(manager_lock);
  bool warned_ GUARDED_BY(manager_lock) = false;
  std::optional<Precleaning> precleaning_ GUARDED_BY(manager_lock);
  EventRef last_write_back_ GUARDED_BY(manager_lock);  ///< null: it has ended
  std::vector<RecordedRun::PieceOf> noted_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
