// How much of each layer is on the device, to be looked at while the program runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/live_pass.h"
#include "policy/units.h"
#include "profiler/live_figures.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"

namespace superpipe {

/// The layers of policies that learn some, and under the others those of a pass that was seen: the
/// typical_pass() of the last ones.
///
/// Such a pass is grouped at a look, and the layers are kept, so that two looks show the same ones.
/// It is done again when passes have become twice as many, for the first ones may lack buffers of
/// the others or be no real passes; when a part of the layers' buffers is gone; and when policy
/// lost its place in the past, in which case other layers take the place of those that there are
/// only where the pass names much that is not in these. At most once in eight passes, after the
/// first ones. Layers of which most is gone are not shown.
///
/// A launch is told nothing of this, and costs what it costs without. A part of the manager.
class ShownLayers {
 public:
  explicit ShownLayers(ResidencyCore& core) : core_(core) {}

  /// Groups a pass if it is time to. Holds the mutex while it copies what is needed of the pass:
  /// some microseconds for thousands of launches, and at most about two milliseconds, since longer
  /// passes (LivePass) are not grouped. Groups without it, which takes tens of milliseconds for the
  /// longest ones. Where host memory runs out, all stays as it was. Any thread.
  void look() noexcept EXCLUDES(manager_lock);

  struct Layers {
    std::size_t count = 0;  ///< 0: none are known
    /// How much of each of the first ones is on the device, in percent of its buffers' bytes.
    std::array<std::uint8_t, kShownLayers> percent{};
  };
  /// The layers at this moment. `learned`: how many layers policy knows. Allocates nothing. Some
  /// nanoseconds per buffer, of at most 16,384: of more it tells only how many layers there are.
  [[nodiscard]] Layers layers(std::size_t learned) noexcept REQUIRES(manager_lock);

 private:
  /// A buffer of a layer. Its id may have become another buffer's, its number has not.
  struct Member {
    BufferId id;
    std::uint64_t number;
    Bytes bytes;
    std::uint32_t layer;
  };
  /// A pass that is being grouped.
  struct Grouping {
    LivePass pass;
    std::vector<std::uint64_t> numbers;  ///< of its buffers
    bool only_jumped;                    ///< there is no other reason than that the place was lost
    std::vector<Member> members;
    std::size_t layers = 0;
  };
  class Sums;

  [[nodiscard]] std::optional<Grouping> begin() REQUIRES(manager_lock);
  static void group(Grouping& grouping);
  void adopt(Grouping&& grouping) REQUIRES(manager_lock);
  [[nodiscard]] bool covers(const Grouping& grouping) const REQUIRES(manager_lock);

  ResidencyCore& core_;
  std::vector<Member> members_ GUARDED_BY(manager_lock);  ///< sorted by number
  std::size_t layers_ GUARDED_BY(manager_lock) = 0;
  Bytes bytes_ GUARDED_BY(manager_lock);                ///< of members_, when they were grouped
  std::uint64_t jumps_ GUARDED_BY(manager_lock) = 0;    ///< policy's, by then
  std::uint64_t soonest_ GUARDED_BY(manager_lock) = 1;  ///< so many passes: may be done again
  std::uint64_t twice_as_many_ GUARDED_BY(manager_lock) = 1;  ///< so many: is done again
  bool has_lost_ GUARDED_BY(manager_lock) = false;            ///< a part of members_ is gone
};

}  // namespace superpipe
