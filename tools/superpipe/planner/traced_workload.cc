#include "tools/superpipe/planner/traced_workload.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "policy/timing_model.h"
#include "profiler/pass_times.h"
#include "residency/virtual_time/experiment.h"
#include "tools/superpipe/planner/landmarks.h"

namespace superpipe::cli {
namespace {

using virtual_time::Handle;
using virtual_time::Named;
using Microseconds = std::chrono::duration<double, std::micro>;

// The share of launches that have to have the same kernel in a pass that is not known to be one.
constexpr double kLeastAlike = 0.95;

// The first launches of a program, and no passes.
class Beginning : public virtual_time::Workload {
 public:
  Beginning(const TracedProgram& program, std::size_t launches)
      : whole_(program, TracedPasses{{0, launches}}) {}

  void load(virtual_time::Program& program) override { whole_.load(program); }
  void run_pass(virtual_time::Program& program, int number) override {
    whole_.run_pass(program, number);
    program.synchronize();  // a pass is seen when the device comes to the next one
  }

 private:
  TracedWorkload whole_;
};

// Whether the launches from `a` on have the kernels of those from `b` on.
bool are_alike(const TracedProgram& program, std::size_t a, std::size_t b, std::size_t length) {
  std::size_t same = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const TracedStep& first = program.steps()[program.step_of_launch(a + i)];
    const TracedStep& second = program.steps()[program.step_of_launch(b + i)];
    same += first.kernel == second.kernel ? 1U : 0U;
  }
  return static_cast<double>(same) >= kLeastAlike * static_cast<double>(length);
}

}  // namespace

TracedPasses find_passes(const TracedProgram& program, std::size_t most_launches) {
  const std::size_t launches = std::min(program.launches(), most_launches);
  TracedPasses by_landmarks{passes_by_landmarks(program, launches)};
  if (by_landmarks.size() > 0) return by_landmarks;
  Beginning beginning(program, launches);
  virtual_time::Experiment experiment;
  experiment.policy = PolicyKind::kAuto;
  experiment.budget = round_up(
      program.peak() + program.largest_launch() + program.run().passthrough + 64_MiB, 2_MiB);
  experiment.passes = 1;
  const virtual_time::Outcome outcome = virtual_time::run(beginning, experiment);
  const std::size_t length = median_launches(outcome.stats.measured_passes);
  TracedPasses passes;
  for (const MeasuredPass& pass : outcome.stats.measured_passes) {
    if (!is_about_as_long(pass, length)) continue;
    if (pass.end > launches) break;
    if (passes.begins.empty()) passes.begins.push_back(pass.begin);
    passes.begins.push_back(pass.end);
  }
  if (passes.size() == 0) return passes;
  // A meter keeps the last passes only, so that of a long trace most are found here.
  std::vector<std::size_t> before;
  std::size_t first = passes.begins.front();
  while (first >= length &&
         are_alike(program, first - length, first, std::min(length, launches - first))) {
    first -= length;
    before.push_back(first);
  }
  passes.begins.insert(passes.begins.begin(), before.rbegin(), before.rend());
  return passes;
}

TracedWorkload::TracedWorkload(const TracedProgram& program, const TracedPasses& passes)
    : traced_(program), handles_(program.buffers()) {
  for (const std::size_t launch : passes.begins) {
    bounds_.push_back(launch < program.launches() ? program.step_of_launch(launch)
                                                  : program.steps().size());
  }
  if (bounds_.empty()) bounds_ = {program.step_of_launch(0), program.steps().size()};
}

void TracedWorkload::load(virtual_time::Program& program) {
  run_steps(program, 0, bounds_.front());
}

void TracedWorkload::run_pass(virtual_time::Program& program, int number) {
  const auto pass = static_cast<std::size_t>(number);
  run_steps(program, bounds_[pass], bounds_[pass + 1]);
}

std::vector<Named>& TracedWorkload::named(const TracedStep& step) {
  named_.clear();
  for (const std::uint32_t buffer : traced_.names(step)) {
    const bool writes =
        step.kind == TracedStep::Kind::kUse ? step.writes : traced_.is_written(buffer);
    named_.push_back({handles_[buffer], writes});
  }
  return named_;
}

void TracedWorkload::run_steps(virtual_time::Program& program, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const TracedStep& step = traced_.steps()[i];
    program.work(Microseconds{step.host_us});
    switch (step.kind) {
      case TracedStep::Kind::kAllocate:
        handles_[step.buffer] = program.allocate(traced_.size(step.buffer));
        break;
      case TracedStep::Kind::kFree:
        program.free(handles_[step.buffer]);
        break;
      case TracedStep::Kind::kCopyIn:
        program.copy_in(handles_[step.buffer], traced_.part(step).offset, traced_.part(step).size);
        break;
      case TracedStep::Kind::kCopyOut:
        program.copy_out(handles_[step.buffer], traced_.part(step).offset, traced_.part(step).size);
        break;
      case TracedStep::Kind::kUse:
        program.use(named(step), Microseconds{step.compute_us});
        break;
      case TracedStep::Kind::kHoldBesides:
        program.hold_besides(traced_.run().granule * step.buffer);
        break;
      case TracedStep::Kind::kSynchronize:
        program.synchronize();
        break;
      case TracedStep::Kind::kLaunch:
        program.launch(KernelId{traced_.kernel_id(step.kernel)}, named(step),
                       Microseconds{step.compute_us});
        break;
    }
  }
}

}  // namespace superpipe::cli
