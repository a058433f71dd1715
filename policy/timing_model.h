// How long a pass takes at least.
#pragma once

#include <chrono>

#include "policy/units.h"

namespace superpipe {

/// A span of modelled time.
using Seconds = std::chrono::duration<double>;

/// The speed of a link in one direction. GB/s are 10^9 bytes per second.
struct Bandwidth {
  double bytes_per_second = 0.0;

  /// The time that `bytes` take. REQUIRES: bytes_per_second > 0.
  [[nodiscard]] Seconds time_for(Bytes bytes) const {
    return Seconds{static_cast<double>(bytes.count()) / bytes_per_second};
  }
};

/// What the bound of a pass depends on.
struct PassCost {
  Seconds compute{};  ///< of all its launches, with everything on the device
  Bytes persistent;   ///< W: the persistent bytes of a pass
  Bandwidth host_to_device;
};

/// What no schedule can beat where `fit` bytes may stay from pass to pass (budget less transient
/// peak): max(compute, (W - fit) / link); compute where all fits. With nothing that stays it is
/// what a window that slides over all of W cannot beat. Pure.
[[nodiscard]] Seconds physical_bound(const PassCost& cost, Bytes fit);

}  // namespace superpipe
