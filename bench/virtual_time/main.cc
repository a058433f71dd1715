// virtual_time: how long passes take under superpipe, without a GPU and without waiting for one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/virtual_time/report.h"
#include "bench/virtual_time/workloads.h"
#include "policy/piece_size.h"
#include "policy/policy_engine.h"
#include "residency/virtual_time/experiment.h"
#include "residency/virtual_time/pass_trace.h"
#include "residency/virtual_time/recording.h"

namespace superpipe::bench {
namespace {

struct Options {
  std::vector<std::string> workloads{"all"};
  std::vector<double> budgets{50};
  std::vector<int> layers;
  std::vector<std::string> links{"gen4"};
  std::vector<std::string> policies{"naive", "superpipeline", "superpipeline-paper"};
  int passes = 10;
  std::optional<double> piece_mib;
  std::size_t queue_depth = 1000;
  double map_us = 37.5;
  double unmap_us = 26;
  double create_us = 193;
  double query_us = 0.5;
  double launch_us = 10;
  double pin_rate = 5;
  std::optional<double> load_rate;
  bool planned = false;
  bool maps_early = false;
  std::string json;
  std::string launches;
};

/// What pinned memory achieves one way over PCIe x16, in GB/s.
double link_of(const std::string& text) {
  if (text == "gen3") return 12;
  if (text == "gen4") return 25;
  if (text == "gen5") return 54;
  return std::stod(text);
}

std::string check_link(const std::string& text) {
  try {
    if (link_of(text) > 0) return {};
  } catch (const std::exception&) {
  }
  return "'" + text + "' is neither gen3, gen4, gen5 nor a number of GB/s above 0";
}

std::string check_policy(const std::string& text) {
  return policy_from_name(text) ? std::string{} : "'" + text + "' is no policy";
}

std::string check_workload(const std::string& text) {
  return text == "all" || find_workload(text) != nullptr
             ? std::string{}
             : "'" + text + "' is no workload; --list shows them";
}

Time microseconds(double value) {
  return std::chrono::round<Time>(std::chrono::duration<double, std::micro>(value));
}

Experiment experiment_of(const Options& options, double link) {
  Experiment experiment;
  experiment.passes = options.passes;
  VirtualDeviceOptions& device = experiment.device;
  device.to_device = device.to_host = Bandwidth{link * 1e9};
  device.queue_depth = options.queue_depth;
  device.costs.map = microseconds(options.map_us);
  device.costs.set_access = Time{0};  // --map-us is for both
  device.costs.unmap = microseconds(options.unmap_us);
  device.costs.create_pages = microseconds(options.create_us);
  device.costs.query = microseconds(options.query_us);
  device.costs.launch = microseconds(options.launch_us);
  device.costs.pin_rate = Bandwidth{options.pin_rate * 1e9};
  if (options.load_rate) experiment.load_rate = Bandwidth{*options.load_rate * 1e9};
  return experiment;
}

/// How much a policy may keep on the device.
struct Room {
  double percent = 0;         ///< of the workload's peak
  std::optional<int> k = {};  ///< so many layers instead
};

Row run_row(const WorkloadEntry& entry, const PassTrace& trace, const Options& options,
            const Room& room, double link, const std::string& policy) {
  Experiment experiment = experiment_of(options, link);
  Row row;
  row.workload = entry.name;
  row.policy = policy;
  row.link = link;
  row.pin_rate = options.pin_rate;
  row.load_rate = options.load_rate;
  row.planned = options.planned;
  const auto peak = static_cast<double>(trace.peak().count());
  experiment.policy = *policy_from_name(policy);
  experiment.maps_early = options.maps_early;
  experiment.k = room.k;
  if (!room.k) experiment.budget = Bytes{static_cast<std::uint64_t>(peak * room.percent / 100)};
  const auto budget = room.k ? std::nullopt : std::optional(experiment.budget);
  experiment.piece_size = options.piece_mib
                              ? Bytes{static_cast<std::uint64_t>(*options.piece_mib * (1 << 20))}
                              : piece_size_for(budget, experiment.device.granularity);
  const auto begun = std::chrono::steady_clock::now();
  if (options.planned) {
    experiment.recorded = record_first_pass(entry.make, experiment);
  }
  const auto workload = entry.make();
  const Outcome outcome = run(*workload, experiment);
  row.real_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  row.budget = room.k ? outcome.stats.managed_limit : experiment.budget;
  row.budget_percent = room.k ? static_cast<double>(row.budget.count()) / peak * 100 : room.percent;
  const std::size_t first = std::min(kFirstSteadyPass, trace.passes.size() - 1);
  const Speeds speeds = speeds_of(experiment.device);
  row.first_bound = bound_of_first_pass(trace, row.budget, speeds, outcome.since_launch);
  describe(outcome, bounds_of(trace, first, row.budget, speeds), row);
  return row;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::endl;
  if (!file) std::cerr << "virtual_time: cannot write " << path << '\n';
  return static_cast<bool>(file);
}

// @return whether every row came to its end with nothing wrong.
bool run_all(const Options& options) {
  std::vector<Row> rows;
  std::vector<TracedWorkload> traced;
  write_titles(std::cout);
  for (const WorkloadEntry& entry : all_workloads()) {
    const auto is_named = [&](const std::string& name) {
      return name == "all" || name == entry.name;
    };
    if (std::none_of(options.workloads.begin(), options.workloads.end(), is_named)) continue;
    const auto recorded = entry.make();
    const PassTrace trace =
        record_passes(*recorded, options.passes, VirtualDeviceOptions{}.granularity);
    std::vector<Room> rooms;
    for (const int k : options.layers) rooms.push_back({0, k});
    if (rooms.empty()) {
      for (const double percent : options.budgets) rooms.push_back({percent});
    }
    for (const std::string& link : options.links) {
      for (const Room& room : rooms) {
        for (const std::string& policy : options.policies) {
          rows.push_back(run_row(entry, trace, options, room, link_of(link), policy));
          write(std::cout, rows.back());
          std::cout.flush();
        }
      }
    }
    if (!options.launches.empty()) traced.push_back({entry.name, trace});
  }
  if (!options.json.empty() && !write_file(options.json, to_json(rows))) return false;
  if (!options.launches.empty() && !write_file(options.launches, to_json(traced))) return false;
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.error.empty() && row.violations.empty(); });
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app{"Runs workloads under superpipe's residency manager and policies in virtual time."};
  app.add_option("--workload", options.workloads, "Names, or all")
      ->delimiter(',')
      ->check(check_workload)
      ->capture_default_str();
  app.add_option("--budget", options.budgets, "Percent of what the workload needs at its peak")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--k", options.layers,
                 "Layers that stay, instead of a budget; the bound is that of as much memory")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--link", options.links, "gen3, gen4, gen5 or GB/s, each way")
      ->delimiter(',')
      ->check(check_link)
      ->capture_default_str();
  app.add_option("--policy", options.policies, "Policies")
      ->delimiter(',')
      ->check(check_policy)
      ->capture_default_str();
  app.add_option("--passes", options.passes, "Passes; the mean is of the third and later ones")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--piece-mib", options.piece_mib,
                 "What moves at a time, a multiple of the granule; 0: whole buffers "
                 "[as superpipe chooses]")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--queue-depth", options.queue_depth, "Launches that the host may be ahead")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--map-us", options.map_us, "A mapping with its access rights, in microseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--unmap-us", options.unmap_us, "An unmapping")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--create-us", options.create_us, "The creation of physical pages")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--query-us", options.query_us, "A query of an event")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--launch-us", options.launch_us, "What the program's thread takes for a launch")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--map-early", options.maps_early,
               "map what is fetched before its content is there (SUPERPIPE_MAP=early)");
  app.add_flag("--planned", options.planned,
               "Runs each workload with what it did in an earlier run as a plan");
  app.add_option("--pin-rate", options.pin_rate, "Pinning of host memory, in GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--load-rate", options.load_rate,
                 "How fast programs read what they load, in GB/s [they have it in host memory]")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "Writes all figures to this file");
  app.add_option("--launches", options.launches,
                 "Writes what passes launch to this file, for fluid_bound.py");
  const auto list = [] {
    for (const WorkloadEntry& entry : all_workloads()) {
      std::cout << entry.name << ": " << entry.what << '\n';
    }
    throw CLI::Success();
  };
  app.add_flag_callback("--list", list, "Lists the workloads and ends");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return run_all(options) ? 0 : 1;
}

}  // namespace
}  // namespace superpipe::bench

int main(int argc, char** argv) { return superpipe::bench::main_of(argc, argv); }
