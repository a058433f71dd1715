// Has content copied to the host before it is chosen to leave.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "policy/recorded_run.h"
#include "policy/units.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/room/eviction_queue.h"
#include "residency/transfer/evictor.h"
#include "residency/transfer/use_completion.h"
#include "residency/tuning.h"

namespace superpipe {

/// Copies to the host what a recorded run wrote back in its first pass, while nothing else has to
/// go there (precleaning: W. Stallings, "Operating Systems", on cleaning policies).
///
/// What a program loads to the device is on the device alone. So the first pass has to write back
/// what leaves, and what comes waits for that. Copied before, it leaves at once, unless it was
/// changed, which a digest tells. One piece at a time: it is not mapped meanwhile (I2), and an
/// operation that wants it waits for that copy. Takes slabs that its buffer has, or that were
/// pinned ahead for evictions.
///
/// Begins while everything fits still: what was recorded says that it will not. If the budget was
/// raised since, that is not known any more, and it waits until something has to go (I6).
///
/// A part of the manager, under its mutex, which it opens for calls of the device. Waits on
/// nothing.
class Precleaner {
 public:
  /// While no piece can be copied, the next look is each time after twice as long.
  static constexpr auto kShortestRest = tuning::kPrecleanShortestRest;
  static constexpr auto kLongestRest = tuning::kPrecleanLongestRest;

  Precleaner(ResidencyCore& core, Evictor& evictor, const EvictionQueue& evictions,
             const UseCompletion& completion);

  /// A buffer begins its life. Without host memory to note it, it is written back when it leaves.
  void on_begin_life(BufferId id) noexcept REQUIRES(manager_lock);

  /// Begins to copy a piece, if one can be copied now. @return whether it did.
  bool run() noexcept REQUIRES(manager_lock);
  /// Whether a copy is under way.
  [[nodiscard]] bool is_pending() const REQUIRES(manager_lock) { return core_.is_precleaning; }
  /// After how long run() is to be called again; nullopt: there is nothing to be copied.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> rest() const REQUIRES(manager_lock) {
    return has_more() ? std::optional(rest_) : std::nullopt;
  }

 private:
  /// A piece that exists, by its place in the order of the recorded evictions.
  struct Candidate {
    PieceId piece;
    std::uint64_t generation;
    int copies = 0;                 ///< of it that were begun
    std::uint64_t known_write = 0;  ///< Buffer::known_write when the last one was begun
  };
  using Candidates = std::map<std::size_t, Candidate>;
  /// A recorded buffer: the size of its pages, and its place among those of that size.
  using Recorded = std::pair<Bytes, std::uint64_t>;

  [[nodiscard]] bool has_more() const REQUIRES(manager_lock) {
    return core_.follows_recorded && !candidates_.empty() && core_.digester.is_ready();
  }
  [[nodiscard]] bool may_fit() const REQUIRES(manager_lock);
  [[nodiscard]] bool is_time() REQUIRES(manager_lock);
  enum class Fit { kGone, kLater, kNow };
  [[nodiscard]] Fit fit_of(const Candidate& candidate) const REQUIRES(manager_lock);

  ResidencyCore& core_;
  Evictor& evictor_;
  const EvictionQueue& evictions_;
  const UseCompletion& completion_;
  /// The pieces of each recorded buffer by their numbers in it, and their first places.
  std::map<Recorded, std::map<std::uint32_t, std::size_t>> expected_ GUARDED_BY(manager_lock);
  std::map<Bytes, std::uint64_t> begun_ GUARDED_BY(manager_lock);  ///< buffers so far, by size
  Candidates candidates_ GUARDED_BY(manager_lock);
  std::size_t next_ GUARDED_BY(manager_lock) = 0;  ///< the place from which on the next look looks
  std::chrono::nanoseconds rest_ GUARDED_BY(manager_lock){kShortestRest};
};

}  // namespace superpipe
