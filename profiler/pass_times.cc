#include "profiler/pass_times.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "policy/budget.h"

namespace superpipe {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

PassTimes pass_times(const RunFigures& figures) {
  PassTimes times;
  const ResidencyStats& stats = figures.residency;
  times.pass_ms = median(stats.pass_ms);
  const Bytes persistent = stats.learned.pass_bytes;
  if (stats.pass_ms.empty() || persistent == Bytes{}) return times;
  const double compute =
      std::max(0.0, times.pass_ms - stats.stall_ms / static_cast<double>(stats.pass_ms.size()));
  if (figures.policy == PolicyKind::kResident) {
    times.bound_ms = compute;
    return times;
  }
  const Bytes transient = saturating_subtract(stats.peak_managed_demand, persistent);
  const Bytes fit = saturating_subtract(stats.managed_limit, transient);
  const Bytes streamed = saturating_subtract(persistent, fit);
  if (streamed == Bytes{}) {
    times.bound_ms = compute;
  } else if (figures.link_bytes_per_second) {
    const double transfer =
        1000 * static_cast<double>(streamed.count()) / *figures.link_bytes_per_second;
    times.bound_ms = std::max(compute, transfer);
  }
  return times;
}

}  // namespace superpipe
