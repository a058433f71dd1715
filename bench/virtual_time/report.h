// The figures of one experiment, as a row of a table and as JSON.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "residency/virtual_time/experiment.h"
#include "residency/virtual_time/pass_trace.h"

namespace superpipe::bench {

using namespace virtual_time;

/// Means over passes, per pass unless it says otherwise; times in milliseconds.
struct SteadyState {
  double pass = 0;
  double stalls = 0;
  double host_wait = 0;
  double device_wait = 0;
  double to_device_bytes = 0;
  double to_host_bytes = 0;
  double launches = 0;
  double accesses = 0;
  double pages_created = 0;
  double pages_destroyed = 0;
  double demand_fetches = 0, prefetches = 0, clean_evictions = 0, write_backs = 0;
  /// Calls of the device for each launch, by DeviceCall.
  std::vector<double> calls_per_launch;
};

/// One workload under one policy with one budget over one link.
struct Row {
  std::string workload;
  std::string policy;
  double budget_percent = 0;
  Bytes budget;
  double link = 0;                  ///< GB/s
  double pin_rate = 0;              ///< GB/s
  std::optional<double> load_rate;  ///< GB/s; nullopt: all is in host memory
  bool planned = false;
  std::string error;
  double load = 0;        ///< ms, until the first pass begins
  double first_pass = 0;  ///< ms
  Seconds first_bound{};  ///< bound_of_first_pass()
  std::optional<std::uint64_t> learned_at;
  std::optional<SteadyState> steady;  ///< of the third pass and later ones; none if it ended sooner
  Bounds bounds;
  Bytes peak_pages;
  Bytes pinned;
  std::vector<std::string> violations;
  double real_seconds = 0;  ///< that the simulation took
};

/// The first pass that counts for the steady state: orders are known after two.
inline constexpr std::size_t kFirstSteadyPass = 2;

/// Fills in what `outcome` and `bounds` say.
void describe(const Outcome& outcome, const Bounds& bounds, Row& row);

/// Writes a line of titles, or of `row` below them.
void write_titles(std::ostream& out);
void write(std::ostream& out, const Row& row);

/// @return an array of objects, one a row, with all that is known.
[[nodiscard]] std::string to_json(std::span<const Row> rows);

/// A workload and what it does in its passes.
struct TracedWorkload {
  std::string name;
  PassTrace trace;
};

/// @return an array of objects: the "workload", its "peak_bytes", for each handle "sizes" and
/// "footprints" in bytes, the handles "without_content" before the first pass, and "passes", each a
/// list of launches with "compute_ms" and the handles that it names ("buffers"), "makes" and
/// "writes" (residency/virtual_time/pass_trace.h).
[[nodiscard]] std::string to_json(std::span<const TracedWorkload> workloads);

}  // namespace superpipe::bench
