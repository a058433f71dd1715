#include "policy/window_scheduler.h"

#include <algorithm>
#include <optional>

namespace superpipe {

void WindowScheduler::start(const PassOrder& order, std::span<const Bytes> footprints, Bytes room) {
  std::vector<bool> in_layer(footprints.size(), false);
  for (const std::vector<BufferId>& layer : order.layers) {
    for (const BufferId id : layer) in_layer[index_of(id)] = true;
  }
  std::erase_if(scheduled_, [&](BufferId id) {
    buffers_[index_of(id)].scheduled = in_layer[index_of(id)];
    return !in_layer[index_of(id)];
  });
  joins_ = true;
  sweeps_ = true;
  update(order, footprints, room);
}

void WindowScheduler::update(const PassOrder& order, std::span<const Bytes> footprints,
                             Bytes room) {
  needs_ = needs_of(order);
  footprints_.assign(footprints.begin(), footprints.end());
  if (buffers_.size() < footprints.size()) buffers_.resize(footprints.size());
  layer_buffers_.clear();
  layers_ = 0;
  layers_bytes_ = Bytes{};
  for (const std::vector<BufferId>& layer : order.layers) {
    layer_buffers_.insert(layer_buffers_.end(), layer.begin(), layer.end());
    layers_ += layer.empty() ? 0 : 1;
    for (const BufferId id : layer) layers_bytes_ += footprints_[index_of(id)];
  }
  choose(room);
}

void WindowScheduler::choose(Bytes room) {
  const WindowChoice before = choice_;
  choice_ = choose_windows(config_, {needs_, footprints_, layers_, layers_bytes_}, room);
  if (choice_.active && (!before.active || before.schedule.k != choice_.schedule.k)) {
    joins_ = true;
    sweeps_ = sweeps_ || !before.active;
  }
}

void WindowScheduler::stop() {
  for (const BufferId id : scheduled_) buffers_[index_of(id)].scheduled = false;
  scheduled_.clear();
  needs_.clear();
  layer_buffers_.clear();
  layers_ = 0;
  layers_bytes_ = Bytes{};
  choice_ = WindowChoice{};
}

Decision WindowScheduler::on_visit(const Start& start, std::span<const BufferId> named,
                                   Bytes room) {
  joins_ = joins_ || start.jumps;
  if (config_.budget && !config_.k) {
    const bool is_too_wide = choice_.window_bytes > room && choice_.schedule.k > 1;
    const bool has_room = choice_.active && choice_.wider_bytes <= room;
    if (is_too_wide || (has_room && start.opens_pass)) choose(room);
  }
  if (!choice_.active) return {};
  if (joins_) {
    joins_ = false;
    return decide(window_from(choice_.schedule, start.visit), named);
  }
  const auto window = window_at(choice_.schedule, start.visit);
  return window ? decide(*window, named) : Decision{};
}

Decision WindowScheduler::decide(const Window& window, std::span<const BufferId> named) {
  ++decisions_;
  Decision decision;
  for (std::uint64_t at = 0; at < window.count; ++at) {
    for (const std::uint32_t index : needs_[(window.begin + at) % needs_.size()]) {
      Buffer& buffer = buffers_[index];
      buffer.kept_by = decisions_;
      if (buffer.scheduled) continue;
      buffer.scheduled = true;
      decision.fetch.push_back(BufferId{index});
    }
  }
  for (const BufferId id : named) {
    if (index_of(id) < buffers_.size()) buffers_[index_of(id)].kept_by = decisions_;
  }
  std::erase_if(scheduled_, [&](BufferId id) {
    Buffer& buffer = buffers_[index_of(id)];
    if (buffer.kept_by == decisions_) return false;
    buffer.scheduled = false;
    buffer.kept_by = decisions_;  // so that the sweep below does not list it a second time
    decision.evict.push_back(id);
    return true;
  });
  if (sweeps_) {
    // Demand fetches may have brought any other layer's buffers, and policy is not told of them.
    sweeps_ = false;
    for (const BufferId id : layer_buffers_) {
      const Buffer& buffer = buffers_[index_of(id)];
      if (!buffer.scheduled && buffer.kept_by != decisions_) decision.evict.push_back(id);
    }
  }
  scheduled_.insert(scheduled_.end(), decision.fetch.begin(), decision.fetch.end());
  decision.fetch_before_launch = window.wait && !decision.fetch.empty();
  return decision;
}

void WindowScheduler::on_use(BufferId id) {
  if (!choice_.active || has(id)) return;
  if (index_of(id) >= buffers_.size()) buffers_.resize(index_of(id) + std::size_t{1});
  buffers_[index_of(id)].scheduled = true;
  scheduled_.push_back(id);
}

void WindowScheduler::on_free(BufferId id) {
  if (index_of(id) >= buffers_.size()) return;
  if (buffers_[index_of(id)].scheduled) std::erase(scheduled_, id);
  buffers_[index_of(id)] = {};
}

}  // namespace superpipe
