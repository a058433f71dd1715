// What other processes see of this one, or what is to be said if they see nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/units.h"
#include "profiler/live_figures.h"
#include "residency/residency_manager.h"
#include "settings/settings.h"

namespace superpipe {

/// What the residency manager does not know.
struct LiveFacts {
  Bytes context_bytes;  ///< what the context alone took as it was made
  std::uint64_t launches_without_buffers;
  std::optional<double> link;  ///< bytes a second to the device; nullopt: not measured
};

/// The figures of this moment. Calls a clock and nothing else.
[[nodiscard]] LiveFigures live_figures_of(const ResidencyManager::LiveState& state,
                                          const Configuration& configuration,
                                          const LiveFacts& facts);

/// One line for what others will not see of this process, and why. `no_ledger`: why host memory is
/// not shared; `no_segment`: why the process is not found; empty: it is. REQUIRES: one is not.
[[nodiscard]] std::string words_of_being_alone(std::string_view no_ledger,
                                               std::string_view no_segment);

}  // namespace superpipe
