// The figures of a run that streams its layers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/pass_launches.h"
#include "profiler/run_figures.h"

namespace superpipe::testing {

/// A pass whose launches name a persistent buffer each, of these sizes, and one of `transient`
/// bytes.
inline std::shared_ptr<const PassLaunches> pass_of(std::vector<Bytes> persistent,
                                                   Bytes transient = Bytes{}) {
  const BufferId last{static_cast<std::uint32_t>(persistent.size())};
  std::vector<std::array<BufferId, 2>> named;
  for (std::uint32_t at = 0; at < persistent.size(); ++at) named.push_back({BufferId{at}, last});
  std::vector<LaunchRecord> launches;
  for (const auto& buffers : named) launches.push_back({KernelId{1}, buffers});
  std::vector<Bytes> footprints = persistent;
  footprints.push_back(transient);
  return std::make_shared<const PassLaunches>(launches, persistent, footprints);
}

/// 8 layers of 16 MiB, 2 of them resident, 64 MiB/s: (128 - 32) MiB stream in 1500 ms a pass. A
/// pass computes for 800 ms. From the end of a layer to the end of the one before it in the next
/// pass, 96 MiB have to come and then one layer computes: 1600 ms for 7 of 8 layers.
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
  stats.measured_passes = {{3000, 2200, 8, 16}, {2000, 1200, 16, 24}, {1900, 1100, 24, 32}};
  stats.stall_ms = 4500;
  stats.prefetches = 7;
  stats.demand_fetches = 2;
  stats.clean_evictions = 1;
  stats.write_backs = 4;
  stats.h2d_bytes = 144_MiB;
  stats.learned.layers_known = true;
  stats.learned.layer_bytes.assign(8, 16_MiB);
  stats.learned.pass_bytes = 128_MiB;
  stats.learned.launches = pass_of(std::vector<Bytes>(8, 16_MiB));
  stats.learned.k = 2;
  stats.learned.k_prime = 1;
  stats.learned.passes = 3;
  figures.link_bytes_per_second = 64.0 * 1024 * 1024;
  return figures;
}

/// A plan of 40 launches, of which the run followed so many; it left it at launch 30, or not.
inline PlanFollowing following(std::uint64_t launches, bool is_left) {
  PlanFollowing following;
  following.recorded = 40;
  following.followed = launches;
  following.is_over = !is_left;
  following.is_left = is_left;
  following.left_at = is_left ? 30 : 0;
  return following;
}

}  // namespace superpipe::testing
