#include "tools/superpipe/export_layers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "policy/layer_grouping.h"

namespace superpipe::cli {

void LayerTracks::begin(const Define& define) {
  if (layers_.layers == 0) return;
  const std::uint64_t group = define({.kind = Track::Kind::kGroup, .name = "Layers"});
  const std::uint32_t most = layers_.layers + (layers_.shared == kNoLayer ? 0 : 1);
  for (std::uint32_t layer = 0; layer < most; ++layer) {
    std::string name = layers_.row_of(layer, kMostRows);
    if (rows_.empty() || rows_.back().name != name) {
      Row& row = rows_.emplace_back();
      if (layer != layers_.shared) {
        row.uses = define({.group = group, .kind = Track::Kind::kSlices, .name = name});
      }
      row.counter = define({.group = group,
                            .kind = Track::Kind::kCounter,
                            .unit = Track::Unit::kBytes,
                            .name = name + ": resident pages"});
      row.name = std::move(name);
    }
    row_of_layer_.push_back(rows_.size() - 1);
  }
}

std::uint64_t LayerTracks::add_buffer(BufferId buffer) {
  const std::uint32_t layer = layers_.of(buffers_++);
  if (layer == kNoLayer || layer >= row_of_layer_.size()) return 0;
  const std::size_t row = row_of_layer_[layer];
  row_of_[index_of(buffer)] = row;
  return rows_[row].counter;
}

void LayerTracks::launch(std::uint64_t time, std::span<const BufferId> buffers) {
  named_.clear();
  for (const BufferId buffer : buffers) {
    const auto row = row_of_.find(index_of(buffer));
    if (row == row_of_.end() || rows_[row->second].uses == 0) continue;
    if (std::ranges::find(named_, row->second) == named_.end()) named_.push_back(row->second);
  }
  if (named_.empty()) return;
  for (auto place = in_use_.begin(); place != in_use_.end();) {
    if (std::ranges::find(named_, *place) != named_.end()) {
      ++place;
      continue;
    }
    close(rows_[*place], time);
    place = in_use_.erase(place);
  }
  for (const std::size_t number : named_) {
    Row& row = rows_[number];
    if (in_use_.insert(number).second) row.began = std::max(row.began, time);
    ++row.launches;
  }
}

void LayerTracks::close(Row& row, std::uint64_t time) {
  const std::array<TrackArgument, 1> arguments = {TrackArgument{"launches", row.launches}};
  const std::uint64_t end = std::max(row.began, time);
  TrackEvent event;
  event.track = row.uses;
  event.time = row.began;
  event.name = row.name;
  event.arguments = arguments;
  sink_.slice(event, end - row.began);
  row.launches = 0;
  row.began = end;  // events of several threads may be out of order, and slices do not overlap
}

void LayerTracks::finish(std::uint64_t time) {
  for (const std::size_t number : in_use_) close(rows_[number], time);
  in_use_.clear();
}

}  // namespace superpipe::cli
