// A trace as a timeline: what happened on which track, for formats that draw one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/superpipe/export_layers.h"
#include "tools/superpipe/trace_exporter.h"
#include "tools/superpipe/track_sink.h"

namespace superpipe::cli {

/// Makes a timeline of a trace, with memory for what is under way, for the buffers of layers, and
/// for pages on the device.
///
/// - Each thread: its marks, allocations, frees and copies; where it waits.
/// - Each stream: kernels, for as long as the device ran them, where the trace has times; launches,
///   at the moment of the call; stalls. Those of memsets and of copies on the device, whose stream
///   a trace does not tell, have a row for themselves.
/// - Each direction of the link: transfers, from the moment when the link was free for them, and
///   bytes a second. Ends that were seen in one look share the time up to it by their bytes.
/// - Layers, where the trace has passes: when each is in use, and its pages on the device.
/// - Counters: device memory, budget, pinned host memory, and, by call site, the pages of buffers
///   that are of no layer.
///
/// An arrow leads from each fetch to the first launch that uses its buffer: to the call, or where
/// it comes before the fetch ended, to a point on the same track when it had.
class TrackExporter final : public TraceExporter {
 public:
  /// `sink` must outlive it.
  explicit TrackExporter(TrackSink& sink, TracedLayers layers = {})
      : sink_(sink), layers_(sink, std::move(layers)) {}

  void begin(const TraceProperties& properties) override;
  void finish() override;
  void on_allocation(const TraceMoment& when, const TraceAllocation& event) override;
  void on_free(const TraceMoment& when, const TraceFree& event) override;
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override;
  void on_copy(const TraceMoment& when, const TraceCopy& event) override;
  void on_fetch(const TraceMoment& when, const TraceFetch& event) override;
  void on_eviction(const TraceMoment& when, const TraceEviction& event) override;
  void on_transfer_end(const TraceMoment& when, const TraceTransferEnd& event) override;
  void on_stall(const TraceMoment& when, const TraceStall& event) override;
  void on_budget(const TraceMoment& when, const TraceBudget& event) override;
  void on_memory(const TraceMoment& when, const TraceMemory& event) override;
  void on_pass(const TraceMoment& when, const TracePass& event) override;
  void on_kernel_time(const TraceMoment& when, const TraceKernelTime& event) override;
  void on_mark(const TraceMoment& when, const TraceMark& event) override;
  void on_dropped(const TraceMoment& when, const TraceDropped& event) override;
  void on_wait(const TraceMoment& when, const TraceWait& event) override;

  /// Ends that were seen less than this apart were seen in one look.
  static constexpr std::uint64_t kLookNs = 20'000;
  /// More transfers than this are never under way: what is older has ended unseen.
  static constexpr std::size_t kMostUnderWay = 65'536;
  static constexpr std::size_t kMostEarlyEnds = 4'096;

 private:
  struct Transfer {
    std::uint64_t number = 0;
    std::uint64_t enqueued = 0;
    BufferId buffer = kNoBuffer;
    Bytes offset;
    Bytes size;
    bool demand = false;
  };
  struct Direction {
    std::uint64_t track = 0;
    std::uint64_t rate = 0;  ///< the counter's track
    bool to_device = false;
    std::deque<Transfer> under_way;  ///< by number
    std::vector<Transfer> ended;     ///< in one look
    std::uint64_t look = 0;          ///< its last end
    std::uint64_t last_ended = 0;    ///< number of the transfer
    std::uint64_t free_from = 0;     ///< when the link was free for the next
  };
  struct StallTrack {
    std::uint64_t track = 0;
    std::uint64_t until = 0;  ///< where its last slice ends
  };
  struct StreamTracks {
    std::uint64_t kernels = 0;
    std::uint64_t launches = 0;
    std::uint64_t kernels_until = 0;
    StallTrack stalls;
  };
  struct ThreadTracks {
    std::uint64_t calls = 0;
    std::uint64_t waits = 0;
    std::uint64_t waits_until = 0;
    std::uint32_t open_marks = 0;
  };
  struct Page {
    std::uint64_t bytes = 0;
    bool is_left = false;  ///< it came for a buffer that was freed since
  };
  // A buffer's id, while pages or a life belong to it.
  struct Residents {
    std::uint64_t group = 0;              ///< the counter's track; 0: no buffer lives under the id
    std::uint64_t footprint = 0;          ///< of the last buffer that did
    std::map<std::uint64_t, Page> pages;  ///< on the device, by their offset in the buffer
    std::vector<std::uint64_t> unused{};  ///< fetches that no launch has used yet

