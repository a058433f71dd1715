// How pass-through memory may change without being counted.
#pragma once

#include <cstdint>

namespace superpipe {

/// A call of the program changes pass-through memory by an amount that only the device knows.
enum class PassthroughChange : std::uint8_t {
  kGrowth,    ///< code is loaded, a context or a graph is made
  kFree,      ///< an allocation is freed, a pool trimmed, code unloaded
  kLateFree,  ///< a free in stream order: the driver takes the memory back when it likes
};
inline constexpr int kPassthroughChanges = 3;

}  // namespace superpipe
