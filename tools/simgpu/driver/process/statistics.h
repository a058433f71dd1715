// What the simulated driver saw, written as JSON at exit (SIMGPU_STATS): an independent witness.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "tools/simgpu/driver/device/timeline.h"

namespace simgpu {

/// Counters of the process. All members are thread-safe; plain adds, no order implied.
struct Statistics {
  std::atomic<std::uint64_t> h2d_bytes{0};  ///< bytes of completed host-to-device copies
  std::atomic<std::uint64_t> d2h_bytes{0};  ///< bytes of completed device-to-host copies
  /// Bytes of pages on the host that kernels and fills which are complete read and wrote in place.
  std::atomic<std::uint64_t> in_place_read_bytes{0}, in_place_written_bytes{0};
  std::atomic<std::uint64_t> launches{0};           ///< kernel launches accepted
  std::atomic<std::uint64_t> unmapped_accesses{0};  ///< kernel or copy accesses that faulted
  std::atomic<std::int64_t> overrun_ns{0};          ///< lateness of work against its model
  /// What driver calls took of all threads by their costs (SIMGPU_CALL_COSTS), and for how long
  /// they waited for the locks of each other's.
  std::atomic<std::int64_t> call_ns{0}, call_wait_ns{0};
  /// For which the engines of all devices were taken: as modelled, and the overruns.
  std::array<std::atomic<std::int64_t>, kEngineCount> busy_ns{};
};

/// The counters. Never destroyed.
Statistics& statistics() noexcept;

/// Notes that the kernel `name` (mangled) was executed; "kernels" is the number of distinct names.
/// Takes a lock; call it once per loaded function or execution, it is a set insertion.
void count_kernel(std::string_view name);

/// Writes the JSON to SIMGPU_STATS (temporary file, then rename). Called at exit; safe while other
/// threads run; does nothing without the variable, before cuInit, or in a forked child.
void write_statistics() noexcept;

}  // namespace simgpu
