// What a report shows of a trace: gathered in one pass over its events.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/units.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/report/binned_series.h"
#include "tools/superpipe/report/link_use.h"
#include "tools/superpipe/trace_exporter.h"

namespace superpipe::cli {

/// Gathers the figures of a trace. Its memory grows with the buffers that live at the same time,
/// with kernels and with call sites, not with events.
///
/// Groups of buffers are the layers that it is given, and for buffers without a layer their call
/// sites. A stall counts for the kernel that waited, and is shared out among the groups whose bytes
/// came late, by those bytes: of fetches, or, where none was late, of new pages that had to wait
/// for room. So the stalls of all kernels, and those of all groups, sum up to stall_ns().
class TraceReport : public TraceExporter {
 public:
  /// Points of a series, and columns of a group's residency, at most.
  static constexpr std::size_t kMostPoints = 2048;
  static constexpr std::size_t kMostColumns = 512;
  /// Groups of call sites; buffers of further ones share a group.
  static constexpr std::size_t kMostSiteGroups = 48;
  /// Layers; of a program with more, several neighbours share a group.
  static constexpr std::size_t kMostLayerGroups = 160;
  /// Points of passes' times; with more passes, several share a point.
  static constexpr std::size_t kMostPassPoints = 2048;
  /// Launches that stalls may still be told of, and fetches of a buffer that nothing used yet.
  static constexpr std::size_t kMostWaiting = 65'536;
  static constexpr std::size_t kMostUnused = 4'096;
  /// What stands for the kernel of those uses.
  static constexpr TraceIndex kUses = std::numeric_limits<TraceIndex>::max();
  /// Texts of marks that are told one by one, and ranges that are open at the same time.
  static constexpr std::size_t kMostMarks = 256;
  static constexpr std::size_t kMostOpenRanges = 4'096;
  /// Kinds of buffers that a group tells one by one.
  static constexpr std::size_t kMostKinds = 64;

  /// Which of a group's buffers: those of a size from a call site.
  struct Kind {
    std::uint64_t buffers = 0;
    std::uint64_t uses = 0;  ///< by launches
  };
  using KindKey = std::pair<TraceIndex, std::uint64_t>;  ///< call site, size in bytes

  struct Group {
    std::string name;
    std::uint32_t layer = 0;    ///< the first that is in it; kNoLayer: it is a call site's
    std::uint64_t buffers = 0;  ///< that ever lived
    std::uint64_t bytes = 0;    ///< footprints of those that live
    std::uint64_t most_bytes = 0;
    std::uint64_t fetched = 0;  ///< bytes, as the next three
    std::uint64_t demanded = 0;
    std::uint64_t evicted = 0;  ///< footprints
    std::uint64_t written_back = 0;
    double stall_ns = 0;
    double late_bytes = 0;      ///< of fetches that came during stalls
    double late_new_pages = 0;  ///< bytes of pages without content that came during stalls
    std::map<KindKey, Kind> kinds;
    std::uint64_t other_kinds = 0;  ///< buffers of kinds beyond kMostKinds
    BinnedLevel residency{kMostColumns};
  };

  struct Kernel {
    std::uint64_t launches = 0;
    std::uint64_t timed_launches = 0;
    std::uint64_t device_ns = 0;  ///< of timed launches
    std::uint64_t stalls = 0;
    std::uint64_t stall_ns = 0;
    double late_bytes = 0;  ///< as of a group
    double late_new_pages = 0;
  };

  struct Site {
    std::uint64_t allocations = 0;
    std::uint64_t managed = 0;  ///< of them
    std::uint64_t bytes = 0;    ///< in all
    std::uint64_t live = 0;     ///< bytes
    std::uint64_t most_live = 0;
  };

  struct PassPoint {
    double sum_ms = 0;
    double most_ms = 0;
    std::uint64_t passes = 0;
  };

