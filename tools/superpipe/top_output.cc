#include "tools/superpipe/top_output.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "policy/policy_engine.h"

namespace superpipe::cli {

namespace {

using nlohmann::ordered_json;

/// One word for what became of a look; programs compare it.
std::string state_of(const ProcessLook& look) {
  if (!look.problem) return look.answers ? "running" : "not_answering";
  switch (*look.problem) {
    case LiveProblem::kOtherVersion:
      return "other_version";
    case LiveProblem::kOtherNamespace:
      return "other_container";
    case LiveProblem::kDamaged:
      return "damaged";
    default:
      return "unreadable";
  }
}

constexpr std::array<const char*, 6> kStates = {"running",         "not_answering", "other_version",
                                                "other_container", "damaged",       "unreadable"};

/// Null for zero and for "as much as you like".
ordered_json size_or_null(Bytes bytes) {
  const bool is_size = bytes > Bytes{} && bytes < Bytes{std::uint64_t{1} << 56};
  return is_size ? ordered_json(bytes.count()) : ordered_json(nullptr);
}

ordered_json ms_or_null(std::uint64_t nanoseconds) {
  return nanoseconds > 0 ? ordered_json(static_cast<double>(nanoseconds) * 1e-6)
                         : ordered_json(nullptr);
}

ordered_json layers_json(const LiveFigures& now) {
  if (now.layers == 0) return nullptr;
  const std::size_t shown = std::min<std::size_t>(now.layers, kShownLayers);
  const auto begin = now.layer_percent.begin();
  const std::vector<int> percent(begin, begin + static_cast<std::ptrdiff_t>(shown));
  return {{"count", now.layers},
          {"k", now.k > 0 ? ordered_json(now.k) : ordered_json(nullptr)},
          {"k_prime", now.k_prime > 0 ? ordered_json(now.k_prime) : ordered_json(nullptr)},
          {"percent_on_device", percent}};
}

ordered_json rates_json(const std::optional<Rates>& rates) {
  if (!rates) return nullptr;
  return {{"seconds", rates->seconds},
          {"h2d_bytes_per_second", rates->h2d},
          {"d2h_bytes_per_second", rates->d2h},
          {"launches_per_second", rates->launches},
          {"passes_per_second", rates->passes},
          {"fetches_per_second", rates->fetches},
          {"evictions_per_second", rates->evictions},
          {"stall_share", rates->stall}};
}

ordered_json process_json(const TopRow& row) {
  const ProcessLook& look = row.look;
  ordered_json process{{"pid", look.pid}, {"program", look.program}, {"state", state_of(look)}};
  if (look.problem) return process;
  const LiveFigures& now = look.figures;
  process["policy"] = name_of(look.description.policy);
  process["budget_can_change"] = look.description.refusal == BudgetAnswer::kChanged;
  process["device_bytes"] = look.description.device_total.count();
  process["budget_bytes"] = size_or_null(now.budget);
  process["limit_bytes"] = size_or_null(now.limit);
  process["pages_bytes"] = now.pages.count();
  process["live_bytes"] = now.live.count();
  process["context_bytes"] = now.context.count();
  process["passthrough_bytes"] = now.passthrough.count();
  process["pinned_host_bytes"] = now.pinned_host.count();
  process["host_limit_bytes"] = size_or_null(now.host_limit);
  process["layers"] = layers_json(now);
  process["counts"] = {{"launches", now.launches},
                       {"passes", now.passes},
                       {"h2d_bytes", now.h2d.count()},
                       {"d2h_bytes", now.d2h.count()},
                       {"demand_fetches", now.demand_fetches},
                       {"prefetches", now.prefetches},
                       {"clean_evictions", now.clean_evictions},
                       {"write_backs", now.write_backs},
                       {"stall_ms", static_cast<double>(now.stall_ns) * 1e-6},
                       {"budget_changes", now.budget_changes},
                       {"errors", now.errors}};
  const auto over = row.over_bound();
  process["last_pass"] = {{"ms", ms_or_null(now.pass_ns)},
                          {"stall_ms", static_cast<double>(now.pass_stall_ns) * 1e-6},
                          {"bound_ms", ms_or_null(now.bound_ns)},
                          {"over_bound", over ? ordered_json(*over) : ordered_json(nullptr)},
                          {"persistent_bytes", size_or_null(now.pass_bytes)}};
  process["link_bytes_per_second"] = now.link_bytes_per_second > 0
                                         ? ordered_json(now.link_bytes_per_second)
                                         : ordered_json(nullptr);
  process["rates"] = rates_json(row.rates);
  return process;
}

/// One metric of a process. `value`: nullopt where the process has none.
struct Metric {
  const char* name;
  const char* type;
  const char* help;
  const char* label;  ///< one more label with its value; empty: none
  std::function<std::optional<double>(const ProcessLook&)> value;
};

std::vector<Metric> metrics() {
  using Value = std::function<std::optional<double>(const ProcessLook&)>;
  const auto count = [](auto LiveFigures::*member) -> Value {
    return [member](const ProcessLook& look) -> std::optional<double> {
      return static_cast<double>(look.figures.*member);
    };
  };
  const auto size = [](Bytes LiveFigures::*member) -> Value {
    return [member](const ProcessLook& look) -> std::optional<double> {
      return static_cast<double>((look.figures.*member).count());
    };
  };
  const auto known_size = [](Bytes LiveFigures::*member) -> Value {
    return [member](const ProcessLook& look) -> std::optional<double> {
      const ordered_json known = size_or_null(look.figures.*member);
      return known.is_null() ? std::nullopt : std::optional(known.get<double>());
    };
  };
  const auto seconds = [](std::uint64_t LiveFigures::*member) -> Value {
    return [member](const ProcessLook& look) -> std::optional<double> {
      return static_cast<double>(look.figures.*member) * 1e-9;
    };
  };
  const auto known_seconds = [](std::uint64_t LiveFigures::*member) -> Value {
    return [member](const ProcessLook& look) -> std::optional<double> {
      const std::uint64_t nanoseconds = look.figures.*member;
      if (nanoseconds == 0) return std::nullopt;
      return static_cast<double>(nanoseconds) * 1e-9;
    };
  };
  using F = LiveFigures;
  return {
      {"up", "gauge", "Whether the process answers; if not, its other values are old.", "",
       [](const ProcessLook& look) { return std::optional(look.answers ? 1.0 : 0.0); }},
      {"device_bytes", "gauge", "Memory of the whole device.", "",
       [](const ProcessLook& look) -> std::optional<double> {
         return static_cast<double>(look.description.device_total.count());
       }},
      {"budget_bytes", "gauge", "What the process may take of the device.", "",
       known_size(&F::budget)},
      {"limit_bytes", "gauge", "What the pages of its buffers may take.", "",
       known_size(&F::limit)},
      {"pages_bytes", "gauge", "What the pages of its buffers take.", "", size(&F::pages)},
      {"live_bytes", "gauge", "What all its live buffers would take together.", "", size(&F::live)},
      {"context_bytes", "gauge", "What its context alone took as it was made.", "",
       size(&F::context)},
      {"passthrough_bytes", "gauge", "Device memory that is left to the driver.", "",
       size(&F::passthrough)},
      {"pinned_host_bytes", "gauge", "Host memory pinned for what is not on the device.", "",
       size(&F::pinned_host)},
      {"host_limit_bytes", "gauge", "The most host memory that may be pinned.", "",
       known_size(&F::host_limit)},
      {"launches_total", "counter", "Kernel launches.", "", count(&F::launches)},
      {"passes_total", "counter", "Measured passes.", "", count(&F::passes)},
      {"h2d_bytes_total", "counter", "Bytes moved to the device.", "", size(&F::h2d)},
      {"d2h_bytes_total", "counter", "Bytes moved back to the host.", "", size(&F::d2h)},
      {"fetches_total", "counter", "Fetches to the device.", "kind=\"demand\"",
       count(&F::demand_fetches)},
      {"fetches_total", "counter", "", "kind=\"prefetch\"", count(&F::prefetches)},
      {"evictions_total", "counter", "Evictions from the device.", "kind=\"clean\"",
       count(&F::clean_evictions)},
      {"evictions_total", "counter", "", "kind=\"write_back\"", count(&F::write_backs)},
      {"stall_seconds_total", "counter", "Time for which streams waited for fetches.", "",
       seconds(&F::stall_ns)},
      {"budget_changes_total", "counter", "Changes of the budget.", "", count(&F::budget_changes)},
      {"errors_total", "counter", "Internal errors.", "", count(&F::errors)},
      {"last_pass_seconds", "gauge", "How long the last pass took.", "",
       known_seconds(&F::pass_ns)},
      {"last_pass_stall_seconds", "gauge", "How long launches of the last pass waited.", "",
       seconds(&F::pass_stall_ns)},
      {"last_pass_bound_seconds", "gauge", "What no schedule could have made the last pass.", "",
       known_seconds(&F::bound_ns)},
      {"link_bytes_per_second", "gauge", "Measured speed of the link to the device.", "",
       [](const ProcessLook& look) -> std::optional<double> {
         if (look.figures.link_bytes_per_second == 0) return std::nullopt;
         return static_cast<double>(look.figures.link_bytes_per_second);
       }},
      {"layers", "gauge", "Layers that policy has learned; 0 while it has not.", "",
       count(&F::layers)},
  };
}

/// A label's value: backslash, quote and line's end are escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void begin_metric(std::string& text, const std::string& name, const char* type, const char* help) {
  text += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void add_sample(std::string& text, const std::string& name, const std::string& labels,
                double value) {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%.17g", value);
  text += name + "{" + labels + "} " + number.data() + "\n";
}

}  // namespace

std::string top_json(const TopModel& model, double unix_seconds) {
  ordered_json processes = ordered_json::array();
  for (const TopRow& row : model.rows()) processes.push_back(process_json(row));
  const ordered_json json{{"time", unix_seconds}, {"processes", std::move(processes)}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string top_prometheus(const TopModel& model) {
  std::string text;
  begin_metric(text, "superpipe_processes", "gauge", "Processes under superpipe, by state.");
  for (const std::string state : kStates) {
    const auto number = std::ranges::count_if(
        model.rows(), [&](const TopRow& row) { return state_of(row.look) == state; });
    add_sample(text, "superpipe_processes", "state=\"" + state + "\"", static_cast<double>(number));
  }
  for (const Metric& metric : metrics()) {
    const std::string name = std::string("superpipe_") + metric.name;
    // All samples of a name stand together, so what has no help continues the one before.
    if (metric.help[0] != '\0') begin_metric(text, name, metric.type, metric.help);
    for (const TopRow& row : model.rows()) {
      if (row.look.problem) continue;
      const auto value = metric.value(row.look);
      if (!value) continue;
      std::string labels = "pid=\"" + std::to_string(row.look.pid) + "\",program=\"" +
                           escaped(row.look.program) + "\",policy=\"" +
                           std::string(name_of(row.look.description.policy)) + "\"";
      if (metric.label[0] != '\0') labels += std::string(",") + metric.label;
      add_sample(text, name, labels, *value);
    }
  }
  return text;
}

}  // namespace superpipe::cli
