// How large the pieces are that a policy which counts bytes moves at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "policy/units.h"

namespace superpipe {

/// The size of a piece under `budget`: a power of two between `granule`, which is one, and 32 MiB.
///
/// Small pieces waste less: the room that is kept moving while the link works, and what of a buffer
/// fits beside the others. Large ones cost fewer calls: a map takes tens of microseconds, in which
/// the fastest links carry 2 MiB. A five hundredth of the budget is little waste, and 4 MiB are no
/// great cost; of a small budget a piece takes no more than one part in 64.
[[nodiscard]] constexpr Bytes piece_size_for(Bytes budget, Bytes granule) {
  constexpr std::uint64_t kPieces = 512;
  constexpr std::uint64_t kFewestPieces = 64;
  const auto power_below = [](std::uint64_t count) {
    return Bytes{std::bit_floor(std::max<std::uint64_t>(count, 1))};
  };
  const Bytes wanted = std::clamp(power_below(budget.count() / kPieces), 4_MiB, 32_MiB);
  return std::max(std::min(wanted, power_below(budget.count() / kFewestPieces)), granule);
}

}  // namespace superpipe
