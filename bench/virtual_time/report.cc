#include "bench/virtual_time/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>

namespace superpipe::bench {
namespace {

double milliseconds(Time time) { return std::chrono::duration<double, std::milli>(time).count(); }
double milliseconds(Seconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
double count(Bytes bytes) { return static_cast<double>(bytes.count()); }

SteadyState steady_state(std::span<const PassFigures> passes) {
  const auto number = static_cast<double>(passes.size());
  const auto mean = [&](const auto& value_of) {
    double sum = 0;
    for (const PassFigures& pass : passes) sum += static_cast<double>(value_of(pass));
    return sum / number;
  };
  const auto calls = [&](DeviceCall call) {
    return mean([call](const PassFigures& pass) { return pass.calls[call]; });
  };
  SteadyState steady;
  steady.pass = mean([](const PassFigures& pass) { return milliseconds(pass.time); });
  steady.stalls = mean([](const PassFigures& pass) { return pass.stalls; });
  steady.host_wait = mean([](const PassFigures& pass) { return milliseconds(pass.host_wait); });
  steady.device_wait = mean([](const PassFigures& pass) { return milliseconds(pass.device_wait); });
  steady.to_device_bytes = mean([](const PassFigures& pass) { return count(pass.to_device); });
  steady.to_host_bytes = mean([](const PassFigures& pass) { return count(pass.to_host); });
  steady.launches = mean([](const PassFigures& pass) { return pass.launches; });
  steady.accesses = mean([](const PassFigures& pass) { return pass.accesses; });
  steady.demand_fetches = mean([](const PassFigures& pass) { return pass.demand_fetches; });
  steady.prefetches = mean([](const PassFigures& pass) { return pass.prefetches; });
  steady.clean_evictions = mean([](const PassFigures& pass) { return pass.clean_evictions; });
  steady.write_backs = mean([](const PassFigures& pass) { return pass.write_backs; });
  steady.pages_created = calls(DeviceCall::kCreatePages);
  steady.pages_destroyed = calls(DeviceCall::kDestroyPages);
  for (std::size_t i = 0; i < kDeviceCalls; ++i) {
    steady.calls_per_launch.push_back(calls(static_cast<DeviceCall>(i)) / steady.launches);
  }
  return steady;
}

double calls_per_launch(const SteadyState& steady, DeviceCall call) {
  return steady.calls_per_launch[static_cast<std::size_t>(call)];
}

double other_calls_per_launch(const SteadyState& steady) {
  double sum = 0;
  for (const double calls : steady.calls_per_launch) sum += calls;
  for (const DeviceCall shown : {DeviceCall::kMap, DeviceCall::kUnmap, DeviceCall::kIsComplete}) {
    sum -= calls_per_launch(steady, shown);
  }
  return sum;
}

std::string number(double value, int decimals) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// A column of the table: its title, its width, and what it says of a row in its steady state.
struct Column {
  const char* title;
  int width;
  std::function<std::string(const Row&, const SteadyState&)> text;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> kColumns{
      {"pass ms", 9, [](const Row&, const SteadyState& s) { return number(s.pass, 1); }},
      {"bound ms", 9,
       [](const Row& row, const SteadyState&) {
         return number(milliseconds(row.bounds.physical), 1);
       }},
      {"x bound", 8,
       [](const Row& row, const SteadyState& s) {
         return number(s.pass / milliseconds(row.bounds.physical), 2);
       }},
      {"window ms", 10,
       [](const Row& row, const SteadyState&) {
         return number(milliseconds(row.bounds.windowed), 1);
       }},
      {"x window", 9,
       [](const Row& row, const SteadyState& s) {
         return number(s.pass / milliseconds(row.bounds.windowed), 2);
       }},
      {"compute", 8,
       [](const Row& row, const SteadyState&) {
         return number(milliseconds(row.bounds.compute), 1);
       }},
      {"first ms", 9, [](const Row& row, const SteadyState&) { return number(row.first_pass, 1); }},
      {"x first", 8,
       [](const Row& row, const SteadyState&) {
         return number(row.first_pass / milliseconds(row.first_bound), 2);
       }},
      {"in GB", 7,
       [](const Row&, const SteadyState& s) { return number(s.to_device_bytes / 1e9, 2); }},
      {"MIN GB", 7,
       [](const Row& row, const SteadyState&) {
         return number(static_cast<double>(row.bounds.min_bytes.count()) / 1e9, 2);
       }},
      {"LRU GB", 7,
       [](const Row& row, const SteadyState&) {
         return number(static_cast<double>(row.bounds.lru_bytes.count()) / 1e9, 2);
       }},
      {"BIP GB", 7,
       [](const Row& row, const SteadyState&) {
         return number(static_cast<double>(row.bounds.bip_bytes.count()) / 1e9, 2);
       }},
      {"out GB", 7,
       [](const Row&, const SteadyState& s) { return number(s.to_host_bytes / 1e9, 2); }},
      {"stalls", 8, [](const Row&, const SteadyState& s) { return number(s.stalls, 1); }},
      {"learned", 8,
       [](const Row& row, const SteadyState&) {
         return row.learned_at ? std::to_string(*row.learned_at) : "-";
       }},
      {"launches", 9, [](const Row&, const SteadyState& s) { return number(s.launches, 0); }},
      {"created", 8, [](const Row&, const SteadyState& s) { return number(s.pages_created, 1); }},
      {"destr.", 7, [](const Row&, const SteadyState& s) { return number(s.pages_destroyed, 1); }},
      {"maps/l", 7,
       [](const Row&, const SteadyState& s) {
         return number(calls_per_launch(s, DeviceCall::kMap), 2);
       }},
      {"query/l", 8,
       [](const Row&, const SteadyState& s) {
         return number(calls_per_launch(s, DeviceCall::kIsComplete), 2);
       }},
      {"other/l", 8,
       [](const Row&, const SteadyState& s) {
         return number(other_calls_per_launch(s) + calls_per_launch(s, DeviceCall::kUnmap), 2);
       }},
  };
  return kColumns;
}

std::string padded(const std::string& text, int width) {
  const auto wanted = static_cast<std::size_t>(width);
  return text.size() < wanted ? std::string(wanted - text.size(), ' ') + text : ' ' + text;
}

std::string titled(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text + ' ';
}

}  // namespace

void describe(const Outcome& outcome, const Bounds& bounds, Row& row) {
  row.error = outcome.error;
  row.load = milliseconds(outcome.load);
  row.learned_at = outcome.learned_at;
  row.bounds = bounds;
  row.peak_pages = outcome.peak_pages;
  row.pinned = outcome.pinned;
  row.violations = outcome.violations;
  if (!outcome.passes.empty()) row.first_pass = milliseconds(outcome.passes.front().time);
  if (outcome.passes.size() > kFirstSteadyPass) {
    row.steady = steady_state(std::span(outcome.passes).subspan(kFirstSteadyPass));
  }
}

void write_titles(std::ostream& out) {
  out << titled("workload", 17) << titled("policy", 20) << padded("budget", 7) << padded("GB/s", 6);
  for (const Column& column : columns()) out << padded(column.title, column.width);
  out << padded("real s", 8) << '\n';
}

void write(std::ostream& out, const Row& row) {
  out << titled(row.workload, 17) << titled(row.policy, 20)
      << padded(number(row.budget_percent, 0) + '%', 7) << padded(number(row.link, 1), 6);
  if (row.steady) {
    for (const Column& column : columns())
      out << padded(column.text(row, *row.steady), column.width);
  }
  out << padded(number(row.real_seconds, 2), 8);
  if (!row.error.empty()) out << "  ended: " << row.error;
  if (!row.violations.empty()) out << "  WRONG: " << row.violations.front();
  out << '\n';
}

std::string to_json(std::span<const Row> rows) {
  nlohmann::json all = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json object{
        {"workload", row.workload},
        {"policy", row.policy},
        {"budget_percent", row.budget_percent},
        {"budget_bytes", row.budget.count()},
        {"link_gb_per_s", row.link},
        {"pin_gb_per_s", row.pin_rate},
        {"load_gb_per_s", row.load_rate ? nlohmann::json(*row.load_rate) : nlohmann::json(nullptr)},
        {"planned", row.planned},
        {"load_ms", row.load},
        {"first_pass_ms", row.first_pass},
        {"first_pass_bound_ms", milliseconds(row.first_bound)},
        {"compute_ms", milliseconds(row.bounds.compute)},
        {"physical_bound_ms", milliseconds(row.bounds.physical)},
        {"fetch_bound_ms", milliseconds(row.bounds.fetches)},
        {"write_back_bound_ms", milliseconds(row.bounds.write_backs)},
        {"windowed_bound_ms", milliseconds(row.bounds.windowed)},
        {"min_fetched_bytes", row.bounds.min_bytes.count()},
        {"lru_fetched_bytes", row.bounds.lru_bytes.count()},
        {"bip_fetched_bytes", row.bounds.bip_bytes.count()},
        {"peak_page_bytes", row.peak_pages.count()},
        {"pinned_bytes", row.pinned.count()},
        {"violations", row.violations},
        {"real_seconds", row.real_seconds},
    };
    object["learned_at_launch"] =
        row.learned_at ? nlohmann::json(*row.learned_at) : nlohmann::json(nullptr);
    object["error"] = row.error.empty() ? nlohmann::json(nullptr) : nlohmann::json(row.error);
    if (row.steady) {
      const SteadyState& steady = *row.steady;
      nlohmann::json calls;
      for (std::size_t i = 0; i < kDeviceCalls; ++i) {
        calls[std::string(name_of(static_cast<DeviceCall>(i)))] = steady.calls_per_launch[i];
      }
      object["steady"] = {
          {"pass_ms", steady.pass},
          {"stalls", steady.stalls},
          {"host_wait_ms", steady.host_wait},
          {"device_wait_ms", steady.device_wait},
          {"to_device_bytes", steady.to_device_bytes},
          {"to_host_bytes", steady.to_host_bytes},
          {"launches", steady.launches},
          {"accesses", steady.accesses},
          {"pages_created", steady.pages_created},
          {"pages_destroyed", steady.pages_destroyed},
          {"demand_fetches", steady.demand_fetches},
          {"prefetches", steady.prefetches},
          {"clean_evictions", steady.clean_evictions},
          {"write_backs", steady.write_backs},
          {"calls_per_launch", calls},
      };
    }
    all.push_back(std::move(object));
  }
  return all.dump(2);
}

std::string to_json(std::span<const TracedWorkload> workloads) {
  nlohmann::json all = nlohmann::json::array();
  const auto counts = [](std::span<const Bytes> sizes) {
    nlohmann::json numbers = nlohmann::json::array();
    for (const Bytes size : sizes) numbers.push_back(size.count());
    return numbers;
  };
  for (const auto& [name, trace] : workloads) {
    nlohmann::json passes = nlohmann::json::array();
    for (const TracedPass& pass : trace.passes) {
      nlohmann::json launches = nlohmann::json::array();
      for (const TracedLaunch& launch : pass.launches) {
        launches.push_back({{"compute_ms", milliseconds(launch.compute)},
                            {"buffers", launch.buffers},
                            {"makes", launch.makes},
                            {"writes", launch.writes}});
      }
      passes.push_back(std::move(launches));
    }
    all.push_back({{"workload", name},
                   {"peak_bytes", trace.peak().count()},
                   {"sizes", counts(trace.sizes)},
                   {"footprints", counts(trace.footprints)},
                   {"without_content", trace.without_content},
                   {"passes", std::move(passes)}});
  }
  return all.dump();
}

}  // namespace superpipe::bench
