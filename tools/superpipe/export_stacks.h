// A trace as stacks with weights: where memory was allocated, which kernels stalled, and what the
// program waited for. For flame graphs, as collapsed stacks or for speedscope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/trace_exporter.h"

namespace superpipe::cli {

/// What a stack's weight is.
enum class StackWeight : std::uint8_t {
  kAllocated,  ///< bytes that a call site allocated, all together
  kPeak,       ///< bytes that it held when all together held most
  kStalls,     ///< nanoseconds for which a kernel's launches stalled
  kWaits,      ///< nanoseconds for which a thread of the program waited, by what for
};
inline constexpr StackWeight kStackWeights[] = {StackWeight::kAllocated, StackWeight::kPeak,
                                                StackWeight::kStalls, StackWeight::kWaits};
/// As --stacks takes it.
[[nodiscard]] std::string_view name_of(StackWeight weight);
/// nullopt: there is none of this name.
[[nodiscard]] std::optional<StackWeight> stack_weight_named(std::string_view name);

/// A stack, outermost first, and its weight, which is not zero.
struct WeightedStack {
  std::vector<CallFrame> frames;
  std::uint64_t weight = 0;
};

/// Adds up a trace's stacks. Memory: the call sites, kernels and live allocations.
class StackTotals {
 public:
  void allocate(const TraceAllocation& event);
  void free(const TraceFree& event);
  void launch(const TraceLaunch& event) { launches_.add(event); }
  void stall(const TraceStall& event);
  void wait(std::uint32_t thread, const TraceWait& event);

  /// Heaviest first, by name where they are as heavy. Stacks that read alike are one.
  [[nodiscard]] std::vector<WeightedStack> stacks(StackWeight weight,
                                                  const TraceNames& names) const;

 private:
  struct Held {
    std::uint64_t bytes = 0;
    std::int64_t since_peak = 0;  ///< how `bytes` has changed since the peak number `peak`
    std::uint64_t peak = 0;
  };
  struct Stalled {
    bool is_launch = false;  ///< else a memset, or a copy on the device
    TraceIndex stream = 0;
    TraceIndex kernel = 0;
    auto operator<=>(const Stalled&) const = default;
  };
  struct Waited {
    std::uint32_t thread = 0;
    std::uint64_t what = 0;  ///< as TraceWait has it; 3 for all that it does not have
    auto operator<=>(const Waited&) const = default;
  };
  void change(TraceIndex call_site, Bytes size, bool come);

  LiveAllocations live_;
  RecentLaunches launches_;
  std::unordered_map<TraceIndex, std::uint64_t> allocated_;
  std::unordered_map<TraceIndex, Held> held_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t peaks_ = 0;  ///< counts them: a new one makes all `since_peak` zero
  std::map<Stalled, std::uint64_t> stalls_;
  std::map<Waited, std::uint64_t> waits_;
};

/// Stacks of a trace; what becomes of them is the format's.
class StackExporter : public TraceExporter {
 public:
  void on_allocation(const TraceMoment& /*when*/, const TraceAllocation& event) override {
    totals_.allocate(event);
  }
  void on_free(const TraceMoment& /*when*/, const TraceFree& event) override {
    totals_.free(event);
  }
  void on_launch(const TraceMoment& /*when*/, const TraceLaunch& event) override {
    totals_.launch(event);
  }
  void on_stall(const TraceMoment& /*when*/, const TraceStall& event) override {
    totals_.stall(event);
  }
  void on_wait(const TraceMoment& when, const TraceWait& event) override {
    totals_.wait(when.thread, event);
  }

 protected:
  [[nodiscard]] std::vector<WeightedStack> stacks(StackWeight weight) const {
    return totals_.stacks(weight, names());
  }

 private:
  StackTotals totals_;
};

/// Writes a line a stack: its frames with ";" between, a space, and the weight. What flamegraph.pl,
/// inferno and speedscope read.
class CollapsedWriter final : public StackExporter {
 public:
  /// `out` must outlive it.
  CollapsedWriter(ExportSink& out, StackWeight weight) : out_(out), weight_(weight) {}

  void begin(const TraceProperties& /*properties*/) override {}
  void finish() override;
  [[nodiscard]] std::string why_empty() const override;

 private:
  ExportSink& out_;
  StackWeight weight_;
  bool is_empty_ = true;
};

/// Writes a file for speedscope (www.speedscope.app), with a profile for each weight. Format:
/// github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources.
class SpeedscopeWriter final : public StackExporter {
 public:
  /// `out` must outlive it.
  explicit SpeedscopeWriter(ExportSink& out) : out_(out) {}

  void begin(const TraceProperties& properties) override;
  void finish() override;

 private:
  ExportSink& out_;
  std::string name_;
};

}  // namespace superpipe::cli
