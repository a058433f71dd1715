// How long a pass takes: bounds that no schedule beats, and a simulation of those we have.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/schedule.h"
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

/// `value` * 10^9 bytes per second.
[[nodiscard]] constexpr Bandwidth gigabytes_per_second(double value) {
  return Bandwidth{value * 1e9};
}

/// What the bounds of a pass depend on.
struct PassCost {
  Seconds compute{};  ///< of all its launches, with everything on the device
  Bytes persistent;   ///< W: the persistent bytes of a pass
  Bandwidth host_to_device;
};

/// A pass that streams all of W: what a sliding window cannot beat, max(compute, W / link). Pure.
[[nodiscard]] Seconds sliding_window_bound(const PassCost& cost);

/// What no schedule can beat where `fit` bytes may stay from pass to pass (budget less transient
/// peak): max(compute, (W - fit) / link); compute where all fits. Pure.
[[nodiscard]] Seconds physical_bound(const PassCost& cost, Bytes fit);

/// The physical bound with `fit` reduced by 2u: a piece arrives while another leaves, so the space
/// of two cannot hold what stays. `largest_piece`: u. Pure.
[[nodiscard]] Seconds achievable_bound(const PassCost& cost, Bytes fit, Bytes largest_piece);

/// One layer's visit in a pass.
struct VisitCost {
  std::uint32_t layer = 0;
  Seconds compute{};
};

/// A pass for the simulation.
struct PassModel {
  std::vector<VisitCost> visits;  ///< in order; layers index `layer_bytes`; not empty
  std::vector<Bytes> layer_bytes;
  Bandwidth host_to_device;
  Bandwidth device_to_host;  ///< only used with `write_back`
  bool write_back = false;   ///< every eviction copies the layer back first
  Seconds per_fetch{};       ///< fixed cost of a layer's fetch on the link (map, enqueue)
};

/// The steady state that a schedule settles in.
struct PassPrediction {
  Seconds pass{};   ///< mean time of a pass
  Seconds stall{};  ///< of it, time the device waits for fetches
  Bytes fetched;    ///< bytes host to device per pass, mean
  Bytes peak;       ///< the most bytes of layers on the device at once
};

/// Simulates passes of `model` under `schedule` until they repeat, and measures those.
///
/// Three engines run in order and side by side: compute, host to device, device to host. A visit
/// starts when its predecessor has ended and its layer has arrived; an evicted layer's pages are
/// free when its last visit has ended and, with write-back, it has been copied; a fetch starts when
/// the link and enough pages are free, of as many as the largest window takes. A window that waits
/// is not begun before the compute ahead of it has ended. With k of all layers or more, nothing is
/// moved. Pure. O(passes simulated * visits * k), about 6 + 2 k' passes.
/// REQUIRES: schedule.visits == model.visits.size(), layers in range, bandwidths above zero.
[[nodiscard]] PassPrediction simulate_pass(const PassModel& model, const WindowSchedule& schedule);

/// The bounds' view of `model`: its compute, W and link. Layers that no visit names do not count.
[[nodiscard]] PassCost cost_of(const PassModel& model);

}  // namespace superpipe
