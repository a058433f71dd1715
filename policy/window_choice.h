// From what the user asked for to a schedule: k, k', or nothing to move at all.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "policy/policy_engine.h"
#include "policy/schedule.h"
#include "policy/units.h"

namespace superpipe {

/// What is known of a pass when its windows are chosen. Nothing is retained.
struct WindowDemand {
  const VisitNeeds& needs;            ///< items are buffers
  std::span<const Bytes> footprints;  ///< by buffer
  std::size_t layers = 0;             ///< that have buffers
  Bytes layers_bytes;                 ///< of all layers together
};

/// A schedule, and how much it takes.
struct WindowChoice {
  bool active = false;      ///< false: all layers may stay, nothing is moved
  WindowSchedule schedule;  ///< k and k' also where nothing is moved
  Bytes window_bytes;       ///< the largest window; all layers where nothing is moved
  Bytes wider_bytes;        ///< the largest window with one layer more
};

/// Chooses k and k' (docs/design.md, "Layers and policies"): `config.k` where it is given, else the
/// largest k whose windows fit into `room`, else all layers. k' is `config.k_prime` if that is
/// below k, else max(1, k / 2). k = 1 is naive. Pure. O(needs * log visits).
///
/// `room`: device bytes for the layers; only looked at where the user gave a budget and no k.
[[nodiscard]] WindowChoice choose_windows(const PolicyConfig& config, const WindowDemand& demand,
                                          Bytes room);

}  // namespace superpipe
