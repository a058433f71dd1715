// How long passes take under a window schedule: a simulation, against which schedules are tested.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/schedule.h"
#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::testing {

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

}  // namespace superpipe::testing
