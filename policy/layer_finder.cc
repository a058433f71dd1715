#include "policy/layer_finder.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "policy/budget.h"
#include "policy/pass_launches.h"

namespace superpipe {
namespace {

// So many passes it waits for a whole one.
constexpr std::size_t kFewPasses = 8;
// The longest patience.
constexpr std::size_t kManyPasses = 1024;
// As many layers as a pass can have, and few enough for any buffer's bytes times them.
constexpr std::uint64_t kMostLayers = LivePass::kMostBuffers;

// A pass names at least one part in so many that was named before it, of all that is live.
constexpr std::uint64_t kLeastShare = 4;

}  // namespace

void LayerFinder::on_allocate(Bytes footprint) {
  largest_buffer_ = std::max(largest_buffer_, footprint);
}

void LayerFinder::on_free(BufferId id, Bytes footprint) {
  if (layer_of(id) == kNoLayer) return;
  layer_of_[index_of(id)] = kNoLayer;
  live_ = saturating_subtract(live_, footprint);
  ++gone_;
}

void LayerFinder::drop_gone() {
  const auto is_gone = [this](BufferId id) { return layer_of(id) == kNoLayer; };
  for (std::vector<BufferId>& layer : order_.layers) std::erase_if(layer, is_gone);
  for (Visit& visit : order_.visits) std::erase_if(visit.extras, is_gone);
}

LayerFinder::Change LayerFinder::on_launch(const StreamReplays& replay,
                                           const BufferHistory& history, Bytes need) {
  present_need_ = need;
  need_of_pass_ = std::max(need_of_pass_, need);
  largest_need_ = std::max(largest_need_, need);
  return replay.at_pass_start() ? on_pass_start(replay, history) : Change::kNothing;
}

LayerFinder::Change LayerFinder::on_pass_start(const StreamReplays& replay,
                                               const BufferHistory& history) {
  const std::uint64_t end = replay.present();
  const std::uint64_t begin = std::exchange(pass_began_, end);
  const std::uint64_t jumps = replay.jumps();
  const bool has_jumped_since = std::exchange(jumps_then_, jumps) != jumps;
  const bool is_whole = replay.are_apart() ? !has_jumped_since : replay.followed() >= end - begin;
  const std::size_t passes = replay.passes();
  const bool are_gone = count() > 0 && live_ * 2 < all_;
  const bool has_jumped = jumps != looks_.jumps && passes >= looks_.last + looks_.patience;
  const bool is_due = passes >= looks_.next || end >= looks_.launches || has_jumped;
  if (!is_due) looks_.due_since.reset();
  if (is_due && !looks_.due_since) looks_.due_since = passes;
  const bool looks = is_due && (is_whole || passes >= *looks_.due_since + kFewPasses);
  Change change = Change::kNothing;
  if (are_gone) {
    forget(replay, history);  // the pass that is over named them, too
    change = Change::kForgotten;
  } else if (looks) {
    const LaunchReplay::Launches pass = replay.aligned({begin, end});
    const auto live = replay.live_pass(pass.begin, pass.end);
    // A first pass has none before it, and the next one is looked at. A pass that is too large is
    // not tried at each start.
    if (live || end - begin <= begin) note_look(replay, has_jumped);
    if (live) {
      change = look(*live, history.used_since(pass.begin));
      if (change != Change::kNothing) {
        besides_ += replay.pass(pass.begin, pass.end)->transient_peak();
      }
    }
  }
  need_of_pass_ = present_need_;
  return change;
}

void LayerFinder::forget(const StreamReplays& replay, const BufferHistory& history) {
  const std::size_t passes = replay.passes();
  looks_ = Looks{};
  looks_.last = passes;
  looks_.next = passes + 1;
  looks_.jumps = replay.jumps();
  order_ = {};
  bytes_.clear();
  layer_of_.clear();
  all_ = live_ = besides_ = Bytes{};
  largest_need_ = present_need_;
  largest_buffer_ = history.largest();
}

void LayerFinder::note_look(const StreamReplays& replay, bool because_of_jump) {
  if (because_of_jump) looks_.patience = std::min(2 * looks_.patience, kManyPasses);
  looks_.due_since.reset();
  looks_.last = replay.passes();
  looks_.next = looks_.last + looks_.wait;
  looks_.wait *= 2;
  looks_.launches = 2 * replay.present();
  looks_.jumps = replay.jumps();
}

/// Takes the layers of a pass, in which and since which live buffers of `used` bytes were named.
LayerFinder::Change LayerFinder::look(const LivePass& pass, Bytes used) {
  Bytes persistent;
  for (const LivePass::Buffer& buffer : pass.buffers) persistent += buffer.bytes;
  if (persistent * kLeastShare < used) return Change::kNothing;
  PassOrder order = order_of(pass);
  std::vector<std::uint32_t> layers = layer_by_buffer(order);
  std::vector<Bytes> bytes(order.layers.size());
  Bytes all;
  Bytes known;
  for (const LivePass::Buffer& buffer : pass.buffers) {
    const std::size_t at = index_of(buffer.id);
    if (at >= layers.size() || layers[at] == kNoLayer) continue;
    bytes[layers[at]] += buffer.bytes;
    all += buffer.bytes;
    if (layer_of(buffer.id) != kNoLayer) known += buffer.bytes;
  }
  if (bytes.size() < 2 || all * 2 < all_) return Change::kNothing;
  besides_ = persistent - all;
  largest_need_ = need_of_pass_;
  // The experts that the input chose are others in each pass, and still those of one model.
  if (known * 2 < all) {
    looks_.patience = 1;
    largest_buffer_ = Bytes{};
  }
  const bool are_same = order.layers == order_.layers && order.visits == order_.visits;
  order_ = std::move(order);
  bytes_ = std::move(bytes);
  layer_of_ = std::move(layers);
  all_ = live_ = all;
  return are_same ? Change::kConfirmed : Change::kFound;
}

void LayerFinder::tell(PolicyEngine::Learned& learned) const {
  if (bytes_.empty()) return;
  learned.layers_known = true;
  learned.layer_bytes = bytes_;
  learned.largest_piece = *std::ranges::max_element(bytes_);
}

Bytes LayerFinder::need_of(int k, std::size_t scheduled, Bytes bytes) const {
  const std::uint64_t layers = std::min(static_cast<std::uint64_t>(k), kMostLayers);
  const Bytes need = std::max(bytes + besides_, largest_need_);
  if (scheduled >= layers) return need;
  return std::max(need, std::max(largest_need_, largest_buffer_) * layers);
}

}  // namespace superpipe
