// How pass-through memory may change without anybody counting it.
#pragma once

#include <cstdint>

namespace superpipe {

/// A call of the program changes pass-through memory by an amount that only the device knows.
enum class PassthroughChange : std::uint8_t {
  kGrowth = 1,    ///< code is loaded, a context or a graph is made
  kFree = 2,      ///< an allocation is freed, a pool trimmed, code unloaded
  kLateFree = 4,  ///< a free in stream order: the driver takes the memory back when it likes
};

}  // namespace superpipe
