#include "policy/live_pass.h"

#include <algorithm>
#include <span>

namespace superpipe {
namespace {

/// A name, and the place of its buffer in LivePass::buffers.
struct NamedPlace {
  std::uint32_t name;
  std::uint32_t place;
};

}  // namespace

PassOrder order_of(const LivePass& pass) {
  std::vector<NamedPlace> places;
  std::vector<Bytes> footprints;
  for (const LivePass::Buffer& buffer : pass.buffers) {
    places.push_back({buffer.name, static_cast<std::uint32_t>(places.size())});
    footprints.push_back(buffer.bytes);
  }
  std::ranges::sort(places, {}, &NamedPlace::name);

  std::vector<BufferId> named;
  named.reserve(pass.names.size());
  for (const std::uint32_t name : pass.names) {
    const auto found = std::ranges::lower_bound(places, name, {}, &NamedPlace::name);
    const bool counts = found != places.end() && found->name == name;
    // One beyond all footprints is ignored.
    named.push_back(BufferId{counts ? found->place : static_cast<std::uint32_t>(places.size())});
  }
  std::vector<LaunchRecord> records;
  records.reserve(pass.launches.size());
  std::size_t begin = 0;
  for (const LivePass::Launch& launch : pass.launches) {
    records.push_back({launch.kernel, std::span(named).subspan(begin, launch.end - begin)});
    begin = launch.end;
  }
  PassOrder order = learn_pass(records, footprints);
  const auto name_by_id = [&pass](BufferId& place) { place = pass.buffers[index_of(place)].id; };
  for (std::vector<BufferId>& layer : order.layers) std::ranges::for_each(layer, name_by_id);
  std::ranges::for_each(order.shared, name_by_id);
  for (Visit& visit : order.visits) std::ranges::for_each(visit.extras, name_by_id);
  if (!order.visits.empty()) name_by_id(order.first_buffer);
  return order;
}

}  // namespace superpipe