  /// Calls of the program that waited for the same, as TraceWait has it.
  struct Waits {
    std::uint64_t calls = 0;
    std::uint64_t ns = 0;
    BinnedSums by_time{kMostPoints};  ///< nanoseconds
  };
  /// TraceWait::kLaunch, kDevice, kCopy, and what a later version may bring.
  using WaitsByReason = std::array<Waits, TraceWait::kCopy + 2>;

  /// What the program marked with one text.
  struct Marks {
    std::uint64_t ranges = 0;
    std::uint64_t points = 0;
    std::uint64_t ns = 0;              ///< in all ranges together
    BinnedSums by_time{kMostColumns};  ///< the same by time
  };

  struct Counts {
    std::uint64_t events = 0;
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t launches = 0;
    std::uint64_t uses = 0;
    std::uint64_t fetches = 0;  ///< that moved bytes
    std::uint64_t demand_fetches = 0;
    std::uint64_t evictions = 0;
    std::uint64_t write_backs = 0;
    std::uint64_t stalls = 0;
    std::uint64_t passes = 0;
    std::uint64_t copied_in = 0;  ///< bytes, by the program
    std::uint64_t copied_out = 0;
    std::uint64_t other_marks = 0;  ///< of texts beyond kMostMarks
    std::uint64_t dropped = 0;
  };

  /// `layers`: of the program that the trace is of; empty: there are none.
  explicit TraceReport(TracedLayers layers);

  void begin(const TraceProperties& properties) override { properties_ = properties; }
  void finish() override;
  void on_allocation(const TraceMoment& when, const TraceAllocation& event) override;
  void on_free(const TraceMoment& when, const TraceFree& event) override;
  void on_launch(const TraceMoment& when, const TraceLaunch& event) override;
  void on_use(const TraceMoment& when, const TraceUse& event) override;
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

