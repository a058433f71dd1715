#include "profiler/pass_times.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ratio>
#include <vector>

#include "policy/budget.h"
#include "policy/timing_model.h"

namespace superpipe {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A pass without its share of the stalls: what the device computes, and waits for the program.
Seconds compute_of(Milliseconds pass, const ResidencyStats& stats) {
  const Milliseconds stall{stats.stall_ms / static_cast<double>(stats.pass_ms.size())};
  return std::max(Milliseconds{}, pass - stall);
}

/// How many persistent bytes may stay on the device from pass to pass.
Bytes fit_of(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  const Bytes persistent = stats.learned.pass_bytes;
  if (figures.policy == PolicyKind::kResident) return persistent;
  const Bytes transient = saturating_subtract(stats.peak_managed_demand, persistent);
  return saturating_subtract(stats.managed_limit, transient);
}

}  // namespace

PassTimes pass_times(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  PassTimes times;
  times.pass_ms = median(stats.pass_ms);
  PassCost cost;
  cost.persistent = stats.learned.pass_bytes;
  if (stats.pass_ms.empty() || cost.persistent == Bytes{}) return times;
  cost.compute = compute_of(Milliseconds{times.pass_ms}, stats);
  const Bytes fit = fit_of(figures);
  if (fit >= cost.persistent) {
    times.bound_ms = Milliseconds{cost.compute}.count();  // whatever the link's speed
  } else if (figures.link_bytes_per_second) {
    cost.host_to_device = Bandwidth{*figures.link_bytes_per_second};
    times.bound_ms = Milliseconds{physical_bound(cost, fit)}.count();
  }
  return times;
}

}  // namespace superpipe
