// What a running process answers when it is asked for another budget.
#pragma once

#include <cstdint>

namespace superpipe {

/// Whether a budget was changed and, if not, why: then all is as it was. The numbers are those of
/// the live segment (profiler/live_layout.h), so they keep their meaning.
enum class BudgetAnswer : std::uint32_t {
  kChanged = 0,
  kCountsLayers = 1,     ///< the policy keeps a k that the user gave
  kNothingMoves = 2,     ///< the policy moves nothing, so there is no budget
  kTooSmall = 3,         ///< it leaves no page beside context, pass-through memory and headroom
  kHostMemoryShort = 4,  ///< what would leave the device has no room in the host store
  kEnded = 5,            ///< the managed context is ending
};

}  // namespace superpipe
