#include "profiler/run_summary.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "policy/budget.h"

namespace superpipe {
namespace {

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// How many times as long as a bound a pass took.
std::string times_bound(double pass_ms, double bound_ms, const char* name) {
  return ", " + fixed(pass_ms / bound_ms, 2) + " times the " + name + " bound of " +
         fixed(bound_ms, 2) + " ms";
}

/// The lines about passes, of which there was one.
std::string pass_text(const RunFigures& figures, const PassTimes& times) {
  std::string text = "superpipe: " + std::to_string(times.passes) + " passes of " +
                     fixed(times.pass_ms, 2) + " ms";
  if (times.bound_ms && *times.bound_ms > 0) {
    text += times_bound(times.pass_ms, *times.bound_ms, "physical");
    if (times.windowed_bound_ms) {
      text += times_bound(times.pass_ms, *times.windowed_bound_ms, "windowed");
    }
  }
  if (figures.link_bytes_per_second) {
    text += "; link " + fixed(*figures.link_bytes_per_second / 1e9, 2) +
            " GB/s, measured on its own transfers";
  } else if (!times.bound_ms && figures.residency.learned.pass_bytes > Bytes{}) {
    text += "; no bound, because the link was never measured";
  }
  text += "\nsuperpipe: launches waited for transfers during " + fixed(times.stall_ms, 2) +
          " ms of a pass (stalled " + fixed(100 * times.stall_ms / times.pass_ms, 0) + " %)";
  if (times.avoidable_stall_share) {
    text += ", of which better prefetching could avoid up to " +
            fixed(100 * *times.avoidable_stall_share, 0) + " %";
  }
  return text + "\n";
}

/// The line about the plan that the run had.
std::string plan_text(const PlanFollowing& following) {
  std::string text = "superpipe: followed the plan for " + std::to_string(following.followed) +
                     " of " + std::to_string(following.recorded) + " launches";
  if (following.is_left) {
    text += ", and left it at launch " + std::to_string(following.left_at + 1) +
            (following.is_other_program() ? ": it is of another program"
                                          : ", where the program did something else");
  }
  return text + "\n";
}

/// `text`, whose lines begin "superpipe: ", with `name` behind that in each.
std::string named_lines(std::string text, const std::string& name) {
  constexpr std::string_view kStart = "superpipe: ";
  for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
    text.insert(line + kStart.size(), name + ": ");
  }
  return text;
}

}  // namespace

std::string summary_text(const RunFigures& figures, const PassTimes& times,
                         const ProcessName& process) {
  const ResidencyStats& stats = figures.residency;
  std::string text = "superpipe: policy " + std::string(name_of(figures.policy));
  if (counts_layers(figures.policy)) {
    text += ", k " + std::to_string(figures.scheduled_k());
  }
  if (moves_windows(figures.policy)) {
    text += ", k' " + std::to_string(figures.scheduled_k_prime());
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
    text += pass_text(figures, times);
  } else {
    text += "superpipe: " + std::to_string(figures.launches()) +
            " launches, no repeated pass found, stalled " + fixed(stats.stall_ms, 1) + " ms\n";
  }
  if (stats.learned.following.recorded > 0) text += plan_text(stats.learned.following);
  if (stats.budget_changes > 0) {
    text += "superpipe: the budget changed " + std::to_string(stats.budget_changes) +
            (stats.budget_changes == 1 ? " time" : " times") + ", at last to " +
            format_bytes(figures.budget + figures.context_bytes) + "\n";
  }
  if (stats.left_out_launches > 0) {
    text += "superpipe: " + std::to_string(stats.left_out_launches) +
            (stats.left_out_launches == 1 ? " launch" : " launches") +
            " did without buffers for which the budget had no room, because only words of structs "
            "named them\n";
  }
  if (stats.refused_allocations > 0) {
    text += "superpipe: " + std::to_string(stats.refused_allocations) +
            (stats.refused_allocations == 1 ? " allocation" : " allocations") +
            " too small to be moved had no room within the budget of " +
            exact_bytes(figures.budget + figures.context_bytes) +
            " beside others like them: raise it, or have smaller ones moved as well (--min-buffer "
            "64K)\n";
  }
  if (const auto& refusal = stats.worst_refusal) {
    text +=
        "superpipe: the budget of " + exact_bytes(figures.budget + figures.context_bytes) +
        " was too small for " +
        (refusal->kernel.empty() ? "one operation" : "a launch of kernel " + refusal->kernel) +
        ", which needs " + exact_bytes(refusal->working_set) +
        " at once; the smallest budget that would run it: " + exact_bytes(*figures.least_budget()) +
        "\n";
  }
  if (figures.refused_operations > 0) {
    text +=
        "superpipe: " + std::to_string(figures.refused_operations) +
        (figures.refused_operations == 1 ? " launch or copy was" : " launches or copies were") +
        " refused: what went on after that may have been computed in another way, with other bits "
        "(--strict ends the program instead)\n";
  }
  return process.is_one_of_several ? named_lines(std::move(text), process.text()) : text;
}

}  // namespace superpipe
