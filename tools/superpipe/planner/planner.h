// What a traced program would do under another budget, policy, link: run again in virtual time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/plan_file.h"
#include "residency/virtual_time/experiment.h"
#include "tools/superpipe/planner/assumed_link.h"
#include "tools/superpipe/planner/traced_program.h"
#include "tools/superpipe/planner/traced_workload.h"

namespace superpipe::cli {

/// What is asked.
struct PlanQuestion {
  PolicyKind policy = PolicyKind::kAuto;
  Bytes gpu_mem;  ///< all that the process takes of the device, as --gpu-mem; void with a k
  std::optional<int> k{};
  std::optional<int> k_prime{};
  std::optional<Bytes> host_mem{};  ///< as --host-mem: a cap; nullopt: as much as is needed
};

/// The answer. Times in milliseconds; those of passes, and bytes, are means over the passes that
/// are replayed, without the first two where there are more. Where these are not alike, as with a
/// pause between some, they are those of the pass that takes the median time.
struct Prediction {
  PlanQuestion question;
  std::string problem{};      ///< why the program does not run so; empty: it does
  bool is_of_median = false;  ///< passes are not alike
  double load_ms = 0;         ///< until the first pass begins
  double first_pass_ms = 0;
  double pass_ms = 0;
  double stall_ms = 0;  ///< of a pass, what a run's summary calls stalled: launches waited
  std::optional<double>
      bound_ms{};  ///< what no schedule can beat on that link (the windowed bound)
  std::optional<double> physical_ms{};  ///< the physical bound
  double to_device_bytes = 0;
  double to_host_bytes = 0;
  Bytes peak{};         ///< of all that the process takes of the device
  Bytes pinned_host{};  ///< the host memory that it takes for what is not there
};

/// How near the replay of the traced run comes to what was measured in it.
struct PlanAccuracy {
  /// From the first pass until the program has waited for the last one, over all passes: the host
  /// may be ahead of the device until then. Of passes that are not alike, the median.
  double measured_pass_ms = 0;
  double predicted_pass_ms = 0;
  Bytes measured_peak{};  ///< of all that the process takes of the device; 0: not told
  Bytes predicted_peak{};
  bool has_own_link = false;  ///< else the trace tells none, and the one of predictions stood in
  Bytes granule{2_MiB};       ///< what peaks are multiples of
  std::size_t passes = 0;     ///< that were measured

  /// A prediction that is off by more is not to be relied on.
  static constexpr double kMostPassError = 0.05;
  static constexpr double kMostPeakError = 0.02;

  /// By how much the prediction is off, as a share: 0.03 is 3 % too long.
  [[nodiscard]] double pass_error() const { return predicted_pass_ms / measured_pass_ms - 1; }
  [[nodiscard]] double peak_error() const;
  /// Whether neither error is too large. Of a small program one granule is more than
  /// kMostPeakError, and is allowed.
  [[nodiscard]] bool is_near() const;
};

/// Runs a traced program again and again. Deterministic. One thread.
class Planner {
 public:
  /// At most so many launches of the trace are looked at, and passes replayed for each question.
  static constexpr std::size_t kMostLaunches = 1'000'000;
  static constexpr std::size_t kMostPasses = 8;

  /// `program` must outlive it. `link`: what predictions are for. `device`: the memory of the
  /// device that they are for, which tells the headroom that a run has there by default; the traced
  /// one's where none is given.
  Planner(const TracedProgram& program, LinkSpeed link, std::optional<Bytes> device = std::nullopt);
  Planner(TracedProgram&&, LinkSpeed, std::optional<Bytes> = std::nullopt) = delete;

  [[nodiscard]] const TracedPasses& passes() const { return passes_; }
  /// How many launches those have on an average; 0: there are none.
  [[nodiscard]] std::size_t launches_of_pass() const {
    if (passes_.size() == 0) return 0;
    return (passes_.begins.back() - passes_.begins.front()) / passes_.size();
  }
  /// What of the device managed buffers cannot have where it has all of them, by what the trace
  /// says: what the program takes of it besides, and the headroom.
  [[nodiscard]] Bytes overhead() const { return overhead_beside(program_.peak()); }
  /// What it needs to have all of its buffers on the device.
  [[nodiscard]] Bytes needed() const { return program_.peak() + overhead(); }
  /// The least with which every launch finds room.
  [[nodiscard]] Bytes least() const {
    return program_.largest_launch() + overhead_beside(program_.largest_launch());
  }
  /// The time of a pass with all on the device, in milliseconds.
  [[nodiscard]] double resident_pass_ms() const { return resident_pass_ms_; }

  [[nodiscard]] Prediction predict(const PlanQuestion& question) const;
  /// A plan for the answer to `question`: what the program does up to the end of its first pass,
  /// where the policy foresees, and how long that pass takes with it. Runs the first pass several
  /// times. @return what is in the way, in one line: the program does not run so, or does more
  /// before its second pass than a plan can hold.
  [[nodiscard]] std::variant<Plan, std::string> plan_for(const PlanQuestion& question) const;
  /// Runs the traced run again, over the link that it had as far as the trace tells, whatever link
  /// predictions are for. nullopt: there is nothing to compare, and `problem`, if given, is why, in
  /// one sentence.
  [[nodiscard]] std::optional<PlanAccuracy> accuracy(std::string* problem = nullptr) const;

 private:
  /// The headroom of a run with `budget` beside its context: the default one, if the traced run had
  /// the default of its own budget, else the same.
  [[nodiscard]] Bytes headroom_of(Bytes budget) const;
  /// What a process takes of the device beside `managed` bytes that buffers may have.
  [[nodiscard]] Bytes overhead_beside(Bytes managed) const;
  /// What buffers may have of `gpu_mem`.
  [[nodiscard]] Bytes managed_of(Bytes gpu_mem) const;
  [[nodiscard]] virtual_time::Experiment experiment_for(const PlanQuestion& question,
                                                        LinkSpeed link) const;
  [[nodiscard]] Prediction replay(const PlanQuestion& question, LinkSpeed link) const;
  [[nodiscard]] double measured_pass_ms(std::size_t first) const;
  [[nodiscard]] std::optional<double> measured_median_ms() const;

  const TracedProgram& program_;
  const LinkSpeed link_;
  const std::optional<Bytes> device_;
  TracedPasses passes_;          ///< those that are replayed
  std::size_t all_passes_ = 0;   ///< those that were found
  std::size_t last_launch_ = 0;  ///< the one behind the last of them
  double resident_pass_ms_ = 0;
};

}  // namespace superpipe::cli
