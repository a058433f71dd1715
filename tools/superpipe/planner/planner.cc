#include "tools/superpipe/planner/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "policy/budget.h"
#include "policy/piece_size.h"
#include "profiler/kernel_names.h"
#include "residency/virtual_time/experiment.h"
#include "residency/virtual_time/pass_trace.h"
#include "residency/virtual_time/recording.h"
#include "settings/settings.h"
#include "tools/superpipe/plain_text.h"

namespace superpipe::cli {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;
using virtual_time::Outcome;
using virtual_time::PassFigures;

// No pass takes less of the time with all on the device than this, but for what estimates are off.
constexpr double kLeastOfResident = 0.9;

// Orders are known after two passes.
constexpr std::size_t kFirstSteady = 2;

// Passes of which one takes so much more or less than the median are not alike.
constexpr double kMostUnlike = 0.3;

double milliseconds(Seconds time) { return Milliseconds(time).count(); }

// The pass that takes the median time. REQUIRES: there are some.
std::size_t median_pass(const std::vector<double>& times) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t pass) { return times[pass]; });
  return order[(order.size() - 1) / 2];
}

// The pass that stands for all where they are not alike, as where the program does something else
// between some of them. nullopt: the mean of all does. REQUIRES: there are some.
std::optional<std::size_t> median_of_unlike(const std::vector<double>& times) {
  const std::size_t median = median_pass(times);
  const bool are_alike = std::ranges::all_of(times, [&](double time) {
    return std::abs(time - times[median]) <= kMostUnlike * times[median];
  });
  return are_alike ? std::nullopt : std::optional(median);
}

}  // namespace

double PlanAccuracy::peak_error() const {
  return measured_peak == Bytes{} ? 0
                                  : static_cast<double>(predicted_peak.count()) /
                                            static_cast<double>(measured_peak.count()) -
                                        1;
}

bool PlanAccuracy::is_near() const {
  const Bytes off =
      std::max(measured_peak, predicted_peak) - std::min(measured_peak, predicted_peak);
  const bool is_peak_near = std::abs(peak_error()) <= kMostPeakError || off <= granule;
  return std::abs(pass_error()) <= kMostPassError && is_peak_near;
}

Planner::Planner(const TracedProgram& program, LinkSpeed link, std::optional<Bytes> device)
    : program_(program),
      link_(link),
      device_(device),
      passes_(find_passes(program, kMostLaunches)) {
  all_passes_ = passes_.size();
  last_launch_ = passes_.begins.empty() ? 0 : passes_.begins.back();
  if (passes_.size() > kMostPasses) passes_.begins.resize(kMostPasses + 1);
  resident_pass_ms_ = replay({PolicyKind::kResident, Bytes{}}, link_).pass_ms;
}

Bytes Planner::headroom_of(Bytes budget) const {
  const TracedRun& run = program_.run();
  const bool is_default =
      run.device > Bytes{} && run.headroom == default_headroom(run.device, run.budget);
  return is_default ? default_headroom(device_.value_or(run.device), budget) : run.headroom;
}

Bytes Planner::overhead_beside(Bytes managed) const {
  const TracedRun& run = program_.run();
  // A part of the budget, which it makes larger.
  Bytes headroom;
  for (Bytes larger = headroom_of(run.passthrough + managed); larger > headroom;
       larger = headroom_of(run.passthrough + managed + headroom)) {
    headroom = larger;
  }
  return run.context + run.passthrough + headroom;
}

Bytes Planner::managed_of(Bytes gpu_mem) const {
  const TracedRun& run = program_.run();
  const Bytes budget = saturating_subtract(gpu_mem, run.context);
  return saturating_subtract(budget, run.passthrough + headroom_of(budget));
}

Prediction Planner::predict(const PlanQuestion& question) const {
  const bool has_budget = question.policy != PolicyKind::kResident && !question.k;
  if (has_budget && managed_of(question.gpu_mem) == Bytes{}) {
    Prediction none;
    none.question = question;
    none.problem = "nothing is left beside the context and the driver's own memory, " +
                   format_bytes(overhead_beside(Bytes{}));
    return none;
  }
  if (question.policy == PolicyKind::kResident && needed() > question.gpu_mem) {
    Prediction none;
    none.question = question;
    none.problem = "the policy resident evicts nothing, and all takes " + format_bytes(needed());
    return none;
  }
  return replay(question, link_);
}

