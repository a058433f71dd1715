// Programs for virtual time: what they allocate, copy, launch and free, in which order, and how
// long their kernels compute.
//
// Sizes are those of published models; kernels.h has the assumptions on compute times.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/virtual_time/kernels.h"

namespace superpipe::bench {

/// A workload that can be asked for by name.
struct WorkloadEntry {
  std::string name;
  std::string what;  ///< the model, what a pass is, and what was assumed, in one or two sentences
  std::unique_ptr<Workload> (*make)();
};

/// All workloads, in the order of the reports.
[[nodiscard]] std::span<const WorkloadEntry> all_workloads();

/// The workload of that name, or null.
[[nodiscard]] const WorkloadEntry* find_workload(const std::string& name);

}  // namespace superpipe::bench
