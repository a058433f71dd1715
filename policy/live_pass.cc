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

LayerGroups layers_of(const LivePass& pass) {
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
  return group_layers(records, footprints);
}

}  // namespace superpipe
