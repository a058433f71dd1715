// How large the pieces are of which a policy moves one at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "policy/units.h"

namespace superpipe {

/// The size of a piece under `budget`: a power of two between `granule`, which is one, and 32 MiB.
/// Without a budget, where k layers stay and nothing tells yet how large they are, 16 MiB.
///
/// Small pieces waste less: the room that is kept moving while the link works, and what of a buffer
/// fits beside the others. Large ones cost fewer calls: on an H200 the worker takes 120 to 150 us
/// for each piece, most of it within cuMemSetAccess and cuMemUnmap, in which the link carries 8
/// MiB. So a piece has 16 MiB, or a five hundredth of a budget of which that is more; of a small
/// budget it takes no more than one part in 32.
[[nodiscard]] constexpr Bytes piece_size_for(std::optional<Bytes> budget, Bytes granule) {
  constexpr Bytes kUsual = 16_MiB;
  if (!budget) return std::max(kUsual, granule);
  constexpr std::uint64_t kPieces = 512;
  constexpr std::uint64_t kFewestPieces = 32;
  const auto power_below = [](std::uint64_t count) {
    return Bytes{std::bit_floor(std::max<std::uint64_t>(count, 1))};
  };
  const Bytes wanted = std::clamp(power_below(budget->count() / kPieces), kUsual, 2 * kUsual);
  return std::max(std::min(wanted, power_below(budget->count() / kFewestPieces)), granule);
}

}  // namespace superpipe
