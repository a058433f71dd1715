#include "profiler/run_figures.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace superpipe {
namespace {

template <typename T>
void prepend(const std::vector<T>& earlier, std::vector<T>& later) {
  later.insert(later.begin(), earlier.begin(), earlier.end());
}

/// Adds what one context's buffers did to what another's did after it.
void add_earlier(const ResidencyCounters& earlier, ResidencyCounters& sum) {
  sum.launches += earlier.launches;
  sum.accesses += earlier.accesses;
  sum.peak_device_bytes = std::max(sum.peak_device_bytes, earlier.peak_device_bytes);
  sum.peak_passthrough_bytes = std::max(sum.peak_passthrough_bytes, earlier.peak_passthrough_bytes);
  sum.peak_managed_demand = std::max(sum.peak_managed_demand, earlier.peak_managed_demand);
  sum.peak_padding = std::max(sum.peak_padding, earlier.peak_padding);
  sum.h2d_bytes += earlier.h2d_bytes;
  sum.d2h_bytes += earlier.d2h_bytes;
  sum.demand_fetches += earlier.demand_fetches;
  sum.prefetches += earlier.prefetches;
  sum.clean_evictions += earlier.clean_evictions;
  sum.write_backs += earlier.write_backs;
  sum.precleaned += earlier.precleaned;
  sum.digests += earlier.digests;
  sum.unchanged += earlier.unchanged;
  sum.stall_ms += earlier.stall_ms;
  sum.pinned_host_bytes = std::max(sum.pinned_host_bytes, earlier.pinned_host_bytes);
  sum.budget_changes += earlier.budget_changes;
  sum.pinned_buffers += earlier.pinned_buffers;
  sum.left_out_launches += earlier.left_out_launches;
  sum.refused_allocations += earlier.refused_allocations;
  sum.errors += earlier.errors;
}

/// What the last context's policy learned describes the process, unless it learned nothing.
void add_learned(const ResidencyStats& earlier, ResidencyStats& sum) {
  const std::size_t passes = earlier.learned.passes + sum.learned.passes;
  const std::size_t mispredictions = earlier.learned.mispredictions + sum.learned.mispredictions;
  if (!sum.learned.layers_known && sum.learned.launches == nullptr) {
    sum.learned = earlier.learned;
    sum.managed_limit = earlier.managed_limit;
  }
  sum.learned.passes = passes;
  sum.learned.mispredictions = mispredictions;
}

void add_refusal(const std::optional<Refusal>& earlier, std::optional<Refusal>& worst) {
  if (earlier && (!worst || earlier->lacking > worst->lacking)) worst = earlier;
}

}  // namespace

void restore_larger_passes(const LearnedSnapshot& snapshot, ResidencyStats& stats) {
  if (snapshot.learned.pass_bytes <= stats.learned.pass_bytes) return;
  PolicyEngine::Learned restored = snapshot.learned;
  restored.passes = stats.learned.passes;
  restored.mispredictions = stats.learned.mispredictions;
  restored.at_pass_start = stats.learned.at_pass_start;
  restored.following = stats.learned.following;
  stats.learned = std::move(restored);
  stats.managed_limit = snapshot.managed_limit;
}

void note_pass(std::shared_ptr<const PassLaunches> pass, ResidencyStats& stats) {
  PolicyEngine::Learned& learned = stats.learned;
  if (!learned.layers_known) {
    learned.layer_bytes = pass->layer_bytes();
    learned.layers_known = learned.layer_bytes.size() > 1;
    if (!learned.layers_known) learned.layer_bytes.clear();
    learned.pass_bytes = pass->persistent_bytes();
  }
  learned.launches = std::move(pass);
}

std::optional<Bytes> RunFigures::least_budget() const {
  if (!residency.worst_refusal) return std::nullopt;
  return budget + context_bytes + residency.worst_refusal->lacking;
}

int RunFigures::scheduled_k() const {
  if (!counts_layers(policy)) return 0;
  return residency.learned.k > 0 ? residency.learned.k : k.value_or(0);
}

int RunFigures::scheduled_k_prime() const {
  if (!moves_windows(policy)) return 0;
  return residency.learned.k_prime > 0 ? residency.learned.k_prime : k_prime.value_or(0);
}

RunFigures merged(const RunFigures& earlier, const RunFigures& later) {
  RunFigures sum = later;
  add_earlier(earlier.residency, sum.residency);
  add_learned(earlier.residency, sum.residency);
  prepend(earlier.residency.measured_passes, sum.residency.measured_passes);
  sum.residency.forgotten_passes += earlier.residency.forgotten_passes;
  prepend(earlier.residency.timeline, sum.residency.timeline);
  add_refusal(earlier.residency.worst_refusal, sum.residency.worst_refusal);
  sum.launches_without_buffers += earlier.launches_without_buffers;
  sum.refused_operations += earlier.refused_operations;
  sum.tensor_maps += earlier.tensor_maps;
  sum.headroom = std::max(sum.headroom, earlier.headroom);
  if (!sum.link_bytes_per_second) sum.link_bytes_per_second = earlier.link_bytes_per_second;
  if (sum.overhead_ns_p50 <= 0) {
    sum.overhead_ns_p50 = earlier.overhead_ns_p50;
    sum.overhead_ns_p99 = earlier.overhead_ns_p99;
  }
  return sum;
}

}  // namespace superpipe
