#include "interposer/exit_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "interposer/context_registry.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "interposer/version.h"
#include "policy/budget.h"
#include "profiler/timeline_csv.h"

namespace superpipe {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
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

std::string statistics_json(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  const PassTimes times = pass_times(figures);
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const Bytes size : stats.learned.layer_bytes) layers.push_back(size.count());
  nlohmann::ordered_json json;
  json["version"] = kVersion;
  json["policy"] = name_of(figures.policy);
  json["k"] = figures.scheduled_k();
  json["k_prime"] = figures.scheduled_k_prime();
  json["budget_bytes"] = figures.budget.count();
  json["context_bytes"] = figures.context_bytes.count();
  json["layers"] = stats.learned.layer_bytes.size();
  json["layer_bytes"] = std::move(layers);
  json["launches"] = figures.launches();
  json["accesses"] = stats.accesses;
  json["peak_device_bytes"] = stats.peak_device_bytes.count();
  json["managed_bytes"] = stats.peak_managed_demand.count();
  json["passthrough_bytes"] = figures.peak_passthrough.count();
  json["headroom_bytes"] = figures.peak_headroom.count();
  json["h2d_bytes"] = stats.h2d_bytes.count();
  json["d2h_bytes"] = stats.d2h_bytes.count();
  json["fetches"] = stats.demand_fetches + stats.prefetches;
  json["demand_fetches"] = stats.demand_fetches;
  json["prefetches"] = stats.prefetches;
  json["evictions"] = stats.clean_evictions + stats.write_backs;
  json["clean_evictions"] = stats.clean_evictions;
  json["write_backs"] = stats.write_backs;
  json["stall_ms"] = stats.stall_ms;
  json["passes"] = stats.learned.passes;
  json["pass_ms"] = times.pass_ms;
  json["bound_ms"] = times.bound_ms.value_or(0);
  json["pinned_host_bytes"] = stats.pinned_host_bytes.count();
  json["mispredictions"] = stats.learned.mispredictions;
  json["launch_overhead_ns_p50"] = figures.overhead_ns_p50;
  json["launch_overhead_ns_p99"] = figures.overhead_ns_p99;
  json["errors"] = stats.errors;
  return json.dump(2) + "\n";
}

std::string summary_text(const RunFigures& figures) {
  const ResidencyStats& stats = figures.residency;
  const PassTimes times = pass_times(figures);
  std::string text = "superpipe: policy " + std::string(name_of(figures.policy));
  if (figures.policy != PolicyKind::kResident) {
    text += ", k " + std::to_string(figures.scheduled_k()) + ", k' " +
            std::to_string(figures.scheduled_k_prime());
  }
  text += ", layers ";
  text += stats.learned.layers_known ? std::to_string(stats.learned.layer_bytes.size())
                                     : std::string("not found");
  text += std::string(", allocators ") + (figures.async_allocators ? "async" : "native") + "\n";

  const Bytes with = stats.peak_device_bytes + figures.context_bytes;
  const Bytes without =
      stats.peak_managed_demand + figures.peak_passthrough + figures.context_bytes;
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
  return text;
}

std::optional<std::string> write_file_atomically(const std::string& path, const std::string& text) {
  struct stat status;
  // A device or a pipe (/dev/stderr) cannot be replaced, only written.
  const bool replace = ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
  const std::string target = replace ? path + "." + std::to_string(::getpid()) + ".part" : path;
  const auto problem = [&](const char* what) {
    return std::string("cannot ") + what + " " + target + ": " + std::strerror(errno);
  };
  std::FILE* const file = std::fopen(target.c_str(), "w");
  if (file == nullptr) return problem("write");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) {
    auto message = problem("write");
    if (replace) ::unlink(target.c_str());
    return message;
  }
  if (replace && std::rename(target.c_str(), path.c_str()) != 0) {
    auto message = problem("rename");
    ::unlink(target.c_str());
    return message;
  }
  return std::nullopt;
}

void report_at_exit() noexcept {
  try {
    const auto figures = ContextRegistry::of_process().figures();
    if (!figures) return;
    const Configuration& configuration = process_configuration();
    if (!configuration.stats_file.empty()) {
      if (const auto problem =
              write_file_atomically(configuration.stats_file, statistics_json(*figures))) {
        log_line(LogLevel::kError, "SUPERPIPE_STATS: " + *problem);
      }
    }
    if (!configuration.timeline_file.empty()) {
      if (const auto problem = write_file_atomically(
              configuration.timeline_file,
              timeline_csv(figures->residency.timeline, figures->residency.learned.layer_bytes))) {
        log_line(LogLevel::kError, "SUPERPIPE_TIMELINE: " + *problem);
      }
    }
    if (configuration.summary) {
      const std::string text = summary_text(*figures);
      std::fwrite(text.data(), 1, text.size(), stderr);
    }
  } catch (...) {
    log_line(LogLevel::kError, "out of memory while writing the statistics");
  }
}

}  // namespace superpipe
