#include "tools/superpipe/diff/quantity.h"

#include <algorithm>
#include <cmath>

namespace superpipe::cli {
namespace {

using Unit = QuantityKind::Unit;
using Worse = QuantityKind::Worse;

constexpr std::array<QuantityKind, kQuantities> kKinds = {{
    {Quantity::kPassTime, "pass_ms", "pass", Unit::kMilliseconds, Worse::kMore, false},
    {Quantity::kStallTime, "stall_ms", "stalls", Unit::kMilliseconds, Worse::kMore, true},
    {Quantity::kLaunchWait, "launch_wait_ms", "waits in operations", Unit::kMilliseconds,
     Worse::kMore, true},
    {Quantity::kDeviceWait, "device_wait_ms", "waits for the device", Unit::kMilliseconds,
     Worse::kMore, true},
    {Quantity::kCopyWait, "copy_wait_ms", "waits for copies", Unit::kMilliseconds, Worse::kMore,
     true},
    {Quantity::kToDevice, "h2d_bytes", "moved to the device", Unit::kBytes, Worse::kMore, true},
    {Quantity::kToHost, "d2h_bytes", "moved to the host", Unit::kBytes, Worse::kMore, true},
    {Quantity::kFetches, "fetches", "fetches", Unit::kCount, Worse::kMore, true},
    {Quantity::kDemandFetches, "demand_fetches", "demand fetches", Unit::kCount, Worse::kMore,
     true},
    {Quantity::kEvictions, "evictions", "evictions", Unit::kCount, Worse::kMore, true},
    {Quantity::kWriteBacks, "write_backs", "write-backs", Unit::kCount, Worse::kMore, true},
    {Quantity::kCopiedIn, "copied_in_bytes", "copied in by the program", Unit::kBytes, Worse::kMore,
     true},
    {Quantity::kCopiedOut, "copied_out_bytes", "copied out by the program", Unit::kBytes,
     Worse::kMore, true},
    {Quantity::kLinkToDevice, "h2d_gb_per_s", "link to the device", Unit::kGigabytesPerSecond,
     Worse::kLess, false},
    {Quantity::kLinkToHost, "d2h_gb_per_s", "link to the host", Unit::kGigabytesPerSecond,
     Worse::kLess, false},
    {Quantity::kPeakDevice, "peak_device_bytes", "peak device memory", Unit::kBytes, Worse::kMore,
     false},
    {Quantity::kPinnedHost, "pinned_host_bytes", "peak pinned host memory", Unit::kBytes,
     Worse::kMore, false},
    {Quantity::kManaged, "managed_bytes", "peak of all buffers", Unit::kBytes, Worse::kMore, false},
    {Quantity::kPassthrough, "passthrough_bytes", "peak pass-through memory", Unit::kBytes,
     Worse::kMore, false},
    {Quantity::kBudget, "budget_bytes", "budget", Unit::kBytes, Worse::kNeither, false},
    {Quantity::kLaunches, "launches", "launches", Unit::kCount, Worse::kMore, true},
    {Quantity::kAllocations, "allocations", "allocations", Unit::kCount, Worse::kMore, true},
    {Quantity::kErrors, "errors", "errors", Unit::kCount, Worse::kMore, false},
    {Quantity::kDroppedEvents, "dropped_events", "dropped events", Unit::kCount, Worse::kNeither,
     false},
}};

// How many of the least of `count` draws lie below the median with a probability of 97.5 %.
std::size_t passes_below_the_median(std::size_t count) {
  constexpr std::size_t kMostExact = 1000;  // more halvings than a double has room for come soon
  constexpr double kTail = 0.025;
  constexpr double kQuantile = 1.96;  // of the standard normal distribution, of 1 - kTail
  const auto all = static_cast<double>(count);
  if (count > kMostExact) {
    return static_cast<std::size_t>(std::floor((all - kQuantile * std::sqrt(all)) / 2)) - 1;
  }
  // As many are below it as there are heads of `count` coins.
  double probability = std::pow(0.5, all);
  double at_most = probability;
  std::size_t heads = 0;
  while (at_most <= kTail) {
    ++heads;
    probability *= (all - static_cast<double>(heads) + 1) / static_cast<double>(heads);
    at_most += probability;
  }
  return heads == 0 ? 0 : heads - 1;
}

}  // namespace

const std::array<QuantityKind, kQuantities>& all_quantities() { return kKinds; }

const QuantityKind& kind_of(Quantity quantity) {
  return kKinds.at(static_cast<std::size_t>(quantity));
}

const QuantityKind* find_quantity(std::string_view name) {
  const auto* const found = std::find_if(
      kKinds.begin(), kKinds.end(), [&](const QuantityKind& kind) { return kind.name == name; });
  return found == kKinds.end() ? nullptr : found;
}

Measured median_of(std::vector<double> passes) {
  std::sort(passes.begin(), passes.end());
  const std::size_t count = passes.size();
  Measured measured;
  measured.value = (passes[(count - 1) / 2] + passes[count / 2]) / 2;
  if (count < 2) return measured;
  const std::size_t low = passes_below_the_median(count);
  measured.spread = Measured::Spread{passes[low], passes[count - 1 - low]};
  return measured;
}

}  // namespace superpipe::cli
