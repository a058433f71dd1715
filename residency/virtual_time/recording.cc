#include "residency/virtual_time/recording.h"

#include <utility>

namespace superpipe::virtual_time {
namespace {

// Runs that know what comes: what they need hardly changes after a few.
constexpr int kRunsThatKnow = 4;

}  // namespace

std::shared_ptr<const RecordedRun> record_first_pass(
    const std::function<std::unique_ptr<Workload>()>& make, Experiment experiment) {
  experiment.passes = 1;
  experiment.disturbances.clear();
  const auto run_once = [&] { return std::move(run(*make(), experiment).recorded); };
  experiment.recorded.reset();
  RecordedRun recorded = run_once();
  recorded.slabs.clear();  // they are those of a run that did not know
  for (int number = 0; number < kRunsThatKnow; ++number) {
    experiment.recorded = std::make_shared<const RecordedRun>(recorded);
    recorded.slabs = merged_slabs(run_once().slabs, recorded.slabs);
  }
  return std::make_shared<const RecordedRun>(std::move(recorded));
}

}  // namespace superpipe::virtual_time
