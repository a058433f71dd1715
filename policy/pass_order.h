// One pass of a learned order: its layers, and in which order launches visit them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/layer_grouping.h"
#include "policy/schedule.h"
#include "policy/units.h"

namespace superpipe {

/// Consecutive launches of one layer.
struct Visit {
  std::uint32_t layer = 0;       ///< the home layer of its launches
  std::vector<BufferId> extras;  ///< buffers of other layers that its launches name too

  bool operator==(const Visit&) const = default;
};

/// What a pass does, as learned from one recording of it.
struct PassOrder {
  std::vector<std::vector<BufferId>> layers;  ///< in order of first access
  std::vector<BufferId> shared;               ///< of no layer, used throughout
  std::vector<Visit> visits;                  ///< no two consecutive ones of the same layer
  KernelId first_kernel{};                    ///< of the launch that opens the pass
  BufferId first_buffer{};                    ///< the first buffer of a layer that it names
};

/// Groups the buffers of a recorded pass into layers, and follows which layer each launch visits.
///
/// The first and the last visit may be of the same layer (forward and backward). `pass` and
/// `footprints` as in group_layers(). Pure. Cost as group_layers().
/// @return an order without visits if no launch names a persistent buffer of a layer.
[[nodiscard]] PassOrder learn_pass(std::span<const LaunchRecord> pass,
                                   std::span<const Bytes> footprints);

/// The layer of each buffer in `order`, by index; kNoLayer: none, as for all beyond its end. Pure.
[[nodiscard]] std::vector<std::uint32_t> layer_by_buffer(const PassOrder& order);

/// The buffers that each visit of `order` needs: its layer's and its extras, by index. Pure.
[[nodiscard]] VisitNeeds needs_of(const PassOrder& order);

}  // namespace superpipe
