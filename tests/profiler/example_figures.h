// The figures of a run that streams its layers.
#pragma once

#include "profiler/run_figures.h"

namespace superpipe::testing {

/// 8 layers of 16 MiB, 2 of them resident, 64 MiB/s: (128 - 32) MiB stream in 1500 ms a pass.
inline RunFigures streaming_run() {
  RunFigures figures;
  figures.policy = PolicyKind::kSuperpipeline;
  figures.k = 2;
  figures.k_prime = 1;
  figures.budget = 32_MiB;
  figures.context_bytes = 2_MiB;
  ResidencyStats& stats = figures.residency;
  stats.launches = 80;
  stats.peak_device_bytes = 36_MiB;
  stats.peak_passthrough_bytes = 4_MiB;
  stats.peak_managed_demand = 128_MiB;
  stats.managed_limit = 32_MiB;
  stats.pass_ms = {3000, 1800, 1700};
  stats.stall_ms = 3 * 1000;
  stats.prefetches = 7;
  stats.demand_fetches = 2;
  stats.clean_evictions = 1;
  stats.write_backs = 4;
  stats.h2d_bytes = 144_MiB;
  stats.learned.layers_known = true;
  stats.learned.layer_bytes.assign(8, 16_MiB);
  stats.learned.pass_bytes = 128_MiB;
  stats.learned.k = 2;
  stats.learned.k_prime = 1;
  stats.learned.passes = 3;
  figures.link_bytes_per_second = 64.0 * 1024 * 1024;
  return figures;
}

}  // namespace superpipe::testing
