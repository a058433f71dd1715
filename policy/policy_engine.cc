#include "policy/policy_engine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "policy/access_order.h"
#include "policy/budget.h"
#include "policy/eviction.h"
#include "policy/launch_history.h"
#include "policy/layer_grouping.h"
#include "policy/order_learner.h"
#include "policy/pass_order.h"
#include "policy/schedule.h"

namespace superpipe {
namespace {

constexpr std::array<std::pair<PolicyKind, std::string_view>, 4> kPolicyNames = {{
    {PolicyKind::kResident, "resident"},
    {PolicyKind::kNaive, "naive"},
    {PolicyKind::kSuperpipeline, "superpipeline"},
    {PolicyKind::kSuperpipelinePaper, "superpipeline-paper"},
}};

// Homes of a buffer that is in no layer; layers are below.
constexpr std::uint32_t kFirstSpecialHome = 0xFFFFFFF0U;
constexpr std::uint32_t kShared = 0xFFFFFFF0U;       // of no layer, stays
constexpr std::uint32_t kUnscheduled = 0xFFFFFFF1U;  // transient, or not understood

// A misprediction weighs as much as this many visits that came as predicted; at the limit, the
// order is learned anew.
constexpr int kMispredictionWeight = 4;
constexpr int kMispredictionLimit = 40;
constexpr double kConfident = 0.5;
// A launch of one of the last visits' layers is a straggler of another stream, not a new lap.
constexpr std::uint64_t kStragglerVisits = 2;
constexpr std::size_t kMinPostponement = 64;

// Next-use distances for eviction: visits ahead, lifted so that each kind goes before the next.
constexpr std::uint64_t kOutsideWindow = std::uint64_t{1} << 40;
constexpr std::uint64_t kTransientInUse = std::uint64_t{1} << 39;

struct BufferState {
  Bytes footprint;
  std::uint64_t last_use = 0;      // launch; 0: none
  std::uint64_t allocated_at = 0;  // launches announced before it existed
  std::uint32_t home = kUnscheduled;
  bool live = false;
  bool host_written = false;
  bool counted = false;      // in the bytes of unscheduled buffers in use
  bool scheduled = false;    // the schedule has it on the device
  std::uint64_t window = 0;  // the last decision whose window held it
};

}  // namespace

std::string_view name_of(PolicyKind kind) {
  for (const auto& [known, name] : kPolicyNames) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<PolicyKind> policy_from_name(std::string_view name) {
  for (const auto& [kind, known] : kPolicyNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

class PolicyEngine::Impl {
 public:
  explicit Impl(const PolicyConfig& config) : config_(config) {}

  void on_allocate(BufferId id, Bytes footprint);
  void on_host_write(BufferId id);
  void on_free(BufferId id);
  void on_unmanaged_bytes(Bytes bytes) { unmanaged_ = bytes; }
  Decision on_launch(const Access& access);
  Bytes managed_limit() const;
  bool limit_is_hard() const { return config_.budget.has_value(); }
  std::vector<BufferId> choose_victims(std::span<const BufferId> candidates, Bytes needed) const;
  const Learned& learned() const { return learned_; }

 private:
  enum class Refinement { kWaiting, kRecording, kDone };

  BufferState* find(BufferId id) {
    return index_of(id) < buffers_.size() && buffers_[index_of(id)].live ? &buffers_[index_of(id)]
                                                                         : nullptr;
  }
  const BufferState* find(BufferId id) const { return const_cast<Impl*>(this)->find(id); }

  void count(BufferState& buffer);
  void uncount(BufferState& buffer);
  void note_irregular(const Access& access);
  void take_in(BufferId id, std::uint32_t home);
  bool learn(const Access& access);
  std::optional<PassOrder> understand(std::span<const LaunchRecord> pass,
                                      std::uint64_t first_launch) const;
  void install(PassOrder order, std::uint64_t first_launch);
  void catch_up(std::span<const LaunchRecord> since);
  void refine(const Access& access);
  void forget();
  std::uint32_t home_of(std::span<const BufferId> buffers);
  bool opens_pass(KernelId kernel, std::span<const BufferId> buffers) const;

  // How far ahead a launch of `home` lies, and whether the order had it there.
  struct Step {
    std::uint64_t visits = 0;  // 0: it belongs to no visit, or to one that is over
    bool predicted = true;
  };
  Step step_to(std::uint32_t home) const;
  void advance(std::uint64_t visits);
  Decision move_to(const Access& access, std::uint32_t home);
  Decision decide(const Window& window);

  void describe();
  void choose_schedule();
  void follow_budget();
  Bytes available() const {
    return saturating_subtract(config_.budget.value_or(Bytes{}), unmanaged_);
  }

  PolicyConfig config_;
  std::vector<BufferState> buffers_;  // by id
  Bytes unmanaged_;
  Bytes largest_need_;      // the largest buffer, or launch's buffers, since nothing was known
  Bytes unscheduled_used_;  // buffers that are in use, but in no layer and not shared
  Bytes unscheduled_peak_;
  std::uint64_t launch_ = 0;  // announced so far, the present one included
  bool known_ = false;

  OrderLearner learner_;
  std::vector<BufferId> written_;  // scratch
  std::vector<LayerShare> named_;  // scratch
  PassOrder order_;
  VisitNeeds needs_;
  SuccessorTable successors_;       // of layers, by visit
  std::uint64_t visit_ = 0;         // of the endless sequence
  std::uint64_t position_ = 0;      // in the pass
  std::uint32_t layer_ = kNoLayer;  // of the visit
  bool may_end_ = false;  // the visit is the last of a pass, and of the layer of the first one
  std::uint64_t pass_began_ = 0;       // launch
  std::uint64_t last_pass_began_ = 0;  // launch
  int doubt_ = 0;

  Refinement refinement_ = Refinement::kWaiting;
  LaunchHistory recording_;

  bool changed_ = false;  // buffers have left or joined order_ since describe()
  bool active_ = false;   // anything is moved at all
  bool join_ = false;     // the next decision joins the schedule in its midst
  bool sweep_ = false;    // the next decision evicts whatever is not in its window
  WindowSchedule schedule_;
  Bytes shared_bytes_;
  Bytes layers_bytes_;
  Bytes window_bytes_;  // the largest window of the schedule
  Bytes wider_bytes_;   // the largest window with one layer more
  std::uint64_t decision_ = 0;
  std::vector<BufferId> scheduled_;  // oldest first
  Learned learned_;
};

// ---- buffers ------------------------------------------------------------------------------------

void PolicyEngine::Impl::on_allocate(BufferId id, Bytes footprint) {
  if (index_of(id) >= buffers_.size()) buffers_.resize(index_of(id) + std::size_t{1});
  if (buffers_[index_of(id)].live) on_free(id);
  BufferState& buffer = buffers_[index_of(id)];
  buffer = BufferState{};
  buffer.live = true;
  buffer.footprint = footprint;
  buffer.allocated_at = launch_;
  if (!known_) largest_need_ = std::max(largest_need_, footprint);
}

void PolicyEngine::Impl::on_host_write(BufferId id) {
  if (BufferState* const buffer = find(id)) buffer->host_written = true;
}

void PolicyEngine::Impl::on_free(BufferId id) {
  BufferState* const buffer = find(id);
  if (buffer == nullptr) return;
  buffer->live = false;
  if (buffer->home == kUnscheduled) {
    uncount(*buffer);
    return;
  }
  if (buffer->home == kShared) {
    std::erase(order_.shared, id);
  } else {
    std::erase(order_.layers[buffer->home], id);
    for (Visit& visit : order_.visits) std::erase(visit.extras, id);
    std::erase(scheduled_, id);
  }
  // Not at once: what a program frees as it ends shall not change what was learned of it.
  changed_ = true;
}

void PolicyEngine::Impl::count(BufferState& buffer) {
  if (buffer.counted) return;
  buffer.counted = true;
  unscheduled_used_ += buffer.footprint;
  unscheduled_peak_ = std::max(unscheduled_peak_, unscheduled_used_);
}

void PolicyEngine::Impl::uncount(BufferState& buffer) {
  if (!buffer.counted) return;
  buffer.counted = false;
  unscheduled_used_ -= buffer.footprint;
}

// ---- learning -----------------------------------------------------------------------------------

// Records the launch, and learns the order when a pass has come round.
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
  std::optional<PassOrder> order = understand(all.first(length), first_launch);
  if (!order) {
    learner_.postpone(std::max(kMinPostponement, 2 * length));
    return false;
  }
  install(*std::move(order), first_launch);
  catch_up(all.subspan(length));
  learner_.reset();
  refinement_ = Refinement::kWaiting;
  return true;
}

// The order of `pass`, whose first launch was number `first_launch`, if it makes sense as one.
std::optional<PassOrder> PolicyEngine::Impl::understand(std::span<const LaunchRecord> pass,
                                                        std::uint64_t first_launch) const {
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t at = 0; at < pass.size(); ++at) {
    for (const BufferId id : pass[at].buffers) {
      const BufferState* const buffer = find(id);
      if (buffer == nullptr || footprints[index_of(id)] > Bytes{}) continue;
      // The buffer that was used must still exist, and one that the host did not write must have
      // outlived a pass.
      const std::uint64_t born_by = buffer->host_written ? first_launch + at : first_launch;
      if (buffer->allocated_at < born_by) footprints[index_of(id)] = buffer->footprint;
    }
  }
  PassOrder order = learn_pass(pass, footprints);
  if (order.layers.size() < 2 || order.visits.size() < 2) return std::nullopt;

  // A short cycle inside a pass must not be taken for the pass: it uses too little of the model.
  Bytes covered;
  for (const Bytes footprint : footprints) covered += footprint;
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
  visit_ = 0;
  position_ = 0;
  layer_ = order_.visits.front().layer;
  may_end_ = false;
  pass_began_ = launch_;
  last_pass_began_ = first_launch;
  doubt_ = 0;
  // The order is known by heart before it is doubted.
  successors_.clear();
  for (int lap = 0; lap < 64 && (lap < 2 || successors_.confidence() < 0.9); ++lap) {
    for (const Visit& visit : order_.visits) successors_.observe(visit.layer);
  }
  successors_.observe(layer_);
  largest_need_ = Bytes{};
  learned_.layers_known = true;
  join_ = true;
  sweep_ = true;
  describe();
}

// Follows the launches since the learned pass ended, the first of which opens the next.
void PolicyEngine::Impl::catch_up(std::span<const LaunchRecord> since) {
  const std::size_t passes = learned_.passes;
  for (std::size_t at = 1; at < since.size(); ++at) {
    const std::uint32_t home = home_of(since[at].buffers);
    if (home == kNoLayer) continue;
    if (home == layer_) {
      if (may_end_ && opens_pass(since[at].kernel, since[at].buffers)) advance(1);
      continue;
    }
    const Step step = step_to(home);
    if (step.visits > 0) advance(step.visits);
  }
  learned_.passes = passes;
  learned_.at_pass_start = since.size() == 1;
}

// Records one whole pass more after the order is known, and groups again: what the first pass
// allocated (gradients, optimizer states, caches) has proved by then that it stays.
void PolicyEngine::Impl::refine(const Access& access) {
  if (learned_.at_pass_start) {
    if (refinement_ == Refinement::kRecording) {
      refinement_ = Refinement::kDone;
      const std::vector<LaunchRecord> pass = recording_.launches(0, recording_.size());
      std::optional<PassOrder> order = understand(pass, last_pass_began_);
      if (order && *order != order_) install(*std::move(order), last_pass_began_);
      recording_.clear();
      return;
    }
    refinement_ = Refinement::kRecording;
  }
  if (refinement_ != Refinement::kRecording) return;
  if (!recording_.record(access.kernel, access.buffers)) {
    recording_.clear();
    refinement_ = Refinement::kDone;
  }
}

// The order did not last.
void PolicyEngine::Impl::forget() {
  known_ = false;
  active_ = false;
  order_ = PassOrder{};
  needs_.clear();
  scheduled_.clear();
  successors_.clear();
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
}

// ---- following the order ------------------------------------------------------------------------

std::uint32_t PolicyEngine::Impl::home_of(std::span<const BufferId> buffers) {
  named_.clear();
  for (const BufferId id : buffers) {
    const BufferState* const buffer = find(id);
    if (buffer == nullptr || buffer->home >= kFirstSpecialHome) continue;
    named_.push_back({buffer->home, buffer->footprint});
  }
  return home_layer(named_);
}

bool PolicyEngine::Impl::opens_pass(KernelId kernel, std::span<const BufferId> buffers) const {
  if (kernel != order_.first_kernel) return false;
  for (const BufferId id : buffers) {
    const BufferState* const buffer = find(id);
    if (buffer != nullptr && buffer->home < kFirstSpecialHome) return id == order_.first_buffer;
  }
  return false;
}

PolicyEngine::Impl::Step PolicyEngine::Impl::step_to(std::uint32_t home) const {
  const std::uint64_t visits = order_.visits.size();
  const auto layer_at = [&](std::uint64_t ahead) {
    return order_.visits[(position_ + ahead) % visits].layer;
  };
  bool only_blank = true;  // what is passed over had nothing to launch, or is this layer again
  for (std::uint64_t ahead = 1; ahead < visits; ++ahead) {
    const std::uint32_t layer = layer_at(ahead);
    if (layer == home) {
      if (only_blank) return {ahead, true};
      for (std::uint64_t behind = 1; behind <= kStragglerVisits; ++behind) {
        if (2 * ahead > visits && layer_at(visits - behind % visits) == home) return {0, false};
      }
      return {ahead, false};
    }
    only_blank = only_blank && (layer == layer_ || order_.layers[layer].empty());
  }
  return {0, true};
}

void PolicyEngine::Impl::advance(std::uint64_t visits) {
  visit_ += visits;
  position_ += visits;
  if (position_ >= order_.visits.size()) {
    position_ -= order_.visits.size();
    ++learned_.passes;
    learned_.at_pass_start = true;
    last_pass_began_ = pass_began_;
    pass_began_ = launch_;
  }
  layer_ = order_.visits[position_].layer;
  may_end_ = position_ + 1 == order_.visits.size() && order_.visits.front().layer == layer_;
  successors_.observe(layer_);
}

// The launch leaves the present visit: follows it, and decides what is due.
Decision PolicyEngine::Impl::move_to(const Access& access, std::uint32_t home) {
  const Step step = home == layer_ ? Step{1, true} : step_to(home);
  if (step.predicted) {
    doubt_ = std::max(0, doubt_ - 1);
  } else {
    ++learned_.mispredictions;
    doubt_ += kMispredictionWeight;
  }
  if (doubt_ >= kMispredictionLimit) {
    forget();
    return {};
  }
  if (step.visits == 0) return {};
  advance(step.visits);
  // Past a jump the schedule is joined anew, unless jumps are the rule.
  if (step.visits > 1 && (step.predicted || successors_.confidence() >= kConfident)) join_ = true;
  if (refinement_ != Refinement::kDone) refine(access);
  if (changed_) describe();
  if (config_.budget && !config_.k) follow_budget();
  if (!active_) return {};
  if (join_) {
    join_ = false;
    return decide(window_from(schedule_, visit_));
  }
  const auto window = window_at(schedule_, visit_);
  return window ? decide(*window) : Decision{};
}

Decision PolicyEngine::Impl::decide(const Window& window) {
  ++decision_;
  Decision decision;
  for (std::uint64_t at = 0; at < window.count; ++at) {
    for (const std::uint32_t index : needs_[(window.begin + at) % needs_.size()]) {
      BufferState& buffer = buffers_[index];
      buffer.window = decision_;
      if (buffer.scheduled) continue;
      buffer.scheduled = true;
      decision.fetch.push_back(BufferId{index});
    }
  }
  // What the launch itself names stays until the next decision.
  const auto leaves = [this](const BufferState& buffer) {
    return buffer.window != decision_ && buffer.last_use != launch_;
  };
  std::erase_if(scheduled_, [&](BufferId id) {
    BufferState& buffer = buffers_[index_of(id)];
    if (!leaves(buffer)) return false;
    buffer.scheduled = false;
    buffer.window = decision_;  // done with: the sweep below does not list it twice
    decision.evict.push_back(id);
    return true;
  });
  if (sweep_) {
    // What else is on the device is not known: demand fetches brought it.
    sweep_ = false;
    for (const std::vector<BufferId>& layer : order_.layers) {
      for (const BufferId id : layer) {
        const BufferState& buffer = buffers_[index_of(id)];
        if (buffer.scheduled || !leaves(buffer)) continue;
        decision.evict.push_back(id);
      }
    }
  }
  scheduled_.insert(scheduled_.end(), decision.fetch.begin(), decision.fetch.end());
  decision.fetch_before_launch = window.wait && !decision.fetch.empty();
  return decision;
}

// A buffer that outlived a pass without being understood is taken into `home`'s layer, or shared.
void PolicyEngine::Impl::take_in(BufferId id, std::uint32_t home) {
  BufferState& buffer = buffers_[index_of(id)];
  uncount(buffer);
  if (home == kShared) {
    order_.shared.push_back(id);
  } else {
    order_.layers[home].push_back(id);
  }
  buffer.home = home;
  changed_ = true;
}

// Buffers of the launch that are not where the schedule has them, or that it does not know.
void PolicyEngine::Impl::note_irregular(const Access& access) {
  std::uint32_t home = kNoLayer;
  bool single = true;
  for (const BufferId id : access.buffers) {
    BufferState* const buffer = find(id);
    if (buffer == nullptr || buffer->home >= kFirstSpecialHome) continue;
    single = single && (home == kNoLayer || home == buffer->home);
    home = buffer->home;
    if (buffer->scheduled || !active_) continue;
    // A demand fetch brings it: it is evicted when a window passes it.
    buffer->scheduled = true;
    scheduled_.push_back(id);
  }
  for (const BufferId id : access.buffers) {
    BufferState* const buffer = find(id);
    if (buffer == nullptr || buffer->home != kUnscheduled) continue;
    count(*buffer);
    const bool is_old = buffer->allocated_at < last_pass_began_;
    if (!is_old || refinement_ != Refinement::kDone) continue;
    if (home != kNoLayer && single) {
      take_in(id, home);
    } else if (!buffer->host_written) {
      take_in(id, kShared);
    } else {
      // Another model, perhaps, that runs now and did not before.
      ++learned_.mispredictions;
      doubt_ += kMispredictionWeight;
      if (doubt_ < kMispredictionLimit) continue;
      forget();
      return;
    }
  }
}

Decision PolicyEngine::Impl::on_launch(const Access& access) {
  ++launch_;
  learned_.at_pass_start = false;
  Bytes need;
  std::uint32_t home = kNoLayer;
  bool mixed = false;
  bool irregular = false;
  for (const BufferId id : access.buffers) {
    if (index_of(id) >= buffers_.size()) continue;
    BufferState& buffer = buffers_[index_of(id)];
    buffer.last_use = launch_;
    need += buffer.footprint;
    if (buffer.home < kFirstSpecialHome) {
      mixed = mixed || (home != kNoLayer && home != buffer.home);
      home = buffer.home;
      irregular = irregular || (active_ && !buffer.scheduled);
    } else if (buffer.home == kUnscheduled) {
      irregular = irregular || !buffer.counted ||
                  (buffer.allocated_at < last_pass_began_ && refinement_ == Refinement::kDone);
    }
  }
  if (need > largest_need_) largest_need_ = need;

  Decision decision;
  if (!known_) {
    if (!learn(access)) return decision;
    if (active_) {
      join_ = false;
      decision = decide(window_from(schedule_, visit_));
    }
    irregular = true;
  } else {
    if (mixed) home = home_of(access.buffers);
    if (home != kNoLayer &&
        (home != layer_ || (may_end_ && opens_pass(access.kernel, access.buffers)))) {
      decision = move_to(access, home);
    } else if (refinement_ == Refinement::kRecording) {
      refine(access);
    }
  }
  if (irregular && known_) note_irregular(access);
  return decision;
}

// ---- k, k' and limits ---------------------------------------------------------------------------

// Brings all that follows from the layers up to date.
void PolicyEngine::Impl::describe() {
  changed_ = false;
  needs_ = needs_of(order_);
  layers_bytes_ = Bytes{};
  shared_bytes_ = Bytes{};
  learned_.layer_bytes.assign(order_.layers.size(), Bytes{});
  learned_.largest_piece = Bytes{};
  for (std::size_t layer = 0; layer < order_.layers.size(); ++layer) {
    Bytes& bytes = learned_.layer_bytes[layer];
    for (const BufferId id : order_.layers[layer]) bytes += buffers_[index_of(id)].footprint;
    layers_bytes_ += bytes;
    learned_.largest_piece = std::max(learned_.largest_piece, bytes);
  }
  for (const BufferId id : order_.shared) shared_bytes_ += buffers_[index_of(id)].footprint;
  learned_.pass_bytes = layers_bytes_ + shared_bytes_;
  choose_schedule();
}

void PolicyEngine::Impl::choose_schedule() {
  const auto layers = static_cast<std::size_t>(
      std::count_if(order_.layers.begin(), order_.layers.end(),
                    [](const std::vector<BufferId>& layer) { return !layer.empty(); }));
  const bool was_active = active_;
  const WindowSchedule before = schedule_;
  active_ = false;
  window_bytes_ = layers_bytes_;
  wider_bytes_ = layers_bytes_;
  std::size_t k = layers;
  if (config_.kind != PolicyKind::kResident && layers > 0) {
    std::vector<Bytes> footprints(buffers_.size());
    for (std::size_t at = 0; at < buffers_.size(); ++at) footprints[at] = buffers_[at].footprint;
    if (config_.k) {
      k = std::min(static_cast<std::size_t>(*config_.k), layers);
    } else if (config_.budget) {
      const Bytes room = saturating_subtract(available(), shared_bytes_ + unscheduled_peak_);
      if (layers_bytes_ > room && layers > 1) {
        k = std::clamp(largest_fitting_k(needs_, footprints, room), std::size_t{1}, layers - 1);
      }
    }
    active_ = k < layers;
    if (active_) {
      window_bytes_ = max_window_bytes(needs_, footprints, k);
      if (k + 1 < layers) wider_bytes_ = max_window_bytes(needs_, footprints, k + 1);
    }
  }
  schedule_.k = std::max<std::size_t>(k, 1);
  schedule_.k_prime = std::max<std::size_t>(1, k / 2);
  if (config_.k_prime && static_cast<std::size_t>(*config_.k_prime) < k) {
    schedule_.k_prime = static_cast<std::size_t>(*config_.k_prime);
  }
  schedule_.visits = std::max<std::size_t>(order_.visits.size(), 1);
  if (config_.kind == PolicyKind::kNaive || k <= 1) {
    schedule_.kind = WindowKind::kNaive;
    schedule_.k_prime = schedule_.k;
  } else {
    schedule_.kind = config_.kind == PolicyKind::kSuperpipelinePaper
                         ? WindowKind::kSuperpipelinePaper
                         : WindowKind::kSuperpipeline;
  }
  if (active_ && (!was_active || before.k != schedule_.k)) {
    join_ = true;
    sweep_ = sweep_ || !was_active;
  }
  learned_.k = static_cast<int>(schedule_.k);
  learned_.k_prime = static_cast<int>(schedule_.k_prime);
}

// Chooses k again when the present one no longer fits, or, as a pass begins, when more does.
void PolicyEngine::Impl::follow_budget() {
  const Bytes room = saturating_subtract(available(), shared_bytes_ + unscheduled_peak_);
  const bool too_wide = window_bytes_ > room && schedule_.k > 1;
  const bool has_room = active_ && wider_bytes_ <= room;
  if (too_wide || (has_room && learned_.at_pass_start)) choose_schedule();
}

Bytes PolicyEngine::Impl::managed_limit() const {
  if (config_.budget && !config_.k) return available();
  if (!config_.k || config_.kind == PolicyKind::kResident) {
    return config_.budget ? available() : Bytes{std::numeric_limits<std::uint64_t>::max()};
  }
  const Bytes by_k = known_ ? window_bytes_ + shared_bytes_ + unscheduled_peak_
                            : largest_need_ * static_cast<std::uint64_t>(*config_.k);
  const Bytes limit = std::max(by_k, largest_need_);
  return config_.budget ? std::min(limit, available()) : limit;
}

std::vector<BufferId> PolicyEngine::Impl::choose_victims(std::span<const BufferId> candidates,
                                                         Bytes needed) const {
  const bool predicts = known_ && successors_.confidence() >= kConfident;
  std::vector<std::uint64_t> ahead;  // by layer: visits until the next one of it
  if (predicts) {
    ahead.assign(order_.layers.size(), kNeverUsedAgain);
    for (std::uint64_t step = 0; step < order_.visits.size(); ++step) {
      std::uint64_t& known = ahead[order_.visits[(position_ + step) % order_.visits.size()].layer];
      known = std::min(known, step);
    }
  }
  std::vector<ResidentBuffer> resident;
  resident.reserve(candidates.size());
  for (const BufferId id : candidates) {
    const BufferState* const buffer = find(id);
    if (buffer == nullptr) continue;
    ResidentBuffer& one = resident.emplace_back();
    one.id = id;
    one.footprint = buffer->footprint;
    one.last_use = buffer->last_use;
    if (!predicts) continue;
    if (buffer->home == kShared) {
      one.next_use = 0;
    } else if (buffer->home == kUnscheduled) {
      one.next_use = buffer->last_use < last_pass_began_ ? kNeverUsedAgain : kTransientInUse;
    } else if (ahead[buffer->home] != kNeverUsedAgain) {
      const bool in_window = buffer->scheduled || !active_;
      one.next_use = 1 + ahead[buffer->home] + (in_window ? 0 : kOutsideWindow);
    }
  }
  if (auto victims = plan_eviction(resident, needed)) return *std::move(victims);
  Bytes all;
  for (const ResidentBuffer& buffer : resident) all += buffer.footprint;
  return plan_eviction(resident, all).value_or(std::vector<BufferId>{});
}

// ---- the door -----------------------------------------------------------------------------------

PolicyEngine::PolicyEngine(const PolicyConfig& config) : impl_(std::make_unique<Impl>(config)) {}
PolicyEngine::~PolicyEngine() = default;
PolicyEngine::PolicyEngine(PolicyEngine&&) noexcept = default;
PolicyEngine& PolicyEngine::operator=(PolicyEngine&&) noexcept = default;

void PolicyEngine::on_allocate(BufferId id, Bytes footprint) { impl_->on_allocate(id, footprint); }
void PolicyEngine::on_host_write(BufferId id) { impl_->on_host_write(id); }
void PolicyEngine::on_free(BufferId id) { impl_->on_free(id); }
void PolicyEngine::on_unmanaged_bytes(Bytes bytes) { impl_->on_unmanaged_bytes(bytes); }
Decision PolicyEngine::on_launch(const Access& access) { return impl_->on_launch(access); }
Bytes PolicyEngine::managed_limit() const { return impl_->managed_limit(); }
bool PolicyEngine::limit_is_hard() const { return impl_->limit_is_hard(); }
std::vector<BufferId> PolicyEngine::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  return impl_->choose_victims(candidates, needed);
}
const PolicyEngine::Learned& PolicyEngine::learned() const { return impl_->learned(); }

}  // namespace superpipe
