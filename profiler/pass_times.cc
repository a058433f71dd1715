#include "profiler/pass_times.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ratio>
#include <vector>

#include "policy/budget.h"
#include "policy/timing_model.h"
#include "policy/windowed_bound.h"

namespace superpipe {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

/// A figure of a pass, and for how many launches it stands.
struct Weighted {
  double value;
  std::uint64_t launches;
};

/// What passes of half of all launches do not exceed; 0 without passes. What is found to repeat
/// before a program's real pass is known, or within it, has few launches; a pass in which the user
/// thinks is long, and has as many as others.
double median(std::vector<Weighted> figures) {
  std::ranges::sort(figures, {}, &Weighted::value);
  std::uint64_t all = 0;
  for (const Weighted& figure : figures) all += figure.launches;
  std::uint64_t counted = 0;
  for (const Weighted& figure : figures) {
    counted += figure.launches;
    if (2 * counted > all) return figure.value;
  }
  return 0;
}

// How far the launches of a pass may be off those of the median one.
constexpr double kMostLaunchDeviation = 0.3;

// How many of the run's passes were about as long as the median one.
std::uint64_t count_passes(const ResidencyStats& stats) {
  const std::span<const MeasuredPass> measured = stats.measured_passes;
  if (measured.empty()) return 0;
  const std::uint64_t median = median_launches(measured);
  const auto steady = std::ranges::count_if(
      measured, [&](const MeasuredPass& pass) { return is_about_as_long(pass, median); });
  const double share = static_cast<double>(steady) / static_cast<double>(measured.size());
  return static_cast<std::uint64_t>(steady) +
         static_cast<std::uint64_t>(
             std::llround(share * static_cast<double>(stats.forgotten_passes)));
}

// By how much the time of the pass that stands for all may be off the median: with more, it is
// likely to do something else.
constexpr double kMostDeviation = 0.25;

/// How many persistent bytes may stay on the device from pass to pass.
Bytes fit_of(const RunFigures& figures, const PassLaunches& pass) {
  if (figures.policy == PolicyKind::kResident) return pass.persistent_bytes();
  return saturating_subtract(figures.residency.managed_limit, pass.transient_peak());
}

// With more, the windowed bound would take longer than 0.2 s.
constexpr std::size_t kMostLaunches = std::size_t{1} << 17;
constexpr std::size_t kMostAccesses = std::size_t{1} << 21;

std::optional<double> windowed_bound_ms(const PassLaunches& pass, const PassCost& cost, Bytes fit) {
  if (pass.size() > kMostLaunches || pass.accesses() > kMostAccesses) return std::nullopt;
  const std::vector<TimedLaunch> launches = pass.estimated_launches(cost.compute);
  const LaunchSequence sequence{launches, pass.buffer_bytes()};
  return Milliseconds{windowed_bound_per_pass(sequence, fit, cost.host_to_device)}.count();
}

}  // namespace

std::uint64_t median_launches(std::span<const MeasuredPass> passes) {
  std::vector<Weighted> lengths;
  for (const MeasuredPass& pass : passes) {
    lengths.push_back({static_cast<double>(pass.launches()), pass.launches()});
  }
  return static_cast<std::uint64_t>(median(std::move(lengths)));
}

bool is_about_as_long(const MeasuredPass& pass, std::uint64_t median) {
  const double off = static_cast<double>(pass.launches()) - static_cast<double>(median);
  return std::abs(off) <= kMostLaunchDeviation * static_cast<double>(median);
}

std::optional<MeasuredPass> typical_pass(std::span<const MeasuredPass> passes,
                                         std::uint64_t first_remembered) {
  std::vector<Weighted> lengths;
  for (const MeasuredPass& pass : passes) lengths.push_back({pass.ms, pass.launches()});
  const double typical = median(std::move(lengths));
  std::optional<MeasuredPass> nearest;
  double least = kMostDeviation * typical;
  for (const MeasuredPass& pass : passes) {
    if (pass.begin < first_remembered + pass.launches()) continue;
    const double deviation = std::abs(pass.ms - typical);
    if (deviation > least) continue;
    nearest = pass;
    least = deviation;
  }
  return nearest;
}

std::optional<double> least_pass_ms(const MeasuredPass& pass, Bytes pass_bytes, Bytes limit,
                                    Bytes padding, std::optional<double> link_bytes_per_second) {
  if (pass_bytes == Bytes{}) return std::nullopt;
  const double compute_ms = std::max(0.0, pass.ms - pass.stall_ms);
  if (pass_bytes <= limit) return compute_ms;
  if (!link_bytes_per_second || *link_bytes_per_second <= 0) return std::nullopt;
  const PassCost cost{Milliseconds{compute_ms}, pass_bytes, Bandwidth{*link_bytes_per_second}};
  return Milliseconds{physical_bound(cost, limit + padding)}.count();
}

PassTimes pass_times(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  PassTimes times;
  std::vector<Weighted> lengths;
  std::vector<Weighted> computes;
  std::vector<Weighted> rates;  // launches of a millisecond
  for (const MeasuredPass& pass : stats.measured_passes) {
    lengths.push_back({pass.ms, pass.launches()});
    if (pass.ms > 0) {
      rates.push_back({static_cast<double>(pass.launches()) / pass.ms, pass.launches()});
    }
    computes.push_back({std::max(0.0, pass.ms - pass.stall_ms), pass.launches()});
  }
  times.pass_ms = median(std::move(lengths));
  times.passes = count_passes(stats);
  times.pass_launches = times.pass_ms * median(std::move(rates));
  const double compute_ms = std::min(median(std::move(computes)), times.pass_ms);
  times.stall_ms = times.pass_ms - compute_ms;
  const auto& pass = stats.learned.launches;
  if (stats.measured_passes.empty() || pass == nullptr) return times;
  PassCost cost;
  cost.compute = Milliseconds{compute_ms};
  cost.persistent = pass->persistent_bytes();
  const Bytes fit = fit_of(figures, *pass);
  if (fit >= cost.persistent) {
    times.bound_ms = times.windowed_bound_ms = compute_ms;  // whatever the link's speed
  } else if (figures.link_bytes_per_second) {
    cost.host_to_device = Bandwidth{*figures.link_bytes_per_second};
    // Of what the pass names so much at most never crosses the link, in whichever window.
    const Bytes spared = fit + stats.peak_padding;
    times.bound_ms = Milliseconds{physical_bound(cost, spared)}.count();
    times.windowed_bound_ms = windowed_bound_ms(*pass, cost, spared);
  }
  if (times.bound_ms && times.stall_ms > 0) {
    const double bound = times.windowed_bound_ms.value_or(*times.bound_ms);
    times.avoidable_stall_share = std::clamp((times.pass_ms - bound) / times.stall_ms, 0.0, 1.0);
  }
  return times;
}

}  // namespace superpipe