std::variant<Plan, std::string> Planner::plan_for(const PlanQuestion& question) const {
  const Prediction prediction = predict(question);
  if (!prediction.problem.empty()) return prediction.problem;
  Plan plan;
  plan.command = program_.run().command;
  plan.policy = question.policy;
  plan.k = question.k;
  plan.k_prime = question.k_prime;
  plan.gpu_mem = question.k ? Bytes{} : question.gpu_mem;
  plan.pass_ms = prediction.pass_ms;
  plan.first_pass_ms = prediction.first_pass_ms;
  if (question.policy != PolicyKind::kAuto || passes_.size() == 0) return plan;
  if (passes_.begins[1] > kMostPlannedLaunches) {
    return "the first pass ends with launch " + std::to_string(passes_.begins[1]) +
           ", and a plan holds at most " + std::to_string(kMostPlannedLaunches);
  }
  virtual_time::Experiment experiment = experiment_for(question, link_);
  const auto recorded = virtual_time::record_first_pass(
      [this] { return std::make_unique<TracedWorkload>(program_, passes_); }, experiment);
  const bool is_too_large = recorded->footprints.size() > kMostPlannedBuffers ||
                            recorded->names.size() > kMostPlannedNames;
  if (is_too_large) return std::string("the first pass has more buffers than a plan can hold");
  plan.recorded = experiment.recorded = recorded;
  experiment.passes = 1;
  TracedWorkload workload(program_, passes_);
  const Outcome outcome = virtual_time::run(workload, experiment);
  if (!outcome.error.empty()) return outcome.error;
  plan.first_pass_ms = milliseconds(outcome.passes.front().time);
  return plan;
}

virtual_time::Experiment Planner::experiment_for(const PlanQuestion& question,
                                                 LinkSpeed link) const {
  virtual_time::Experiment experiment;
  experiment.policy = question.policy;
  experiment.budget = saturating_subtract(question.gpu_mem, program_.run().context);
  experiment.headroom = headroom_of(experiment.budget);
  if (question.host_mem) experiment.host_limit = *question.host_mem;
  experiment.k = question.k;
  experiment.k_prime = question.k_prime;
  experiment.device.granularity = program_.run().granule;
  experiment.device.to_device = link.to_device;
  experiment.device.to_host = link.to_host;
  if (program_.run().memory) experiment.device.device_memory = *program_.run().memory;
  if (program_.run().queue_depth) experiment.device.queue_depth = *program_.run().queue_depth;
  experiment.device.costs.launch = virtual_time::Time{0};  // what the thread did is in the steps
  // As the run says it itself. The trace may be anyone's.
  experiment.kernel_name = [this](KernelId kernel) {
    const std::string name = program_.kernel_name(kernel);
    return name.empty() ? std::to_string(static_cast<std::uint64_t>(kernel))
                        : plain_text(short_kernel_name(name));
  };
  experiment.passes = static_cast<int>(std::max<std::size_t>(passes_.size(), 1));
  const auto budget = question.k ? std::nullopt : std::optional(experiment.budget);
  experiment.piece_size = piece_size_for(budget, program_.run().granule);
  return experiment;
}

Prediction Planner::replay(const PlanQuestion& question, LinkSpeed link) const {
  const virtual_time::Experiment experiment = experiment_for(question, link);
  TracedWorkload workload(program_, passes_);
  const Outcome outcome = virtual_time::run(workload, experiment);

  Prediction prediction;
  prediction.question = question;
  prediction.problem = outcome.error;
  if (prediction.problem.empty() && !outcome.violations.empty()) {
    prediction.problem = "the simulation is not sound: " + outcome.violations.front();
  }
  prediction.pinned_host = outcome.pinned;
  prediction.load_ms = milliseconds(outcome.load);
  prediction.peak = outcome.peak_device + program_.run().context;
  if (outcome.passes.empty()) return prediction;
  prediction.first_pass_ms = milliseconds(outcome.passes.front().time);
  const std::size_t first = outcome.passes.size() > kFirstSteady ? kFirstSteady : 0;
  const auto steady = std::span(outcome.passes).subspan(first);
  std::vector<double> times;
  for (const PassFigures& pass : steady) times.push_back(milliseconds(pass.time));
  const std::optional<std::size_t> median = median_of_unlike(times);
  prediction.is_of_median = median.has_value();
  const auto shown = median ? steady.subspan(*median, 1) : steady;
  const auto count = static_cast<double>(shown.size());
  for (const PassFigures& pass : shown) {
    prediction.pass_ms += milliseconds(pass.time) / count;
    prediction.stall_ms += milliseconds(pass.stalled) / count;
    prediction.to_device_bytes += static_cast<double>(pass.to_device.count()) / count;
    prediction.to_host_bytes += static_cast<double>(pass.to_host.count()) / count;
  }
  if (question.policy == PolicyKind::kResident || question.k || !prediction.problem.empty()) {
    return prediction;
  }
  TracedWorkload recorded(program_, passes_);
  const auto trace =
      virtual_time::record_passes(recorded, experiment.passes, program_.run().granule);
  const Bytes managed = managed_of(question.gpu_mem);
  const virtual_time::Speeds speeds = virtual_time::speeds_of(experiment.device);
  if (median) {
    const virtual_time::TracedPass& pass = trace.passes[first + *median];
    const Seconds physical =
        physical_bound({pass.compute, pass.persistent, link.to_device}, managed);
    const Seconds windowed = virtual_time::bound_of_pass(trace, first + *median, managed, speeds);
    prediction.physical_ms = milliseconds(physical);
    prediction.bound_ms = milliseconds(std::max(physical, windowed));
    return prediction;
  }
  const auto bounds = virtual_time::bounds_of(trace, first, managed, speeds);
  prediction.bound_ms = milliseconds(bounds.windowed);
  prediction.physical_ms = milliseconds(bounds.physical);
  return prediction;
}

