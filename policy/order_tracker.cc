#include "policy/order_tracker.h"

#include <algorithm>
#include <utility>

namespace superpipe {
namespace {

// Doubt in the order: a misprediction adds this much, a visit that came as predicted takes one
// away, and at the limit the order is given up.
constexpr int kDoubtOfAMiss = 4;
constexpr int kMostDoubt = 40;

// The next use of a transient that was used in this pass or the last. It is further away than any
// visit, so that transients go before layers; WindowPolicy lets layers outside its window go first.
constexpr std::uint64_t kWhileThePassLasts = std::uint64_t{1} << 39;

}  // namespace

void OrderTracker::on_allocate(BufferId id) {
  if (index_of(id) >= buffers_.size()) buffers_.resize(index_of(id) + std::size_t{1});
  buffers_[index_of(id)] = {};
}

void OrderTracker::on_free(BufferId id, Bytes footprint) {
  Tracked& buffer = buffers_[index_of(id)];
  const Tracked was = std::exchange(buffer, Tracked{});
  if (was.home == kUnscheduled) {
    if (was.counted) transients_ -= footprint;
    return;
  }
  if (was.home == kShared) {
    std::erase(order_.shared, id);
  } else {
    std::erase(order_.layers[was.home], id);
    for (Visit& visit : order_.visits) std::erase(visit.extras, id);
  }
  // add_up() runs at the next visit, not now: what a program frees as it ends shall not change what
  // was learned of it, which the summary at its exit shows.
  changed_ = true;
}

void OrderTracker::count(BufferId id, Bytes footprint) {
  bool& counted = buffers_[index_of(id)].counted;
  if (std::exchange(counted, true)) return;
  transients_ += footprint;
  transient_peak_ = std::max(transient_peak_, transients_);
}

void OrderTracker::start(PassOrder order, std::uint64_t first_launch,
                         const BufferHistory& history) {
  order_ = std::move(order);
  transients_ = transient_peak_ = Bytes{};
  std::fill(buffers_.begin(), buffers_.end(), Tracked{});
  for (std::uint32_t layer = 0; layer < order_.layers.size(); ++layer) {
    for (const BufferId id : order_.layers[layer]) buffers_[index_of(id)].home = layer;
  }
  for (const BufferId id : order_.shared) buffers_[index_of(id)].home = kShared;
  for (std::uint32_t at = 0; at < buffers_.size(); ++at) {
    const BufferHistory::Buffer* const buffer = history.find(BufferId{at});
    if (buffer == nullptr || buffers_[at].home != kUnscheduled) continue;
    if (buffer->last_use >= first_launch) count(BufferId{at}, buffer->footprint);
  }
  follower_.start(order_);
  pass_began_ = history.launches();
  last_pass_began_ = first_launch;
  doubt_ = 0;
  add_up(history);
}

void OrderTracker::catch_up(const LaunchHistory& since, const BufferHistory& history) {
  const std::size_t passes = passes_;
  const std::vector<LaunchRecord> launches = since.launches(0, since.size());
  for (std::size_t at = 1; at < launches.size(); ++at) {
    const auto [kernel, buffers] = launches[at];
    const std::uint32_t home = home_of(buffers, history);
    if (home == kNoLayer) continue;
    if (home == follower_.layer()) {
      if (follower_.may_end_pass() && opens_pass(kernel, buffers)) advance(1, history.launches());
      continue;
    }
    const OrderFollower::Step step = follower_.step_to(home, is_empty_);
    if (step.visits > 0) advance(step.visits, history.launches());
  }
  passes_ = passes;
  at_pass_start_ = launches.size() == 1;
}

void OrderTracker::stop() {
  order_ = {};
  follower_.stop();
  sizes_ = {};
  is_empty_.clear();
  changed_ = false;
  transients_ = transient_peak_ = Bytes{};
  std::fill(buffers_.begin(), buffers_.end(), Tracked{});
}

void OrderTracker::leave_visit(std::uint32_t home, const BufferHistory& history, Step& step) {
  step.left_visit = true;
  step.changed_layers = changed_;
  if (changed_) add_up(history);
  const OrderFollower::Step ahead =
      home == follower_.layer() ? OrderFollower::Step{1, true} : follower_.step_to(home, is_empty_);
  if (ahead.predicted) {
    doubt_ = std::max(0, doubt_ - 1);
  } else {
    ++mispredictions_;
    doubt_ += kDoubtOfAMiss;
  }
  step.is_lost = doubt_ >= kMostDoubt;
  if (step.is_lost || ahead.visits == 0) return;
  advance(ahead.visits, history.launches());
  step.began_visit = true;
  // Where skips are so frequent that each would throw away what was just fetched, they count as no
  // jumps.
  step.jumped = ahead.visits > 1 && (ahead.predicted || follower_.is_confident());
}

bool OrderTracker::take_in(std::span<const BufferId> buffers, bool may_join,
                           const BufferHistory& history) {
  std::uint32_t home = kNoLayer;
  bool is_single = true;
  for (const BufferId id : buffers) {
    const std::uint32_t layer = layer_of(id);
    if (layer == kNoLayer) continue;
    is_single = is_single && (home == kNoLayer || home == layer);
    home = layer;
  }
  for (const BufferId id : buffers) {
    const BufferHistory::Buffer* const buffer = history.find(id);
    if (buffer == nullptr || buffers_[index_of(id)].home != kUnscheduled) continue;
    count(id, buffer->footprint);
    const bool is_old = buffer->allocated_at < last_pass_began_;
    if (!is_old || !may_join) continue;
    if (home != kNoLayer && is_single) {
      join(id, home, buffer->footprint);
    } else if (!buffer->host_written) {
      join(id, kShared, buffer->footprint);
    } else {
      // The host wrote this buffer long ago, and the order does not have it: perhaps another model
      // runs now.
      ++mispredictions_;
      doubt_ += kDoubtOfAMiss;
      if (doubt_ >= kMostDoubt) return false;
    }
  }
  return true;
}

void OrderTracker::join(BufferId id, std::uint32_t home, Bytes footprint) {
  Tracked& buffer = buffers_[index_of(id)];
  if (std::exchange(buffer.counted, false)) transients_ -= footprint;
  (home == kShared ? order_.shared : order_.layers[home]).push_back(id);
  buffer.home = home;
  changed_ = true;
}

std::uint32_t OrderTracker::home_of(std::span<const BufferId> buffers,
                                    const BufferHistory& history) {
  for (const BufferId id : buffers) {
    const std::uint32_t layer = layer_of(id);
    if (layer != kNoLayer) shares_.add(layer, history.by_id()[index_of(id)].footprint);
  }
  return shares_.take_home();
}

bool OrderTracker::opens_pass(KernelId kernel, std::span<const BufferId> buffers) const {
  if (kernel != order_.first_kernel) return false;
  for (const BufferId id : buffers) {
    if (layer_of(id) != kNoLayer) return id == order_.first_buffer;
  }
  return false;
}

void OrderTracker::advance(std::uint64_t visits, std::uint64_t launch) {
  if (!follower_.advance(visits)) return;
  ++passes_;
  at_pass_start_ = true;
  last_pass_began_ = pass_began_;
  pass_began_ = launch;
}

void OrderTracker::add_up(const BufferHistory& history) {
  changed_ = false;
  sizes_ = {};
  is_empty_.clear();
  for (const std::vector<BufferId>& layer : order_.layers) {
    Bytes bytes;
    for (const BufferId id : layer) bytes += history.by_id()[index_of(id)].footprint;
    is_empty_.push_back(layer.empty());
    sizes_.layers.push_back(bytes);
    sizes_.all_layers += bytes;
    sizes_.largest_layer = std::max(sizes_.largest_layer, bytes);
  }
  for (const BufferId id : order_.shared) {
    sizes_.shared += history.by_id()[index_of(id)].footprint;
  }
}

std::vector<ResidentBuffer> OrderTracker::weigh(std::span<const BufferId> candidates,
                                                const BufferHistory& history) const {
  std::vector<ResidentBuffer> weighed = history.by_last_use(candidates);
  if (!is_following() || !follower_.is_confident()) return weighed;
  const std::vector<std::uint64_t> ahead = follower_.visits_ahead(order_.layers.size());
  for (ResidentBuffer& one : weighed) {
    const std::uint32_t home = buffers_[index_of(one.id)].home;
    if (home == kShared) {
      one.next_use = 0;
    } else if (home == kUnscheduled) {
      one.next_use = one.last_use < last_pass_began_ ? kNeverUsedAgain : kWhileThePassLasts;
    } else if (ahead[home] != OrderFollower::kNeverVisited) {
      one.next_use = 1 + ahead[home];
    }
  }
  return weighed;
}

}  // namespace superpipe
