// What of a trace belongs to which pass of the program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tools/superpipe/report/trace_report.h"

namespace superpipe::cli {

/// The figures of a trace, of all of it and by pass. An event belongs to the pass in whose time it
/// happened, and a stall to that of the launch which waited.
///
/// What the base class says of stalls, by kernel and by group, is of the passes from `first` on:
/// those before are for learning. Without passes it is of the whole trace.
class PassReport final : public TraceReport {
 public:
  struct Sums {
    std::uint64_t stall_ns = 0;
    std::array<std::uint64_t, TraceWait::kCopy + 1> wait_ns{};  ///< by TraceWait::what
    std::uint64_t to_device = 0;  ///< bytes, as the next one, by superpipe
    std::uint64_t to_host = 0;
    std::uint64_t fetches = 0;  ///< that moved bytes
    std::uint64_t demand_fetches = 0;
    std::uint64_t evictions = 0;
    std::uint64_t write_backs = 0;
    std::uint64_t launches = 0;
    std::uint64_t allocations = 0;
    std::uint64_t copied_in = 0;  ///< bytes, as the next one, by the program
    std::uint64_t copied_out = 0;
  };
  struct Moved {
    std::uint64_t fetched = 0;  ///< bytes
    std::uint64_t written_back = 0;
  };
  struct KernelUse {
    std::uint64_t launches = 0;
    std::uint64_t timed_launches = 0;
    std::uint64_t device_ns = 0;  ///< of timed launches
  };

  /// `begins`: when each pass begins, in nanoseconds since the trace's start, and when the last one
  /// ends; may be empty. `first` counts passes from 0.
  PassReport(TracedLayers layers, std::vector<std::int64_t> begins, std::size_t first);

  void on_allocation(const TraceMoment& when, const TraceAllocation& event) override;
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override;
  void on_copy(const TraceMoment& when, const TraceCopy& event) override;
  void on_fetch(const TraceMoment& when, const TraceFetch& event) override;
  void on_eviction(const TraceMoment& when, const TraceEviction& event) override;
  void on_stall(const TraceMoment& when, const TraceStall& event) override;
  void on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) override;
  void on_wait(const TraceMoment& when, const TraceWait& event) override;
  void finish() override;

  [[nodiscard]] const std::vector<Sums>& passes() const { return passes_; }
  [[nodiscard]] const Sums& whole() const { return whole_; }
  /// What moved for a group, and how a kernel was used, in the passes from `first` on, or in all of
  /// the trace where there are none. REQUIRES: finish() was called.
  [[nodiscard]] Moved moved(std::size_t group) const;
  [[nodiscard]] KernelUse use_of(TraceIndex kernel) const;
  /// When the last kernel ended, in nanoseconds since the trace's start; nullopt where nobody took
  /// the time of any launch of the last pass or behind it.
  [[nodiscard]] std::optional<double> device_end() const;
  /// When the device certainly was still busy: the end of the last kernel of which somebody took
  /// the time; 0: of none.
  [[nodiscard]] double busy_until() const { return device_end_; }

 private:
  // The counts of the base class, which only grow, at one moment.
  struct Snapshot {
    std::vector<Moved> groups;
    std::map<TraceIndex, KernelUse> kernels;
  };

  [[nodiscard]] Snapshot snapshot() const;
  // The pass of a moment; passes_.size(): it is in none.
  [[nodiscard]] std::size_t pass_at(std::int64_t time);
  // The sums that an event of that moment adds to: those of its pass, or some that nobody reads.
  [[nodiscard]] Sums& sums_at(std::int64_t time);
  // The pass of a launch by its number, as pass_at().
  [[nodiscard]] std::size_t pass_of_launch(std::uint64_t number) const;

  std::vector<std::int64_t> begins_;
  std::size_t first_;
  std::vector<Sums> passes_;
  Sums outside_;
  Sums whole_;
  std::size_t current_ = 0;  ///< the pass of the last event
  // The number of the first launch of each pass that has begun, and of the first one behind the
  // last pass.
  std::vector<std::uint64_t> first_launch_;
  double device_end_ = 0;  ///< of the kernels whose times are known
  std::uint64_t last_timed_launch_ = 0;
  std::optional<Snapshot> before_;
  std::optional<Snapshot> after_;
};

}  // namespace superpipe::cli
