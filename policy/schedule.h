// When which layers are moved: the windows of the policies that have k and k'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// How windows advance.
enum class WindowKind {
  kNaive,               ///< k layers, then the next k; nothing overlaps
  kSuperpipelinePaper,  ///< k layers, moved on by k'; each pass begins by waiting for k layers
};

/// A window schedule over the visits of a pass. REQUIRES: k >= 1; 1 <= k_prime < k unless kNaive;
/// visits >= 1.
struct WindowSchedule {
  WindowKind kind = WindowKind::kSuperpipelinePaper;
  std::size_t k = 1;
  std::size_t k_prime = 1;  ///< kNaive: ignored
  std::size_t visits = 1;   ///< m: how many visits of layers make a pass
};

/// The visits whose layers shall be on the device: [begin, begin + count) of the endless sequence.
struct Window {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  bool wait = false;  ///< the first of them may start only when all have arrived

  bool operator==(const Window&) const = default;
};

/// The window that is set up when visit `visit` of the endless sequence (pass * m + position)
/// begins, or nullopt if the last one stays.
///
/// What lies outside the window is evicted, what is missing inside is fetched, in order. Naive: at
/// each multiple of k within a pass. As Superpipeline was published (Abbasi and Lim, 2024): at each
/// multiple of k' within a pass, never beyond its end. Pure. O(1).
[[nodiscard]] std::optional<Window> window_at(const WindowSchedule& schedule, std::uint64_t visit);

/// The window with which to join the schedule in its midst, at `visit`, nothing being known of what
/// lies on the device. Later windows are window_at()'s. Pure. O(1).
[[nodiscard]] Window window_from(const WindowSchedule& schedule, std::uint64_t visit);

/// What each visit of a pass needs on the device: indices into a table of items (layers or
/// buffers).
using VisitNeeds = std::vector<std::vector<std::uint32_t>>;

/// The most bytes that `k` consecutive visits need together, each item counted once, over the
/// cyclic sequence. `item_bytes`: indexed by item. Pure. O(needs).
[[nodiscard]] Bytes max_window_bytes(const VisitNeeds& needs, std::span<const Bytes> item_bytes,
                                     std::size_t k);

/// The largest k <= the number of visits whose max_window_bytes() is at most `available`.
/// Pure. O(needs * log visits).
/// @return 0 if not even one visit fits.
[[nodiscard]] std::size_t largest_fitting_k(const VisitNeeds& needs,
                                            std::span<const Bytes> item_bytes, Bytes available);

}  // namespace superpipe
