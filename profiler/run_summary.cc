#include "profiler/run_summary.h"

#include <algorithm>
#include <cstdio>

#include "policy/budget.h"
#include "profiler/pass_times.h"

namespace superpipe {
namespace {

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace

std::string summary_text(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  const PassTimes times = pass_times(figures);
  std::string text = "superpipe: policy " + std::string(name_of(figures.policy));
  if (counts_layers(figures.policy)) {
    text += ", k " + std::to_string(figures.scheduled_k()) + ", k' " +
            std::to_string(figures.scheduled_k_prime());
  }
  if (stats.learned.layers_known) {
    text += ", layers " + std::to_string(stats.learned.layer_bytes.size());
  } else if (counts_layers(figures.policy)) {
    text += ", layers not found";
  }
  text += std::string(", allocators ") + (figures.async_allocators ? "async" : "native") + "\n";

  const Bytes with = stats.peak_device_bytes + figures.context_bytes;
  const Bytes without =
      stats.peak_managed_demand + stats.peak_passthrough_bytes + figures.context_bytes;
  text += "superpipe: peak device memory " + format_bytes(with) + " (without superpipe " +
          format_bytes(without) + ")";
  if (without > Bytes{} && with < without) {
    text +=
        ", " +
        fixed(100 - 100 * static_cast<double>(with.count()) / static_cast<double>(without.count()),
              0) +
        " % less";
  }
  text += "\n";

  text += "superpipe: moved " + format_bytes(stats.h2d_bytes) + " to the device (" +
          std::to_string(stats.prefetches) + " prefetches, " +
          std::to_string(stats.demand_fetches) + " demand fetches), " +
          format_bytes(stats.d2h_bytes) + " back (" + std::to_string(stats.write_backs) +
          " write-backs, " + std::to_string(stats.clean_evictions) + " clean evictions)\n";

  if (times.pass_ms > 0) {
    const double all = times.pass_ms * static_cast<double>(stats.pass_ms.size());
    text += "superpipe: " + std::to_string(stats.learned.passes) + " passes of " +
            fixed(times.pass_ms, 2) + " ms";
    if (times.bound_ms && *times.bound_ms > 0) {
      text += ", " + fixed(times.pass_ms / *times.bound_ms, 2) + " times the bound of " +
              fixed(*times.bound_ms, 2) + " ms";
    }
    text += ", stalled " + fixed(std::min(100.0, 100 * stats.stall_ms / all), 0) + " %";
    if (figures.link_bytes_per_second) {
      text += "; link " + fixed(*figures.link_bytes_per_second / 1e9, 2) +
              " GB/s, measured on its own transfers";
    }
    text += "\n";
  } else {
    text += "superpipe: " + std::to_string(figures.launches()) +
            " launches, no repeated pass found, stalled " + fixed(stats.stall_ms, 1) + " ms\n";
  }
  if (const auto& refusal = stats.worst_refusal) {
    const Bytes budget = figures.budget + figures.context_bytes;
    text += "superpipe: the budget of " + exact_bytes(budget) + " was too small for " +
            (refusal->kernel.empty() ? "one operation" : "a launch of kernel " + refusal->kernel) +
            ", which needs " + exact_bytes(refusal->working_set) +
            " at once; the smallest budget that would run it: " +
            exact_bytes(budget + refusal->lacking) + "\n";
  }
  return text;
}

}  // namespace superpipe
