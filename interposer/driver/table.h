// The real driver's functions, resolved at the first call of any of them.
#pragma once

#include <cstddef>

#include "interposer/generated/driver_table.h"

namespace superpipe {

/// Each entry first points at a lazy entry that loads the driver; afterwards at the driver itself.
/// An entry that the driver lacks stays lazy, and answers CUDA_ERROR_NOT_SUPPORTED. Hidden, so that
/// a trampoline is one jump without a detour through the GOT.
extern __attribute__((visibility("hidden"))) DriverTable driver_table;

/// The real driver's functions. Any thread. The first call may load the driver (milliseconds).
inline DriverTable& driver() noexcept { return driver_table; }

/// Slot `index` of the table. REQUIRES: index < kDriverFunctionCount.
inline void** driver_slot(std::size_t index) noexcept {
  static_assert(sizeof(DriverTable) == kDriverFunctionCount * sizeof(void*));
  return reinterpret_cast<void**>(&driver_table) + index;
}

}  // namespace superpipe
