// Digests of what the program filled on the host, so that it need not be written back unless it
// changes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "policy/units.h"
#include "residency/content_digest.h"
#include "residency/host/host_store.h"
#include "residency/manager_mutex.h"
#include "residency/pieces/buffer_table.h"
#include "residency/residency_core.h"
#include "residency/streams/event_pool.h"
#include "residency/tuning.h"

namespace superpipe {

/// Learns the digests of slabs that the program has written to.
///
/// What a program loads beyond the budget goes to the host alone, and no digest of the device's
/// tells what the slab has. When it left the device for the first time it would be written back,
/// changed or not. So the stocker's thread computes the digest of each piece that was filled there,
/// once nothing works on it, while there is nothing to pin. Neither the device nor the program
/// waits for that, except a thread that writes to the same piece just then.
///
/// A part of the manager, under its mutex, which it opens while it reads. Waits on nothing.
class HostDigests {
 public:
  /// What is read in one step: a thread that writes to the piece waits for no more.
  static constexpr Bytes kStep = tuning::kHostDigestStep;
  /// A piece that the program began to write to so lately is not looked at yet. While no piece can
  /// be read the next look is each time after twice as long, up to kLongestRest.
  static constexpr auto kQuiet = tuning::kHostDigestQuiet;
  static constexpr auto kLongestRest = tuning::kHostDigestLongestRest;

  explicit HostDigests(ResidencyCore& core) : core_(core) {}

  /// An operation of the program is about to write to the piece's part of the slab: it has pinned
  /// that, and nothing reads it. Without host memory to note it, the digest will not be known.
  void note_write(PieceId id) noexcept REQUIRES(manager_lock);

  /// Does one step. For the stocker alone. @return whether there was one to do.
  bool run() noexcept REQUIRES(manager_lock);
  /// After how long run() is to be called again; nullopt: no piece is left.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> rest() const REQUIRES(manager_lock);

  /// The slab of a buffer whose life ends is to be released when it is no more read, and all of
  /// `after` has completed. @return false: it is not being read, and nothing was done.
  bool release_later(BufferId id, const Slab& slab, std::vector<EventRef>& after) noexcept
      REQUIRES(manager_lock);
  /// REQUIRES: run() is not under way.
  void clear() REQUIRES(manager_lock) {
    waiting_.clear();
    piece_.reset();
  }

 private:
  /// So many pieces wait at most: those of buffers that are gone are only found in their turn.
  static constexpr std::size_t kMostWaiting = 65'536;

  struct Waiting {
    PieceId piece;
    std::uint64_t generation;
    ResidencyCore::Clock::time_point since;
  };
  /// A piece that was read in part.
  struct Begun {
    Waiting piece;
    std::uint64_t ticket;  ///< the piece has another one: what was read does not count any more
    Bytes read;
    ContentDigest sum;  ///< of the parts that were read
  };
  /// What a step reads at this moment.
  struct Reading {
    BufferId buffer{};
    Slab orphan;  ///< its buffer's life has ended: to be released
    std::vector<EventRef> after;
  };

  bool begin_next() noexcept REQUIRES(manager_lock);
  [[nodiscard]] Buffer* live(const Waiting& waiting) const REQUIRES(manager_lock);
  enum class Readiness { kNow, kLater, kNever };
  [[nodiscard]] Readiness readiness_of(const Waiting& waiting) noexcept REQUIRES(manager_lock);
  [[nodiscard]] static bool is_worked_on(const Buffer& buffer, const Piece& piece)
      REQUIRES(manager_lock);
  bool step(Begun& begun) noexcept REQUIRES(manager_lock);

  ResidencyCore& core_;
  std::list<Waiting> waiting_ GUARDED_BY(manager_lock);  ///< each piece of today's buffers once
  std::chrono::nanoseconds rest_ GUARDED_BY(manager_lock){kQuiet};
  std::optional<Begun> piece_ GUARDED_BY(manager_lock);  ///< the one that is read, in steps
  std::optional<Reading> reading_ GUARDED_BY(manager_lock);
};

}  // namespace superpipe
