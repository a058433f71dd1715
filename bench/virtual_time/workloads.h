// Programs for virtual time: what they allocate, copy, launch and free, in which order, and how
// long their kernels compute.
//
// Sizes are those of published models; program.h has the assumptions on compute times.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/virtual_time/program.h"

namespace superpipe::bench {

/// A program that sets itself up once and then does the same again and again, or nearly the same.
///
/// Deterministic: what looks random is drawn from a seed of its own.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual void load(Program& program) = 0;
  /// One pass: what is repeated. `number` counts from 0.
  virtual void run_pass(Program& program, int number) = 0;
};

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
