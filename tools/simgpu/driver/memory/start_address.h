// Where memory begins by default, so that numbers hardly look like addresses of it.
#pragma once

#include <cstdint>

#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

/// One of the addresses at which memory begins by default is in any range of so many bytes.
inline constexpr std::uint64_t kStartDistance = std::uint64_t{1} << 32;
/// Their lower half.
inline constexpr std::uint64_t kStartHalf = 0x8100'0000;
/// The largest power of two of which all these addresses are multiples.
inline constexpr std::uint64_t kStartAlignment = std::uint64_t{1} << 24;

/// The first address from `address` on at which memory may begin.
///
/// Programs hand structs over with what the stack had in the bytes that no member covers: there, a
/// number of 32 bits may lie beside the upper half of an old address. Were memory to begin
/// anywhere, the two would name some of it by chance in one run of fifty, and a mixer's result
/// would depend on that. As it is, they name none of the first 752 MiB unless the number, as a
/// float, is below -1e-38 and above -1e-9. Minus zero and the least integer lie before them.
inline std::uint64_t next_start(std::uint64_t address) {
  constexpr std::uint64_t kMissing = kStartDistance - kStartHalf;
  return align_up(address + kMissing, kStartDistance) - kMissing;
}

}  // namespace simgpu
