#include "interposer/reports/live_view.h"

#include <algorithm>
#include <chrono>

#include "profiler/pass_times.h"

namespace superpipe {

LiveFigures live_figures_of(const ResidencyManager::LiveState& state,
                            const Configuration& configuration, const LiveFacts& facts) {
  const auto nanoseconds = [](double ms) {
    return static_cast<std::uint64_t>(std::max(0.0, ms) * 1e6);
  };
  const ResidencyCounters& counters = state.counters;
  LiveFigures figures{};
  figures.budget = counters.budget > Bytes{} ? counters.budget + facts.context_bytes : Bytes{};
  figures.limit = counters.managed_limit;
  figures.pages = state.pages;
  figures.live = state.live;
  figures.context = facts.context_bytes;
  figures.passthrough = counters.passthrough_bytes;
  figures.pinned_host = counters.pinned_host_bytes;
  figures.host_limit = state.host_limit;
  figures.taken_ns =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  figures.launches = counters.launches + facts.launches_without_buffers;
  figures.passes = state.passes;
  figures.h2d = counters.h2d_bytes;
  figures.d2h = counters.d2h_bytes;
  figures.demand_fetches = counters.demand_fetches;
  figures.prefetches = counters.prefetches;
  figures.clean_evictions = counters.clean_evictions;
  figures.write_backs = counters.write_backs;
  figures.stall_ns = nanoseconds(counters.stall_ms);
  figures.budget_changes = counters.budget_changes;
  figures.errors = counters.errors;
  figures.link_bytes_per_second = static_cast<std::uint64_t>(std::max(0.0, facts.link.value_or(0)));
  const PolicyEngine::Outline& learned = state.learned;
  figures.pass_bytes = learned.pass_bytes;
  figures.layers = static_cast<std::uint32_t>(learned.layers);
  figures.layer_percent = state.layer_percent;
  if (counts_layers(configuration.policy)) {
    figures.k = static_cast<std::uint32_t>(learned.k > 0 ? learned.k : configuration.k.value_or(0));
  }
  if (moves_windows(configuration.policy)) {
    figures.k_prime = static_cast<std::uint32_t>(
        learned.k_prime > 0 ? learned.k_prime : configuration.k_prime.value_or(0));
  }
  if (state.last_pass) {
    figures.pass_ns = nanoseconds(state.last_pass->ms);
    figures.pass_stall_ns = nanoseconds(state.last_pass->stall_ms);
    const auto least = least_pass_ms(*state.last_pass, learned.pass_bytes, counters.managed_limit,
                                     counters.peak_padding, facts.link);
    figures.bound_ns = nanoseconds(least.value_or(0));
  }
  return figures;
}

std::string words_of_being_alone(std::string_view no_ledger, std::string_view no_segment) {
  std::string what;
  if (!no_segment.empty()) what = "superpipe top and budget do not find this process";
  if (!no_segment.empty() && !no_ledger.empty()) what += ", and ";
  if (!no_ledger.empty()) {
    what +=
        "host memory is not shared with your other processes, so that this one may take all that "
        "is available";
  }
  std::string why(no_segment);
  if (no_ledger != no_segment) {
    // What to do comes last, and once where it is the same for both.
    const std::size_t advice = why.rfind("; ");
    if (advice != std::string::npos && no_ledger.ends_with(why.substr(advice))) why.resize(advice);
    if (!why.empty() && !no_ledger.empty()) why += "; ";
    why += no_ledger;
  }
  return what + ": " + why;
}

}  // namespace superpipe
