#include "policy/policy_engine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "policy/eviction.h"
#include "policy/policy_engine_impl.h"

namespace superpipe {
namespace {

constexpr std::array<std::pair<PolicyKind, std::string_view>, 6> kPolicyNames = {{
    {PolicyKind::kResident, "resident"},
    {PolicyKind::kNaive, "naive"},
    {PolicyKind::kSuperpipeline, "superpipeline"},
    {PolicyKind::kSuperpipelinePaper, "superpipeline-paper"},
    {PolicyKind::kLru, "lru"},
    {PolicyKind::kAuto, "auto"},
}};

// Doubt in the order: a misprediction adds the weight, a visit that came as predicted takes one
// away, and at the limit the order is learned anew.
constexpr int kMispredictionWeight = 4;
constexpr int kMispredictionLimit = 40;

// Added to the visits ahead, so that buffers are evicted by kind first: layers outside the window,
// then transients in use, then layers inside it.
constexpr std::uint64_t kOutsideWindow = std::uint64_t{1} << 40;
constexpr std::uint64_t kTransientInUse = std::uint64_t{1} << 39;

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
  // describe() runs at the next visit, not now: what a program frees as it ends shall not change
  // what was learned of it, which the summary at its exit shows.
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

// ---- following the order ------------------------------------------------------------------------

std::uint32_t PolicyEngine::Impl::home_of(std::span<const BufferId> buffers) {
  for (const BufferId id : buffers) {
    const BufferState* const buffer = find(id);
    if (buffer == nullptr || buffer->home >= kFirstSpecialHome) continue;
    shares_.add(buffer->home, buffer->footprint);
  }
  return shares_.take_home();
}

bool PolicyEngine::Impl::opens_pass(KernelId kernel, std::span<const BufferId> buffers) const {
  if (kernel != order_.first_kernel) return false;
  for (const BufferId id : buffers) {
    const BufferState* const buffer = find(id);
    if (buffer != nullptr && buffer->home < kFirstSpecialHome) return id == order_.first_buffer;
  }
  return false;
}

std::vector<bool> PolicyEngine::Impl::empty_layers() const {
  std::vector<bool> is_empty(order_.layers.size());
  for (std::size_t layer = 0; layer < is_empty.size(); ++layer) {
    is_empty[layer] = order_.layers[layer].empty();
  }
  return is_empty;
}

void PolicyEngine::Impl::advance(std::uint64_t visits) {
  if (!follower_.advance(visits)) return;
  ++learned_.passes;
  learned_.at_pass_start = true;
  last_pass_began_ = pass_began_;
  pass_began_ = launch_;
}

Decision PolicyEngine::Impl::move_to(const Access& access, std::uint32_t home) {
  if (changed_) describe();
  const OrderFollower::Step step =
      home == follower_.layer() ? OrderFollower::Step{1, true} : follower_.step_to(home, is_empty_);
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
  // After visits were skipped, the next decision starts the schedule from here; not where skips are
  // so frequent that each would throw away what was just fetched.
  if (step.visits > 1 && (step.predicted || follower_.is_confident())) join_ = true;
  if (refinement_ != Refinement::kDone) refine(access);
  if (config_.budget && !config_.k) follow_budget();
  if (!windows_.active) return {};
  if (join_) {
    join_ = false;
    return decide(window_from(windows_.schedule, follower_.visit()));
  }
  const auto window = window_at(windows_.schedule, follower_.visit());
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
  // Buffers that the launch itself names stay until the next decision.
  const auto leaves = [this](const BufferState& buffer) {
    return buffer.window != decision_ && buffer.last_use != launch_;
  };
  std::erase_if(scheduled_, [&](BufferId id) {
    BufferState& buffer = buffers_[index_of(id)];
    if (!leaves(buffer)) return false;
    buffer.scheduled = false;
    buffer.window = decision_;  // so that the sweep below does not list it a second time
    decision.evict.push_back(id);
    return true;
  });
  if (sweep_) {
    // Demand fetches may have brought any other layer's buffers, and policy is not told of them.
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

void PolicyEngine::Impl::note_irregular(const Access& access) {
  std::uint32_t home = kNoLayer;
  bool single = true;
  for (const BufferId id : access.buffers) {
    BufferState* const buffer = find(id);
    if (buffer == nullptr || buffer->home >= kFirstSpecialHome) continue;
    single = single && (home == kNoLayer || home == buffer->home);
    home = buffer->home;
    if (buffer->scheduled || !windows_.active) continue;
    // A demand fetch brings it. Now that it counts as scheduled, a later window evicts it.
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
      // The host wrote this buffer long ago, and the order does not have it: perhaps another model
      // runs now.
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
      irregular = irregular || (windows_.active && !buffer.scheduled);
    } else if (buffer.home == kUnscheduled) {
      irregular = irregular || !buffer.counted ||
                  (buffer.allocated_at < last_pass_began_ && refinement_ == Refinement::kDone);
    }
  }
  if (need > largest_need_) largest_need_ = need;

  Decision decision;
  if (!known_) {
    if (!learn(access)) return decision;
    if (windows_.active) {
      join_ = false;
      decision = decide(window_from(windows_.schedule, follower_.visit()));
    }
    irregular = true;
  } else {
    if (mixed) home = home_of(access.buffers);
    if (home != kNoLayer &&
        (home != follower_.layer() ||
         (follower_.may_end_pass() && opens_pass(access.kernel, access.buffers)))) {
      decision = move_to(access, home);
    } else if (refinement_ == Refinement::kRecording) {
      refine(access);
    }
  }
  if (irregular && known_) note_irregular(access);
  return decision;
}

// ---- k, k' and limits ---------------------------------------------------------------------------

void PolicyEngine::Impl::describe() {
  changed_ = false;
  needs_ = needs_of(order_);
  is_empty_ = empty_layers();
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
  const WindowChoice before = windows_;
  std::vector<Bytes> footprints(buffers_.size());
  for (std::size_t at = 0; at < buffers_.size(); ++at) footprints[at] = buffers_[at].footprint;
  const auto layers =
      static_cast<std::size_t>(std::count(is_empty_.begin(), is_empty_.end(), false));
  windows_ = choose_windows(config_, {needs_, footprints, layers, layers_bytes_}, layers_room());
  if (windows_.active && (!before.active || before.schedule.k != windows_.schedule.k)) {
    join_ = true;
    sweep_ = sweep_ || !before.active;
  }
  learned_.k = static_cast<int>(windows_.schedule.k);
  learned_.k_prime = static_cast<int>(windows_.schedule.k_prime);
}

void PolicyEngine::Impl::follow_budget() {
  const Bytes room = layers_room();
  const bool too_wide = windows_.window_bytes > room && windows_.schedule.k > 1;
  const bool has_room = windows_.active && windows_.wider_bytes <= room;
  if (too_wide || (has_room && learned_.at_pass_start)) choose_schedule();
}

Bytes PolicyEngine::Impl::managed_limit() const {
  if (config_.budget && !config_.k) return available();
  if (!config_.k || !counts_layers(config_.kind)) {
    return config_.budget ? available() : Bytes{std::numeric_limits<std::uint64_t>::max()};
  }
  const Bytes by_k = known_ ? windows_.window_bytes + shared_bytes_ + unscheduled_peak_
                            : largest_need_ * static_cast<std::uint64_t>(*config_.k);
  const Bytes limit = std::max(by_k, largest_need_);
  return config_.budget ? std::min(limit, available()) : limit;
}

std::vector<BufferId> PolicyEngine::Impl::choose_victims(std::span<const BufferId> candidates,
                                                         Bytes needed) const {
  const bool predicts = known_ && follower_.is_confident();
  std::vector<std::uint64_t> ahead;  // by layer
  if (predicts) ahead = follower_.visits_ahead(order_.layers.size());
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
    } else if (ahead[buffer->home] != OrderFollower::kNeverVisited) {
      const bool in_window = buffer->scheduled || !windows_.active;
      one.next_use = 1 + ahead[buffer->home] + (in_window ? 0 : kOutsideWindow);
    }
  }
  if (auto victims = plan_eviction(resident, needed)) return *std::move(victims);
  Bytes all;
  for (const ResidentBuffer& buffer : resident) all += buffer.footprint;
  return plan_eviction(resident, all).value_or(std::vector<BufferId>{});
}

// ---- PolicyEngine -------------------------------------------------------------------------------

PolicyEngine::PolicyEngine(const PolicyConfig& config) : impl_(std::make_unique<Impl>(config)) {
  if (config.kind == PolicyKind::kAuto) {
    puller_ = std::make_unique<AutoPolicy>(AutoPolicy::Foresight::kReplay);
  } else if (config.kind == PolicyKind::kLru) {
    puller_ = std::make_unique<AutoPolicy>(AutoPolicy::Foresight::kNone);
  }
}
PolicyEngine::~PolicyEngine() = default;
PolicyEngine::PolicyEngine(PolicyEngine&&) noexcept = default;
PolicyEngine& PolicyEngine::operator=(PolicyEngine&&) noexcept = default;

void PolicyEngine::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  impl_->on_allocate(id, footprint);
  if (puller_ != nullptr) puller_->on_allocate(id, footprint, pieces);
}
void PolicyEngine::on_host_write(BufferId id) { impl_->on_host_write(id); }
void PolicyEngine::on_free(BufferId id) {
  impl_->on_free(id);
  if (puller_ != nullptr) puller_->on_free(id);
}
void PolicyEngine::on_passthrough_bytes(Bytes bytes) { impl_->on_passthrough_bytes(bytes); }
void PolicyEngine::set_budget(Bytes budget) { impl_->set_budget(budget); }
Decision PolicyEngine::on_launch(const Access& access) {
  ++launches_;
  if (puller_ != nullptr) puller_->on_launch(access.kernel, access.buffers);
  Decision decision = impl_->on_launch(access);
  at_pass_start_ = puller_ != nullptr && puller_->foresees() ? puller_->replay().at_pass_start()
                                                             : impl_->learned().at_pass_start;
  return decision;
}
Bytes PolicyEngine::managed_limit() const { return impl_->managed_limit(); }
bool PolicyEngine::limit_is_hard() const { return impl_->limit_is_hard(); }
std::vector<BufferId> PolicyEngine::choose_victims(std::span<const BufferId> candidates,
                                                   Bytes needed) const {
  return impl_->choose_victims(candidates, needed);
}
PolicyEngine::Learned PolicyEngine::learned() const {
  Learned learned = impl_->learned();
  learned.at_pass_start = at_pass_start_;
  if (puller_ != nullptr && puller_->foresees()) learned.passes = puller_->replay().passes();
  return learned;
}

}  // namespace superpipe