  // What was gathered; REQUIRES: finish() was called.
  [[nodiscard]] const TraceProperties& properties() const { return properties_; }
  [[nodiscard]] const TraceNames& all_names() const { return names(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// When the last event happened, in nanoseconds since the trace's start.
  [[nodiscard]] std::uint64_t end_time() const { return end_time_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// With stalls of other uses than launches under kUses.
  [[nodiscard]] const std::map<TraceIndex, Kernel>& kernels() const { return kernels_; }
  [[nodiscard]] std::string kernel_name(TraceIndex index) const;
  [[nodiscard]] const std::map<TraceIndex, Site>& sites() const { return sites_; }
  [[nodiscard]] std::uint64_t stall_ns() const { return stall_ns_; }
  /// The part of it for which no late bytes are known.
  [[nodiscard]] double unexplained_stall_ns() const { return unexplained_stall_ns_; }
  /// Nanoseconds of stalls, by time.
  [[nodiscard]] const BinnedSums& stalls() const { return stalls_; }
  [[nodiscard]] const WaitsByReason& waits() const { return waits_; }
  /// By text.
  [[nodiscard]] const std::map<TraceIndex, Marks>& marks() const { return marks_; }
  [[nodiscard]] const LinkUse& to_device() const { return to_device_; }
  [[nodiscard]] const LinkUse& to_host() const { return to_host_; }
  /// Of the device: pages of managed buffers and what the driver holds, without the context.
  [[nodiscard]] const BinnedLevel& device() const { return device_; }
  [[nodiscard]] const BinnedLevel& pages() const { return pages_; }
  [[nodiscard]] const BinnedLevel& live() const { return live_; }
  [[nodiscard]] const BinnedLevel& passthrough() const { return passthrough_; }
  [[nodiscard]] const BinnedLevel& pinned_host() const { return pinned_host_; }
  [[nodiscard]] const BinnedLevel& budget() const { return budget_; }
  [[nodiscard]] const std::vector<PassPoint>& passes() const { return passes_; }
  [[nodiscard]] std::uint64_t passes_per_point() const { return passes_per_point_; }

 private:
  static constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};
  static constexpr std::uint64_t kNotEnded = ~std::uint64_t{0};

  struct Unused {
    std::uint64_t fetch = 0;
    std::uint64_t offset = 0;
  };
  // A buffer's id, while pages or a life belong to it.
  struct Holder {
    std::uint32_t group = kNoGroup;  ///< kNoGroup: no buffer lives under the id
    std::uint64_t resident = 0;      ///< bytes
    KindKey kind;
    std::vector<Unused> unused;  ///< fetches that no launch has used yet
  };
  struct Fetch {
    std::uint64_t bytes = 0;
    std::uint64_t new_page = 0;  ///< bytes of a page without content
    std::uint32_t group = kNoGroup;
    std::uint64_t end = kNotEnded;
  };
  struct Late {
    double bytes = 0;
    double new_pages = 0;
  };
  struct Waiting {
    std::uint64_t launch = 0;
    std::vector<std::uint64_t> fetches;
  };

  struct OpenRange {
    TraceIndex text = 0;
    std::uint64_t begin = 0;
  };

  std::uint64_t moment(std::int64_t time);
  std::uint32_t group_of(std::uint64_t number, TraceIndex call_site);
  std::uint32_t named_group(const std::string& name, std::uint32_t layer);
  void change_residency(std::uint32_t group, std::uint64_t time, std::uint64_t bytes, bool come);
  void end_life(std::uint64_t time, const LiveAllocation& allocation);
  /// Takes the fetches that nobody has used yet out of the holders of `buffers`.
  [[nodiscard]] std::vector<std::uint64_t> take_unused(std::span<const BufferId> buffers);
  void add_waiting(std::deque<Waiting>& waiting, Waiting one);
  [[nodiscard]] Waiting* find_waiting(std::uint64_t launch, std::uint64_t begin);
  void forget(Waiting& waiting);
  void add_pass(double ms);
  /// nullptr: it is one text too many.
  [[nodiscard]] Marks* marks_of(TraceIndex text);
  void end_range(const OpenRange& range, std::uint64_t end);

  TraceProperties properties_;
  TracedLayers layers_;
  Counts counts_;
  std::uint64_t end_time_ = 0;
  std::uint64_t managed_ = 0;  ///< allocations so far
  std::vector<Group> groups_;
  std::unordered_map<std::string, std::uint32_t> group_names_;
  std::size_t site_groups_ = 0;
  std::unordered_map<TraceIndex, std::uint32_t> site_group_;
  std::map<TraceIndex, Kernel> kernels_;
  std::map<TraceIndex, Site> sites_;
  LiveAllocations live_allocations_;
  RecentLaunches launches_;
  std::unordered_map<std::uint32_t, Holder> holders_;
  std::unordered_map<std::uint64_t, Fetch> fetches_;   ///< by transfer, while a stall may be theirs
  std::deque<Waiting> waiting_;                        ///< by launch
  std::deque<Waiting> waiting_uses_;                   ///< in the order of the file
  std::map<std::uint64_t, std::uint64_t> early_ends_;  ///< of transfers that come later in the file
  std::uint64_t stall_ns_ = 0;
  double unexplained_stall_ns_ = 0;
  BinnedSums stalls_{kMostPoints};
  WaitsByReason waits_;
  std::map<TraceIndex, Marks> marks_;
  std::unordered_map<std::uint32_t, std::vector<OpenRange>> nested_ranges_;  ///< by thread
  std::unordered_map<std::uint64_t, OpenRange> open_ranges_;                 ///< by range
  LinkUse to_device_{kMostPoints};
  LinkUse to_host_{kMostPoints};
  BinnedLevel device_{kMostPoints};
  BinnedLevel pages_{kMostPoints};
  BinnedLevel live_{kMostPoints};
  BinnedLevel passthrough_{kMostPoints};
  BinnedLevel pinned_host_{kMostPoints};
  BinnedLevel budget_{kMostPoints};
  bool has_pass_ = false;
  std::uint64_t pass_began_ = 0;
  std::vector<PassPoint> passes_;
  std::uint64_t passes_per_point_ = 1;
};

}  // namespace superpipe::cli
