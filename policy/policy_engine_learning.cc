// How PolicyEngine comes to know an order, checks it, and gives it up.
#include <algorithm>
#include <memory>
#include <utility>

#include "policy/policy_engine_impl.h"

namespace superpipe {
namespace {

constexpr std::size_t kMinPostponement = 64;

}  // namespace

bool PolicyEngine::Impl::learn(const Access& access) {
  written_.clear();
  for (const BufferId id : access.buffers) {
    const BufferState* const buffer = find(id);
    if (buffer != nullptr && buffer->host_written) written_.push_back(id);
  }
  const auto pass = learner_.observe(access.kernel, access.buffers, written_);
  if (!pass) return false;
  const std::size_t seen = learner_.history().size();
  const std::vector<LaunchRecord> launches = learner_.history().launches(pass->begin, seen);
  const std::size_t length = pass->end - pass->begin;
  const std::span<const LaunchRecord> all(launches);
  const std::uint64_t first_launch = launch_ - (seen - 1 - pass->begin);
  const std::vector<Bytes> persistent = persistent_of(all.first(length), first_launch);
  std::optional<PassOrder> order = understand(all.first(length), persistent);
  if (!order) {
    learner_.postpone(std::max(kMinPostponement, 2 * length));
    return false;
  }
  install(*std::move(order), first_launch);
  keep(all.first(length), persistent);
  catch_up(all.subspan(length));
  learner_.reset();
  refinement_ = Refinement::kWaiting;
  return true;
}

std::vector<Bytes> PolicyEngine::Impl::persistent_of(std::span<const LaunchRecord> pass,
                                                     std::uint64_t first_launch) const {
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t at = 0; at < pass.size(); ++at) {
    for (const BufferId id : pass[at].buffers) {
      const BufferState* const buffer = find(id);
      if (buffer == nullptr || footprints[index_of(id)] > Bytes{}) continue;
      // A buffer is persistent if it still exists and was allocated before the pass began; one that
      // the host wrote, if it was allocated before the launch that first uses it.
      const std::uint64_t born_by = buffer->host_written ? first_launch + at : first_launch;
      if (buffer->allocated_at < born_by) footprints[index_of(id)] = buffer->footprint;
    }
  }
  return footprints;
}

std::optional<PassOrder> PolicyEngine::Impl::understand(std::span<const LaunchRecord> pass,
                                                        std::span<const Bytes> persistent) const {
  PassOrder order = learn_pass(pass, persistent);
  if (order.layers.size() < 2 || order.visits.size() < 2) return std::nullopt;

  // A short cycle inside a pass must not be taken for the pass: it uses too little of the model.
  Bytes covered;
  for (const Bytes footprint : persistent) covered += footprint;
  Bytes written;
  Bytes used;
  for (const BufferState& buffer : buffers_) {
    if (!buffer.live || buffer.last_use == 0) continue;
    used += buffer.footprint;
    if (buffer.host_written) written += buffer.footprint;
  }
  if (2 * covered < (written > Bytes{} ? written : used)) return std::nullopt;
  return order;
}

void PolicyEngine::Impl::keep(std::span<const LaunchRecord> pass,
                              std::span<const Bytes> persistent) {
  if (config_.kind == PolicyKind::kAuto) return;
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t at = 0; at < buffers_.size(); ++at) footprints[at] = buffers_[at].footprint;
  learned_.launches = std::make_shared<const PassLaunches>(pass, persistent, footprints);
}

void PolicyEngine::Impl::install(PassOrder order, std::uint64_t first_launch) {
  order_ = std::move(order);
  unscheduled_used_ = Bytes{};
  unscheduled_peak_ = Bytes{};
  for (BufferState& buffer : buffers_) {
    buffer.home = kUnscheduled;
    buffer.counted = false;
  }
  for (std::uint32_t layer = 0; layer < order_.layers.size(); ++layer) {
    for (const BufferId id : order_.layers[layer]) buffers_[index_of(id)].home = layer;
  }
  for (const BufferId id : order_.shared) buffers_[index_of(id)].home = kShared;
  for (BufferState& buffer : buffers_) {
    if (!buffer.live || buffer.home != kUnscheduled) continue;
    if (buffer.last_use >= first_launch) count(buffer);
  }
  std::erase_if(scheduled_, [this](BufferId id) {
    BufferState& buffer = buffers_[index_of(id)];
    if (buffer.home < kFirstSpecialHome) return false;
    buffer.scheduled = false;
    return true;
  });

  known_ = true;
  follower_.start(order_);
  pass_began_ = launch_;
  last_pass_began_ = first_launch;
  doubt_ = 0;
  largest_need_ = Bytes{};
  learned_.layers_known = true;
  join_ = true;
  sweep_ = true;
  describe();
}

void PolicyEngine::Impl::catch_up(std::span<const LaunchRecord> since) {
  const std::size_t passes = learned_.passes;
  for (std::size_t at = 1; at < since.size(); ++at) {
    const std::uint32_t home = home_of(since[at].buffers);
    if (home == kNoLayer) continue;
    if (home == follower_.layer()) {
      if (follower_.may_end_pass() && opens_pass(since[at].kernel, since[at].buffers)) advance(1);
      continue;
    }
    const OrderFollower::Step step = follower_.step_to(home, is_empty_);
    if (step.visits > 0) advance(step.visits);
  }
  learned_.passes = passes;
  learned_.at_pass_start = since.size() == 1;
}

void PolicyEngine::Impl::refine(const Access& access) {
  if (learned_.at_pass_start) {
    if (refinement_ == Refinement::kRecording) {
      refinement_ = Refinement::kDone;
      const std::vector<LaunchRecord> pass = recording_.launches(0, recording_.size());
      const std::vector<Bytes> persistent = persistent_of(pass, last_pass_began_);
      std::optional<PassOrder> order = understand(pass, persistent);
      // A pass with other launches than expected is not like the rest, for whose time it would be
      // taken.
      const bool is_typical = learned_.mispredictions == mispredictions_before_;
      if (order && is_typical) keep(pass, persistent);
      if (order && *order != order_) install(*std::move(order), last_pass_began_);
      recording_.clear();
      return;
    }
    refinement_ = Refinement::kRecording;
    mispredictions_before_ = learned_.mispredictions;
  }
  if (refinement_ != Refinement::kRecording) return;
  if (!recording_.record(access.kernel, access.buffers)) {
    recording_.clear();
    refinement_ = Refinement::kDone;
  }
}

void PolicyEngine::Impl::forget() {
  known_ = false;
  windows_ = WindowChoice{};
  order_ = PassOrder{};
  needs_.clear();
  scheduled_.clear();
  follower_.stop();
  unscheduled_used_ = Bytes{};
  unscheduled_peak_ = Bytes{};
  largest_need_ = Bytes{};
  for (BufferState& buffer : buffers_) {
    buffer.home = kUnscheduled;
    buffer.counted = false;
    buffer.scheduled = false;
    if (buffer.live) largest_need_ = std::max(largest_need_, buffer.footprint);
  }
  recording_.clear();
  learner_.reset_after_failure();
  learned_.layers_known = false;
  learned_.k = 0;
  learned_.k_prime = 0;
  learned_.layer_bytes.clear();
  learned_.pass_bytes = Bytes{};
  learned_.largest_piece = Bytes{};
  learned_.launches.reset();
}

}  // namespace superpipe
