// A program as its trace tells it, so that it can be run again in virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/timing_model.h"
#include "policy/units.h"
#include "profiler/trace_reader.h"

namespace superpipe::cli {

/// One thing that the program did.
struct TracedStep {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kCopyIn,
    kCopyOut,
    kUse,
    kLaunch,
    kSynchronize,
    kHoldBesides
  };
  Kind kind{};
  bool writes = false;  ///< kUse
  /// The number of the buffer, or of the first name (kUse, kLaunch), or granules (kHoldBesides).
  std::uint32_t buffer = 0;
  std::uint32_t names = 0;   ///< of kUse and kLaunch: how many buffers it names
  std::uint32_t kernel = 0;  ///< kLaunch: index among the kernels
  float host_us = 0;         ///< what the program did before, without waiting
  float compute_us = 0;      ///< kLaunch and kUse: on the device
  std::uint32_t part = 0;    ///< kCopyIn and kCopyOut: of the buffer, for TracedProgram::part()
};

/// What of a buffer is copied.
struct TracedPart {
  Bytes offset;
  Bytes size;
};

/// What was measured while the trace was recorded.
struct TracedRun {
  PolicyKind policy = PolicyKind::kResident;
  std::optional<int> k{};
  std::optional<int> k_prime{};
  Bytes budget{};    ///< without the context; 0: none
  Bytes headroom{};  ///< of the budget
  Bytes context{};   ///< what the context takes of the device
  /// The most that the driver held of the device for the program besides, in whole granules.
  Bytes passthrough{};
  Bytes device{};                     ///< its memory; 0: not told
  std::optional<Bandwidth> memory{};  ///< what that does at best; nullopt: not told
  Bytes peak_device{};  ///< the most that pages of managed buffers and pass-through memory took
  Bytes to_device{};    ///< superpipe's own transfers
  Bytes to_host{};
  /// What superpipe's transfers tell of the link (LinkMeter); nullopt: there were too few.
  std::optional<Bandwidth> link_to_device{};
  std::optional<Bandwidth> link_to_host{};
  /// How many operations of a stream the driver had room for (QueueMeter); nullopt: the program was
  /// not held up by that.
  std::optional<std::size_t> queue_depth{};
  Bytes granule{2_MiB};  ///< what footprints are multiples of
  double seconds = 0;    ///< from the first launch to the last event
  double stall_seconds = 0;
  std::string device_name{};
  std::string command{};
};

/// The steps of one process, in the order of their times; what other threads did at the same time
/// comes between them, and all of it is taken to be on one stream.
///
/// Compute times are those that the trace has, without outliers (kernel_times.h). A launch whose
/// time was not taken has the mean of its kernel's others by the bytes that it names, or, if it
/// names none, by its place (nameless_times.h); one of which nothing is known has what the trace's
/// length leaves. Nobody tells what kernels write. A launch is taken to write what had mostly
/// changed when it left the device, and what never left and was not copied in.
class TracedProgram {
 public:
  /// Reads all of `reader`. @return what is wrong, in one line: the trace cannot be read, or there
  /// is no launch in it.
  [[nodiscard]] static std::variant<TracedProgram, std::string> read(TraceReader& reader);

  [[nodiscard]] std::span<const TracedStep> steps() const { return steps_; }
  /// When the last event happened.
  [[nodiscard]] std::int64_t end_time() const { return end_time_; }
  /// When all launches had ended, at the latest: when the last one did, or the program had waited
  /// for the device behind it, as far as that is known. It may do something else from then on.
  [[nodiscard]] std::int64_t launches_end() const { return launches_end_; }
  /// The buffers that a launch or use names.
  [[nodiscard]] std::span<const std::uint32_t> names(const TracedStep& step) const {
    return std::span(names_).subspan(step.buffer, step.names);
  }
  /// What a copy copies. REQUIRES: `step` is one.
  [[nodiscard]] const TracedPart& part(const TracedStep& step) const { return parts_[step.part]; }
  /// The buffer's bytes, as the program asked for them.
  [[nodiscard]] Bytes size(std::uint32_t buffer) const { return sizes_[buffer]; }
  /// Whether launches are taken to write the buffer.
  [[nodiscard]] bool is_written(std::uint32_t buffer) const { return written_[buffer]; }
  [[nodiscard]] Bytes footprint(std::uint32_t buffer) const { return footprints_[buffer]; }
  [[nodiscard]] std::size_t buffers() const { return footprints_.size(); }
  [[nodiscard]] std::uint64_t kernel_id(std::uint32_t kernel) const { return kernels_[kernel]; }
  /// What the trace calls a kernel; empty if it has no name, or the trace has no such kernel.
  /// O(kernels).
  [[nodiscard]] std::string kernel_name(KernelId kernel) const;
  /// Launches that name managed buffers: policy is told of no others.
  [[nodiscard]] std::size_t launches() const { return launch_steps_.size(); }
  /// The step of such a launch, counted from 0, and when it was submitted, in ns since the trace's
  /// start.
  [[nodiscard]] std::size_t step_of_launch(std::size_t launch) const {
    return launch_steps_[launch];
  }
  [[nodiscard]] std::int64_t time_of_launch(std::size_t launch) const {
    return launch_times_[launch];
  }

  /// What all live buffers take at most, and what the largest launch names.
  [[nodiscard]] Bytes peak() const { return peak_; }
  [[nodiscard]] Bytes largest_launch() const { return largest_launch_; }
  /// The kernel of that launch.
  [[nodiscard]] const std::string& largest_kernel() const { return largest_kernel_; }
  /// The share of the compute time that was measured, in [0, 1].
  [[nodiscard]] double measured_share() const { return measured_share_; }
  /// Whether none was, so that times are what makes the run as long as it was.
  [[nodiscard]] bool times_are_fitted() const { return times_are_fitted_; }
  [[nodiscard]] const TracedRun& run() const { return run_; }
  [[nodiscard]] const TraceEnding& ending() const { return ending_; }
  /// Launches of graphs: what they do is not known.
  [[nodiscard]] std::uint64_t graph_launches() const { return graph_launches_; }
  /// Operations that found no room in the traced run: what they name is not known.
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

 private:
  friend class TracedProgramBuilder;

  std::vector<TracedStep> steps_;
  std::vector<std::uint32_t> names_;
  std::vector<TracedPart> parts_;
  std::vector<Bytes> sizes_;       ///< by buffer
  std::vector<Bytes> footprints_;  ///< by buffer
  std::vector<bool> written_;
  std::vector<std::uint64_t> kernels_;
  std::vector<std::string> kernel_names_;
  std::vector<std::uint32_t> launch_steps_;
  std::vector<std::int64_t> launch_times_;
  std::int64_t end_time_ = 0;
  std::int64_t launches_end_ = 0;
  Bytes peak_;
  Bytes largest_launch_;
  std::string largest_kernel_;
  double measured_share_ = 0;
  bool times_are_fitted_ = false;
  TracedRun run_;
  TraceEnding ending_;
  std::uint64_t graph_launches_ = 0;
  std::uint64_t refusals_ = 0;
};

}  // namespace superpipe::cli
