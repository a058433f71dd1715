#include "policy/pass_order.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace superpipe {

PassOrder learn_pass(std::span<const LaunchRecord> pass, std::span<const Bytes> footprints) {
  PassOrder order;
  LayerGroups groups = group_layers(pass, footprints);
  std::vector<std::uint32_t> layer_of(footprints.size(), kNoLayer);
  for (std::uint32_t layer = 0; layer < groups.layers.size(); ++layer) {
    for (const BufferId id : groups.layers[layer]) layer_of[index_of(id)] = layer;
  }
  order.layers = std::move(groups.layers);
  order.shared = std::move(groups.shared);

  const auto layer_at = [&](BufferId id) {
    return index_of(id) < layer_of.size() ? layer_of[index_of(id)] : kNoLayer;
  };
  LayerShares shares;
  std::vector<std::size_t> extra_of(footprints.size(), 0);  // the last visit that has it, from 1
  for (const LaunchRecord& launch : pass) {
    std::optional<BufferId> first;
    for (const BufferId id : launch.buffers) {
      if (layer_at(id) == kNoLayer) continue;
      if (!first) first = id;
      shares.add(layer_at(id), footprints[index_of(id)]);
    }
    const std::uint32_t home = shares.take_home();
    if (home == kNoLayer) continue;
    if (order.visits.empty()) {
      order.first_kernel = launch.kernel;
      order.first_buffer = *first;
    }
    if (order.visits.empty() || order.visits.back().layer != home)
      order.visits.push_back({home, {}});
    for (const BufferId id : launch.buffers) {
      if (layer_at(id) == kNoLayer || layer_at(id) == home) continue;
      if (std::exchange(extra_of[index_of(id)], order.visits.size()) == order.visits.size()) {
        continue;
      }
      order.visits.back().extras.push_back(id);
    }
  }
  return order;
}

std::vector<std::uint32_t> layer_by_buffer(const PassOrder& order) {
  std::vector<std::uint32_t> layers;
  for (std::uint32_t layer = 0; layer < order.layers.size(); ++layer) {
    for (const BufferId id : order.layers[layer]) {
      if (index_of(id) >= layers.size()) layers.resize(index_of(id) + std::size_t{1}, kNoLayer);
      layers[index_of(id)] = layer;
    }
  }
  return layers;
}

VisitNeeds needs_of(const PassOrder& order) {
  VisitNeeds needs;
  needs.reserve(order.visits.size());
  for (const Visit& visit : order.visits) {
    std::vector<std::uint32_t>& items = needs.emplace_back();
    for (const BufferId id : order.layers[visit.layer]) items.push_back(index_of(id));
    for (const BufferId id : visit.extras) items.push_back(index_of(id));
  }
  return needs;
}

}  // namespace superpipe
