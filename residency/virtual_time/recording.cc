#include "residency/virtual_time/recording.h"

#include <utility>

#include "residency/tuning.h"

namespace superpipe::virtual_time {

std::shared_ptr<const RecordedRun> record_first_pass(
    const std::function<std::unique_ptr<Workload>()>& make, Experiment experiment) {
  experiment.passes = 1;
  experiment.disturbances.clear();
  const auto run_once = [&] { return std::move(run(*make(), experiment).recorded); };
  experiment.recorded.reset();
  RecordedRun recorded = run_once();
  // They are those of a run that did not know.
  recorded.slabs.clear();
  recorded.write_backs.clear();
  for (int number = 0; number < tuning::kPlanningRuns + tuning::kPlanningRunsThatPreclean;
       ++number) {
    experiment.recorded = std::make_shared<const RecordedRun>(recorded);
    RecordedRun latest = run_once();
    recorded.slabs = merged_slabs(latest.slabs, recorded.slabs);
    if (number < tuning::kPlanningRuns) recorded.write_backs = std::move(latest.write_backs);
  }
  return std::make_shared<const RecordedRun>(std::move(recorded));
}

}  // namespace superpipe::virtual_time
