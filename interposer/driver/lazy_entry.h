// What a slot of the driver table holds until the driver is loaded.
#pragma once

#include <cstddef>

#include "interposer/driver/loader.h"

namespace superpipe {

/// Loads the driver at its first call, then calls the function that the driver has in slot kIndex.
template <std::size_t kIndex, typename Pointer>
struct LazyEntry;

template <std::size_t kIndex, typename... Arguments>
struct LazyEntry<kIndex, CUresult (*)(Arguments...)> {
  static CUresult call(Arguments... arguments) noexcept {
    void* const real = resolve_driver_function(kIndex);
    if (real == nullptr) return answer_without_function(kIndex);
    return reinterpret_cast<CUresult (*)(Arguments...)>(real)(arguments...);
  }
};

}  // namespace superpipe
