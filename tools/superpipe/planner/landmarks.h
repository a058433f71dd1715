// Where the passes of a traced program begin, by the launches that come back in each.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli {

/// The first launch of each pass among the first `launches` of `program`, ascending; empty if it
/// has fewer than three, or nothing tells them apart.
///
/// Programs name what they need once a pass, but not everything that a launch names is needed:
/// leftovers of earlier work come and go in its arguments. What stays are landmarks: a kernel with
/// the rarest of the buffers in its arguments that live for half of the run. Those that come back
/// at even distances have a period; the one of most bytes is the pass's, unless a kernel that
/// works on a good part of all such buffers comes only once in several of them, as an optimizer
/// does after gradients were accumulated. Pure. O(names + launches log launches).
[[nodiscard]] std::vector<std::size_t> passes_by_landmarks(const TracedProgram& program,
                                                           std::size_t launches);

}  // namespace superpipe::cli
