#include "residency/virtual_time/recording.h"

#include <utility>

namespace superpipe::virtual_time {
namespace {

// Runs that know what comes: what they write back hardly changes after a few.
constexpr int kRunsThatKnow = 4;
// And runs that know what the last of them wrote back, which they copy before: others leave then,
// and need slabs.
constexpr int kRunsThatPreclean = 1;

}  // namespace

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
  for (int number = 0; number < kRunsThatKnow + kRunsThatPreclean; ++number) {
    experiment.recorded = std::make_shared<const RecordedRun>(recorded);
    RecordedRun latest = run_once();
    recorded.slabs = merged_slabs(latest.slabs, recorded.slabs);
    if (number < kRunsThatKnow) recorded.write_backs = std::move(latest.write_backs);
  }
  return std::make_shared<const RecordedRun>(std::move(recorded));
}

}  // namespace superpipe::virtual_time
