#include "profiler/timeline_csv.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

namespace superpipe {
namespace {

using EventKind = TimelineEvent::Kind;

const char* name_of(EventKind kind) {
  switch (kind) {
    case EventKind::kLaunch:
      return "launch";
    case EventKind::kFetchBegin:
      return "fetch_begin";
    case EventKind::kFetchEnd:
      return "fetch_end";
    case EventKind::kEvictBegin:
      return "evict_begin";
    case EventKind::kEvictEnd:
      return "evict_end";
  }
  return "";
}

struct Launched {
  std::uint32_t buffer;
  Bytes size;
};

// The buffers that ever left the device, in order of their first launch.
std::vector<Launched> moved_buffers(std::span<const TimelineEvent> events) {
  std::unordered_set<std::uint32_t> moved;
  for (const TimelineEvent& event : events) {
    if (event.kind == EventKind::kEvictBegin) moved.insert(index_of(event.buffer));
  }
  std::vector<Launched> order;
  for (const TimelineEvent& event : events) {
    if (event.kind == EventKind::kLaunch && moved.erase(index_of(event.buffer)) > 0) {
      order.push_back({index_of(event.buffer), event.size});
    }
  }
  return order;
}

std::unordered_map<std::uint32_t, std::size_t> layers_of(const std::vector<Launched>& order,
                                                         const std::vector<Bytes>& layer_bytes) {
  std::unordered_map<std::uint32_t, std::size_t> layers;
  std::size_t layer = 0;
  Bytes sum;
  for (const Launched& buffer : order) {
    if (layer >= layer_bytes.size() || sum + buffer.size > layer_bytes[layer]) break;
    layers[buffer.buffer] = layer;
    sum += buffer.size;
    if (sum == layer_bytes[layer]) {
      ++layer;
      sum = Bytes{};
    }
  }
  if (layers.size() == order.size() && layer == layer_bytes.size()) return layers;
  for (std::size_t i = 0; i < order.size(); ++i) layers[order[i].buffer] = i;
  return layers;
}

}  // namespace

std::string timeline_csv(std::span<const TimelineEvent> events,
                         const std::vector<Bytes>& layer_bytes) {
  std::vector<TimelineEvent> sorted(events.begin(), events.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) { return a.time < b.time; });
  const auto layers = layers_of(moved_buffers(sorted), layer_bytes);
  std::string text = "time_ms,event,buffer,layer,bytes\n";
  for (const TimelineEvent& event : sorted) {
    const std::chrono::duration<double, std::milli> time = event.time - sorted.front().time;
    const auto layer = layers.find(index_of(event.buffer));
    std::array<char, 128> line{};
    std::snprintf(line.data(), line.size(), "%.4f,%s,%u,", time.count(), name_of(event.kind),
                  index_of(event.buffer));
    text += line.data();
    if (layer != layers.end()) text += std::to_string(layer->second);
    text += "," + std::to_string(event.size.count()) + "\n";
  }
  return text;
}

}  // namespace superpipe
