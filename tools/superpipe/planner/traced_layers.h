// The layers of a traced program: traces do not tell them, and under some policies there are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policy/layer_grouping.h"
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
  std::uint32_t shared = kNoLayer;

  /// The layer of the buffer that was allocated after `earlier` others; kNoLayer: none.
  [[nodiscard]] std::uint32_t of(std::uint64_t earlier) const;
  /// The number of `layer` from 1 on, or "shared".
  [[nodiscard]] std::string name_of(std::uint32_t layer) const;
  /// What a row of `layer` is called where there is room for so many of layers: "layer 3",
  /// "layers 5 to 8" where several share a row, or "shared by layers". REQUIRES: `layer` is one.
  [[nodiscard]] std::string row_of(std::uint32_t layer, std::size_t most_rows) const;
};

/// Groups the buffers that live throughout one of `passes`, a late one, by the launches of that
/// pass. Without passes there are no layers. Pure. Cost as group_layers().
[[nodiscard]] TracedLayers find_layers(const TracedProgram& program, const TracedPasses& passes);

}  // namespace superpipe::cli