    [[nodiscard]] std::uint64_t bytes() const {
      std::uint64_t sum = 0;
      for (const auto& entry : pages) sum += entry.second.bytes;
      return sum;
    }
  };
  struct WaitingLaunch {
    std::uint64_t number = 0;
    TraceIndex kernel = 0;
    std::uint64_t track = 0;
    std::uint64_t time = 0;  ///< of the call
    std::size_t missing = 0;
    std::vector<std::uint64_t> flows;
  };

  std::uint64_t define(Track::Kind kind, std::uint64_t group, std::string name,
                       Track::Unit unit = Track::Unit::kNone, std::uint32_t thread = 0);
  std::uint64_t moment(std::int64_t time);
  std::uint64_t thread_track(std::uint32_t thread);
  StreamTracks& stream_tracks(TraceIndex stream);
  std::uint64_t group_of(TraceIndex call_site);
  /// Where stalls of launch `number` are drawn, of which `launch` is known, if anything is.
  StallTrack& stall_track(std::uint64_t number, const RecentLaunches::Launch* launch);
  void begin_life(std::uint64_t time, const TraceAllocation& event);
  void add_page(std::uint64_t time, const TraceFetch& event);
  void remove_page(std::uint64_t time, const TraceEviction& event);
  /// Counts `come` bytes more and `go` bytes less of what `group` has on the device; 0: nothing.
  void count_pages(std::uint64_t time, std::uint64_t group, std::uint64_t come, std::uint64_t go);
  void end_life(std::uint64_t time, const LiveAllocation& allocation);
  void begin_transfer(Direction& direction, const Transfer& transfer);
  [[nodiscard]] bool has_ended(std::uint64_t fetch) const;
  bool end_transfer(Direction& direction, std::uint64_t number, std::uint64_t time);
  void draw_ended(Direction& direction);
  void resolve_waiting(std::uint64_t fetch, std::uint64_t time);

  TrackSink& sink_;
  std::uint64_t tracks_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t program_ = 0;  // groups
  std::uint64_t device_ = 0;
  std::uint64_t link_ = 0;
  std::uint64_t memory_ = 0;
  std::uint64_t residents_ = 0;  ///< 0: no buffer is of a call site yet
  std::uint64_t passes_ = 0;
  std::uint64_t passes_count_ = 0;
  std::uint64_t pass_began_ = 0;
  std::uint64_t counters_[6] = {};  // of on_budget() and on_memory(), in their fields' order
  Direction fetches_;
  Direction write_backs_;
  std::map<std::uint64_t, std::uint64_t> early_ends_;  ///< of transfers that come later in the file
  std::unordered_map<std::uint32_t, ThreadTracks> threads_;
  std::unordered_map<TraceIndex, StreamTracks> streams_;
  StallTrack stalls_of_uses_;  ///< of no launch, and of a stream that is not told
  std::unordered_map<TraceIndex, std::uint64_t> groups_;          // tracks, by call site
  std::unordered_map<std::string, std::uint64_t> group_names_;    // the same, by name
  std::unordered_map<std::uint64_t, std::uint64_t> group_bytes_;  // by track
  std::unordered_map<std::uint32_t, Residents> buffers_;
  std::vector<std::uint64_t> free_lanes_;                         // tracks of ranges
  std::unordered_map<std::uint64_t, std::uint64_t> open_ranges_;  // range to lane
  std::uint64_t lanes_ = 0;
  LayerTracks layers_;
  LiveAllocations live_;
  RecentLaunches launches_;
  std::map<std::uint64_t, WaitingLaunch> waiting_;               // by launch
  std::unordered_map<std::uint64_t, std::uint64_t> waited_for_;  // fetch to launch
};

}  // namespace superpipe::cli
