#include "policy/layer_learner.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

// A pass that was of no use is not looked for again before this many further launches.
constexpr std::size_t kLeastPostponement = 64;

// The order of `pass`, with the footprints of its persistent buffers; nullopt if it has fewer than
// two layers or uses too little of the model.
std::optional<PassOrder> understand(std::span<const LaunchRecord> pass,
                                    std::span<const Bytes> persistent,
                                    const BufferHistory& history) {
  PassOrder order = learn_pass(pass, persistent);
  if (order.layers.size() < 2 || order.visits.size() < 2) return std::nullopt;

  // A short cycle inside a pass must not be taken for the pass: it uses too little of the model.
  Bytes covered;
  for (const Bytes footprint : persistent) covered += footprint;
  Bytes written;
  Bytes used;
  for (const BufferHistory::Buffer& buffer : history.by_id()) {
    if (!buffer.exists || buffer.last_use == 0) continue;
    used += buffer.footprint;
    if (buffer.host_written) written += buffer.footprint;
  }
  if (2 * covered < (written > Bytes{} ? written : used)) return std::nullopt;
  return order;
}

}  // namespace

std::vector<Bytes> persistent_footprints(std::span<const LaunchRecord> pass,
                                         std::uint64_t first_launch, const BufferHistory& history) {
  std::vector<Bytes> footprints(history.by_id().size());
  for (std::size_t at = 0; at < pass.size(); ++at) {
    for (const BufferId id : pass[at].buffers) {
      const BufferHistory::Buffer* const buffer = history.find(id);
      if (buffer == nullptr || footprints[index_of(id)] > Bytes{}) continue;
      const std::uint64_t born_by = buffer->host_written ? first_launch + at : first_launch;
      if (buffer->allocated_at < born_by) footprints[index_of(id)] = buffer->footprint;
    }
  }
  return footprints;
}

std::optional<LearnedPass> LayerLearner::observe(KernelId kernel, std::span<const BufferId> buffers,
                                                 const BufferHistory& history) {
  written_.clear();
  for (const BufferId id : buffers) {
    const BufferHistory::Buffer* const buffer = history.find(id);
    if (buffer != nullptr && buffer->host_written) written_.push_back(id);
  }
  const auto found = passes_.observe(kernel, buffers, written_);
  if (!found) return std::nullopt;
  const std::size_t seen = passes_.history().size();
  const std::vector<LaunchRecord> launches = passes_.history().launches(found->begin, seen);
  const std::size_t length = found->end - found->begin;
  const auto pass = std::span(launches).first(length);
  LearnedPass learned;
  learned.first_launch = history.launches() - (seen - 1 - found->begin);
  const std::vector<Bytes> persistent = persistent_footprints(pass, learned.first_launch, history);
  std::optional<PassOrder> order = understand(pass, persistent, history);
  if (!order) {
    passes_.postpone(std::max(kLeastPostponement, 2 * length));
    return std::nullopt;
  }
  learned.order = *std::move(order);
  for (const LaunchRecord& launch : std::span(launches).subspan(length)) {
    // It has room for as many as passes_ has.
    (void)learned.since.record(launch.kernel, launch.buffers);
  }
  launches_ = std::make_shared<const PassLaunches>(pass, persistent, history.footprints());
  passes_.reset();
  refinement_ = Refinement::kWaiting;
  return learned;
}

std::optional<PassOrder> LayerLearner::refine(KernelId kernel, std::span<const BufferId> buffers,
                                              const Place& place, const PassOrder& known,
                                              const BufferHistory& history) {
  if (refinement_ == Refinement::kSettled) return std::nullopt;
  if (place.opens_pass) {
    if (refinement_ == Refinement::kRecording) {
      refinement_ = Refinement::kSettled;
      const std::vector<LaunchRecord> pass = recording_.launches(0, recording_.size());
      const std::vector<Bytes> persistent =
          persistent_footprints(pass, place.last_pass_began, history);
      std::optional<PassOrder> order = understand(pass, persistent, history);
      // A pass with other launches than expected is not like the rest, for whose time it would be
      // taken.
      if (order && place.mispredictions == mispredictions_before_) {
        launches_ = std::make_shared<const PassLaunches>(pass, persistent, history.footprints());
      }
      recording_.clear();
      if (order && *order == known) order.reset();
      return order;
    }
    refinement_ = Refinement::kRecording;
    mispredictions_before_ = place.mispredictions;
  }
  if (refinement_ == Refinement::kRecording && !recording_.record(kernel, buffers)) {
    recording_.clear();
    refinement_ = Refinement::kSettled;
  }
  return std::nullopt;
}

void LayerLearner::start_over() {
  recording_.clear();
  passes_.reset_after_failure();
  launches_.reset();
  refinement_ = Refinement::kWaiting;
}

}  // namespace superpipe
