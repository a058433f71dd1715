#include "policy/layer_bound_replay.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "policy/budget.h"
#include "policy/launch_replay.h"
#include "policy/layer_grouping.h"
#include "policy/live_pass.h"
#include "policy/pass_launches.h"
#include "policy/schedule.h"

namespace superpipe {
namespace {

// So many passes it waits for a whole one.
constexpr std::size_t kFewPasses = 8;
// The longest patience.
constexpr std::size_t kManyPasses = 1024;
// As many layers as a pass can have, and few enough for any buffer's bytes times them.
constexpr std::uint64_t kMostLayers = LivePass::kMostBuffers;

// Whether they are the same sizes, in any order: a pass may begin at any layer.
bool are_alike(std::vector<Bytes> some, std::vector<Bytes> others) {
  std::ranges::sort(some);
  std::ranges::sort(others);
  return some == others;
}

// Each layer is visited once.
VisitNeeds one_visit_each(std::size_t layers) {
  VisitNeeds needs;
  for (std::uint32_t layer = 0; layer < layers; ++layer) needs.push_back({layer});
  return needs;
}

}  // namespace

void LayerBoundReplay::on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) {
  ReplayPolicy::on_allocate(id, footprint, pieces);
  largest_buffer_ = std::max(largest_buffer_, footprint);
}

void LayerBoundReplay::on_free(BufferId id) {
  if (layer_of(id)) {
    layers_.by_buffer[index_of(id)] = kNoLayer;
    layers_.live = saturating_subtract(layers_.live, footprint_of(id));
  }
  ReplayPolicy::on_free(id);
}

Decision LayerBoundReplay::on_launch(const Access& access) {
  present_need_ = observe(access);
  need_of_pass_ = std::max(need_of_pass_, present_need_);
  largest_need_ = std::max(largest_need_, present_need_);
  if (at_pass_start()) on_pass_start();
  return {};
}

void LayerBoundReplay::on_pass_start() {
  const std::uint64_t end = replay().present();
  const std::uint64_t begin = std::exchange(pass_began_, end);
  const std::uint64_t jumps = replay().jumps();
  const bool is_whole = std::exchange(jumps_then_, jumps) == jumps;
  const std::size_t passes = replay().passes();
  const bool are_gone = !layers_.bytes.empty() && layers_.live * 2 < layers_.all;
  const bool has_jumped = jumps != looks_.jumps && passes >= looks_.last + looks_.patience;
  const bool is_due = passes >= looks_.next || has_jumped;
  const bool looks = is_due && (is_whole || passes >= looks_.last + looks_.patience + kFewPasses);
  if (are_gone) {
    forget_layers();  // the pass that is over named them, too
  } else if (looks) {
    if (has_jumped) looks_.patience = std::min(2 * looks_.patience, kManyPasses);
    look_for_layers(begin, end);
  }
  need_of_pass_ = present_need_;
  if (are_gone || looks || scheduled_for_ != Policy::managed_limit()) schedule();
}

void LayerBoundReplay::forget_layers() {
  const std::size_t passes = replay().passes();
  layers_ = {};
  looks_ = {.last = passes, .next = passes + 1, .jumps = replay().jumps()};
  largest_need_ = present_need_;
  largest_buffer_ = largest_live();
}

void LayerBoundReplay::look_for_layers(std::uint64_t begin, std::uint64_t end) {
  looks_.last = replay().passes();
  looks_.next = looks_.last + looks_.wait;
  looks_.wait *= 2;
  looks_.jumps = replay().jumps();
  // A pass start is known some launches late, in the midst of a layer.
  begin -= std::min(begin, LaunchReplay::kForesight);
  end -= std::min(end, LaunchReplay::kForesight);
  const std::optional<LivePass> pass = replay().live_pass(begin, end);
  if (!pass) return;
  const LayerGroups groups = layers_of(*pass);
  Layers found;
  found.bytes.resize(groups.layers.size());
  for (std::uint32_t layer = 0; layer < groups.layers.size(); ++layer) {
    for (const BufferId place : groups.layers[layer]) {
      const LivePass::Buffer& buffer = pass->buffers[index_of(place)];
      found.bytes[layer] += buffer.bytes;
      const std::size_t at = index_of(buffer.id);
      if (at >= found.by_buffer.size()) found.by_buffer.resize(at + 1, kNoLayer);
      found.by_buffer[at] = layer;
    }
    found.all += found.bytes[layer];
  }
  if (found.bytes.size() < 2 || found.all * 2 < layers_.all) return;
  found.live = found.all;
  for (const LivePass::Buffer& buffer : pass->buffers) found.besides += buffer.bytes;
  found.besides = found.besides - found.all + replay().pass(begin, end)->transient_peak();
  largest_need_ = need_of_pass_;
  if (!are_alike(found.bytes, layers_.bytes)) {
    looks_.patience = 1;
    largest_buffer_ = Bytes{};
  }
  layers_ = std::move(found);
}

void LayerBoundReplay::schedule() {
  scheduled_for_ = Policy::managed_limit();
  const std::size_t count = layers_.bytes.size();
  const VisitNeeds needs = one_visit_each(count);
  if (k_) {
    scheduled_k_ = std::min(static_cast<std::size_t>(*k_), count);
  } else {
    const Bytes room = saturating_subtract(scheduled_for_, layers_.besides);
    const std::size_t fit = largest_fitting_k(needs, layers_.bytes, room);
    scheduled_k_ = std::max(fit, std::min<std::size_t>(count, 1));
  }
  bytes_of_k_ = max_window_bytes(needs, layers_.bytes, scheduled_k_);
}

Bytes LayerBoundReplay::managed_limit() const {
  const Bytes most = Policy::managed_limit();
  if (!k_) return most;
  // Where there are not k layers yet, larger ones may come.
  const std::uint64_t k = std::min(static_cast<std::uint64_t>(*k_), kMostLayers);
  Bytes limit = std::max(bytes_of_k_ + layers_.besides, largest_need_);
  if (scheduled_k_ < k) limit = std::max(limit, std::max(largest_need_, largest_buffer_) * k);
  return std::min(limit, most);
}

PolicyEngine::Learned LayerBoundReplay::learned() const {
  PolicyEngine::Learned learned = ReplayPolicy::learned();
  learned.layers_known = !layers_.bytes.empty();
  learned.k = static_cast<int>(scheduled_k_);
  learned.layer_bytes = layers_.bytes;
  if (!learned.layers_known) return learned;
  learned.pass_bytes = replay().pass_bytes();
  learned.largest_piece = *std::ranges::max_element(layers_.bytes);
  return learned;
}

PolicyEngine::Outline LayerBoundReplay::outline() const noexcept {
  PolicyEngine::Outline outline = ReplayPolicy::outline();
  outline.layers = layers_.bytes.size();
  outline.k = static_cast<int>(scheduled_k_);
  return outline;
}

std::optional<std::size_t> LayerBoundReplay::layer_of(BufferId id) const noexcept {
  const std::vector<std::uint32_t>& layers = layers_.by_buffer;
  const bool is_known = index_of(id) < layers.size() && layers[index_of(id)] != kNoLayer;
  return is_known ? std::optional<std::size_t>(layers[index_of(id)]) : std::nullopt;
}

}  // namespace superpipe
