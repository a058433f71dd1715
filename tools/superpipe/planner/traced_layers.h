// The layers of a traced program: traces do not tell them, and under some policies there are none.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/superpipe/planner/traced_program.h"
#include "tools/superpipe/planner/traced_workload.h"

namespace superpipe::cli {

/// The layers in which policy would group the buffers of a program.
struct TracedLayers {
  /// The layer of each buffer, in the order of allocation; kNoLayer: none. Buffers of managed
  /// memory alone count.
  std::vector<std::uint32_t> layer_of;
  std::uint32_t layers = 0;
  /// The number that buffers have which launches of many layers name; kNoLayer: there are none.
  std::uint32_t shared = 0;
};

/// Groups the buffers that live throughout one of `passes`, a late one, by the launches of that
/// pass. Without passes there are no layers. Pure. Cost as group_layers().
[[nodiscard]] TracedLayers find_layers(const TracedProgram& program, const TracedPasses& passes);

}  // namespace superpipe::cli