// The time of a pass on an average, from the beginning of pass `first` on, in milliseconds.
double Planner::measured_pass_ms(std::size_t first) const {
  const std::size_t begin = passes_.begins[first];
  const auto passes = static_cast<double>(all_passes_ - first);
  const auto begun = static_cast<double>(program_.time_of_launch(begin));
  // What a program does behind its last pass belongs to none.
  if (last_launch_ < program_.launches()) {
    const auto ended = static_cast<double>(program_.time_of_launch(last_launch_));
    const double pass_ms = (ended - begun) * 1e-6 / passes;
    if (pass_ms >= kLeastOfResident * resident_pass_ms_) return pass_ms;
  }
  // The launches came faster than the device can have run them: the program was ahead of it, and
  // only the end of the trace tells when that was done. It may end within a pass.
  const double share =
      static_cast<double>(last_launch_ - begin) / static_cast<double>(program_.launches() - begin);
  return (static_cast<double>(program_.launches_end()) - begun) * 1e-6 * share / passes;
}

// The median pass, in milliseconds, where the program submits one as fast as the device runs it.
// nullopt: it does not.
std::optional<double> Planner::measured_median_ms() const {
  std::vector<double> times;
  for (std::size_t i = kFirstSteady; i + 1 < passes_.begins.size(); ++i) {
    if (passes_.begins[i + 1] >= program_.launches()) break;
    const auto begin = static_cast<double>(program_.time_of_launch(passes_.begins[i]));
    const auto end = static_cast<double>(program_.time_of_launch(passes_.begins[i + 1]));
    times.push_back((end - begin) * 1e-6);
  }
  if (times.empty()) return std::nullopt;
  const double median = times[median_pass(times)];
  return median >= kLeastOfResident * resident_pass_ms_ ? std::optional(median) : std::nullopt;
}

std::optional<PlanAccuracy> Planner::accuracy(std::string* problem) const {
  // The run was on the traced device.
  if (device_) return Planner(program_, link_).accuracy(problem);
  const auto none = [problem](std::string why) {
    if (problem != nullptr) *problem = std::move(why);
    return std::nullopt;
  };
  const TracedRun& run = program_.run();
  if (passes_.size() <= kFirstSteady) {
    return none(
        "The program does not repeat itself often enough to compare its replay with what was "
        "measured.");
  }
  if (resident_pass_ms_ <= 0) return none("The trace does not tell how long kernels take.");
  PlanQuestion question;
  question.policy = run.policy;
  question.k = run.k;
  question.k_prime = run.k_prime;
  question.gpu_mem = run.budget + run.context;
  const AssumedLink own = assumed_link("", run);
  const bool has_own_link = own.source == AssumedLink::Source::kTrace;
  const Prediction replayed = replay(question, has_own_link ? own.speed : link_);
  if (!replayed.problem.empty()) {
    return none("The traced run itself cannot be run again: " + replayed.problem + ".");
  }
  // Passes of which only the beginning was looked at do not end with the trace. The last pass is
  // none of them, since no other begins behind it.
  const auto in_passes = static_cast<double>(last_launch_ - passes_.begins.front());
  const auto behind = static_cast<double>(program_.launches() - last_launch_);
  if (behind > 2 * in_passes / static_cast<double>(all_passes_)) {
    return none(
        "Behind its passes the program does too much else to compare its replay with what was "
        "measured.");
  }
  PlanAccuracy accuracy;
  accuracy.has_own_link = has_own_link;
  accuracy.granule = run.granule;
  accuracy.passes = all_passes_ - kFirstSteady;
  // As the prediction, without the passes in which superpipe learned, which take longer than
  // others. If they do not, the program was passes ahead of the device when they were over.
  const std::optional<double> measured =
      replayed.is_of_median
          ? measured_median_ms()
          : std::optional(std::min(measured_pass_ms(0), measured_pass_ms(kFirstSteady)));
  if (!measured || *measured <= 0) {
    return none(
        "The traced run submitted passes faster than its kernel times let the device run them, so "
        "that nobody knows how long one took: it was ahead of the device, or the times are too "
        "long.");
  }
  accuracy.measured_pass_ms = *measured;
  accuracy.predicted_pass_ms = replayed.pass_ms;
  if (run.peak_device > Bytes{}) accuracy.measured_peak = run.peak_device + run.context;
  accuracy.predicted_peak = replayed.peak;
  return accuracy;
}

}  // namespace superpipe::cli
