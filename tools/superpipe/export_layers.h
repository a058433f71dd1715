// The layers of a program in a timeline.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/track_sink.h"

namespace superpipe::cli {

/// A row for each layer, which shows when the program launches what uses it, and a counter of its
/// pages on the device.
///
/// A layer is in use from a launch that names one of its buffers to the first that names another
/// layer's and not its own. Buffers that all layers share have a counter only.
class LayerTracks {
 public:
  /// Rows that layers have at most; where there are more layers, several share one.
  static constexpr std::size_t kMostRows = 160;
  /// Gives a track its number, and tells the sink of it.
  using Define = std::function<std::uint64_t(Track)>;

  /// `sink` must outlive it.
  LayerTracks(TrackSink& sink, TracedLayers layers) : sink_(sink), layers_(std::move(layers)) {}

  /// Defines the rows, in their order; none without layers.
  void begin(const Define& define);
  /// A managed buffer was allocated. @return the counter of its pages; 0: it is of no layer.
  std::uint64_t add_buffer(BufferId buffer);
  void remove_buffer(BufferId buffer) { row_of_.erase(index_of(buffer)); }
  void launch(std::uint64_t time, std::span<const BufferId> buffers);
  void finish(std::uint64_t time);

 private:
  struct Row {
    std::string name;
    std::uint64_t uses = 0;      ///< its track; 0: none
    std::uint64_t counter = 0;   ///< its track
    std::uint64_t began = 0;     ///< when its use under way did
    std::uint64_t launches = 0;  ///< of the use under way; 0: there is none
  };
  void close(Row& row, std::uint64_t time);

  TrackSink& sink_;
  const TracedLayers layers_;
  std::uint64_t buffers_ = 0;  ///< allocated so far
  std::vector<Row> rows_;
  std::vector<std::size_t> row_of_layer_;
  std::unordered_map<std::uint32_t, std::size_t> row_of_;  ///< by buffer
  std::set<std::size_t> in_use_;                           ///< rows
  std::vector<std::size_t> named_;                         ///< by one launch
};

}  // namespace superpipe::cli
