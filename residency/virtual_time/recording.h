// What a workload does up to the end of its first pass, for a later run to expect.
#pragma once

#include <functional>
#include <memory>

#include "policy/recorded_run.h"
#include "residency/virtual_time/experiment.h"
#include "residency/virtual_time/program.h"

namespace superpipe::virtual_time {

/// Runs the first pass of the workload that `make` makes, under `experiment`, and records it.
///
/// What is evicted first depends on what is known, and on the slabs that there are. So it is run
/// several times, each time with what was recorded before, and the slabs are what these runs needed
/// between them. `make` is called once for each. Deterministic if `make` is.
[[nodiscard]] std::shared_ptr<const RecordedRun> record_first_pass(
    const std::function<std::unique_ptr<Workload>()>& make, Experiment experiment);

}  // namespace superpipe::virtual_time
