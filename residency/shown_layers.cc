#include "residency/shown_layers.h"

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "policy/pass_order.h"
#include "policy/stream_replays.h"
#include "profiler/pass_times.h"
#include "residency/tuning.h"

namespace superpipe {
namespace {

constexpr std::uint32_t kMostBuffersShown = 16'384;

// Layers are another grouping's business once they lack more than an eighth.
bool is_nearly_all(Bytes part, Bytes all) { return 8 * part.count() >= 7 * all.count(); }

}  // namespace

/// Adds up what there is of each layer.
class ShownLayers::Sums {
 public:
  // The pieces of a buffer that are not in place count as whole ones, though the last may be
  // smaller.
  void add(std::size_t layer, const Buffer& buffer) REQUIRES(manager_lock) {
    if (layer >= kShownLayers) return;
    all_[layer] += buffer.footprint;
    there_[layer] += saturating_subtract(buffer.footprint, buffer.missing * buffer.piece_size);
  }

  void tell(std::array<std::uint8_t, kShownLayers>& percent) const {
    for (std::size_t layer = 0; layer < kShownLayers; ++layer) {
      if (all_[layer] == Bytes{}) continue;
      percent[layer] = static_cast<std::uint8_t>(100 * there_[layer].count() / all_[layer].count());
    }
  }

 private:
  std::array<Bytes, kShownLayers> there_{};
  std::array<Bytes, kShownLayers> all_{};
};

void ShownLayers::look() noexcept try {
  std::optional<Grouping> grouping;
  {
    const ManagerLock lock(core_.mutex);
    grouping = begin();
  }
  if (!grouping) return;
  group(*grouping);
  const ManagerLock lock(core_.mutex);
  adopt(*std::move(grouping));
} catch (const std::bad_alloc&) {
  // The next look tries again.
}

std::optional<ShownLayers::Grouping> ShownLayers::begin() {
  const bool policy_has_some = core_.policy.outline().layers > 0;
  if (core_.waits.are_over() || policy_has_some) return std::nullopt;
  const StreamReplays& replay = core_.policy.replay();
  const std::uint64_t passes = core_.passes.count();
  if (passes < soonest_) return std::nullopt;
  const bool has_jumped = replay.jumps() != jumps_;
  const bool is_needed = members_.empty() || has_lost_ || passes >= twice_as_many_;
  if (!is_needed && !has_jumped) return std::nullopt;

  soonest_ = passes + std::min(passes, tuning::kShownFewPasses);
  const std::span<const MeasuredPass> measured = core_.passes.passes();
  const auto typical =
      typical_pass(measured.last(std::min(measured.size(), tuning::kShownLatePasses)),
                   replay.first_remembered());
  if (!typical) return std::nullopt;
  const auto [first, end] = replay.aligned({typical->begin, typical->end});
  std::optional<LivePass> pass = replay.live_pass(first, end);
  if (!pass) pass = replay.live_pass(typical->begin, typical->end);
  if (!pass) return std::nullopt;
  Grouping grouping{*std::move(pass), {}, !is_needed, {}, 0};
  grouping.numbers.reserve(grouping.pass.buffers.size());
  for (const LivePass::Buffer& buffer : grouping.pass.buffers) {
    grouping.numbers.push_back(core_.buffers[buffer.id].number);
  }
  jumps_ = replay.jumps();
  twice_as_many_ = 2 * passes;
  return grouping;
}

void ShownLayers::group(Grouping& grouping) {
  const PassOrder order = order_of(grouping.pass);
  grouping.layers = order.layers.size();
  const std::vector<std::uint32_t> layers = layer_by_buffer(order);
  for (std::size_t place = 0; place < grouping.pass.buffers.size(); ++place) {
    const LivePass::Buffer& buffer = grouping.pass.buffers[place];
    const std::size_t at = index_of(buffer.id);
    if (at >= layers.size() || layers[at] == kNoLayer) continue;
    grouping.members.push_back({buffer.id, grouping.numbers[place], buffer.bytes, layers[at]});
  }
  std::ranges::sort(grouping.members, {}, &Member::number);
}

void ShownLayers::adopt(Grouping&& grouping) {
  // One layer alone tells nothing.
  if (grouping.layers < 2 || (grouping.only_jumped && covers(grouping))) return;
  members_ = std::move(grouping.members);
  layers_ = grouping.layers;
  has_lost_ = false;
  bytes_ = Bytes{};
  for (const Member& member : members_) bytes_ += member.bytes;
}

// Whether nearly all that the pass names is in the layers that there are.
bool ShownLayers::covers(const Grouping& grouping) const {
  Bytes all;
  Bytes covered;
  for (const Member& member : grouping.members) {
    all += member.bytes;
    if (std::ranges::binary_search(members_, member.number, {}, &Member::number)) {
      covered += member.bytes;
    }
  }
  return is_nearly_all(covered, all);
}

ShownLayers::Layers ShownLayers::layers(std::size_t learned) noexcept {
  Layers found;
  Sums sums;
  if (learned > 0) {
    found.count = learned;
    if (core_.buffers.end() > kMostBuffersShown) return found;
    for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
      const Buffer& buffer = core_.buffers[BufferId{i}];
      const auto layer = buffer.live ? core_.policy.layer_of(BufferId{i}) : std::nullopt;
      if (layer) sums.add(*layer, buffer);
    }
  } else if (!members_.empty()) {
    Bytes live;
    for (const Member& member : members_) {
      const Buffer& buffer = core_.buffers[member.id];
      if (!buffer.live || buffer.number != member.number) continue;
      live += member.bytes;
      sums.add(member.layer, buffer);
    }
    has_lost_ = !is_nearly_all(live, bytes_);
    if (2 * live.count() < bytes_.count()) return found;
    found.count = layers_;
  }
  sums.tell(found.percent);
  return found;
}

}  // namespace superpipe
