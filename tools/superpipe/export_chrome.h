// Chrome's trace events as JSON, for chrome://tracing, Perfetto, and what else reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/track_sink.h"

namespace superpipe::cli {

/// Writes a timeline as one JSON object, an event a line.
///
/// Groups of tracks are its processes, tracks its threads. Times count from the trace's start.
/// Points in time are slices of one nanosecond, since arrows end at slices only. Memory: the
/// different names. Format: "Trace Event Format", Google, 2016.
class ChromeWriter final : public TrackSink {
 public:
  /// `out` must outlive it.
  explicit ChromeWriter(ExportSink& out) : out_(out) {}

  void begin(const TracedProcess& process) override;
  void define(const Track& track) override;
  void slice(const TrackEvent& event, std::uint64_t duration_ns) override;
  void open_slice(const TrackEvent& event) override;
  void close_slice(std::uint64_t track, std::uint64_t time) override;
  void instant(const TrackEvent& event) override;
  void count(std::uint64_t track, std::uint64_t time, std::uint64_t value) override;
  void finish() override;

 private:
  struct Place {
    std::string text;  ///< "pid":...,"tid":...
    std::string name;  ///< quoted
    std::string unit;  ///< of a counter
  };

  /// Begins an event: its phase, place and time.
  void open(char phase, const Place& place, std::uint64_t time);
  void add_name_and_arguments(const TrackEvent& event);
  void add_flows(const TrackEvent& event);
  void close();
  const std::string& quoted(std::string_view name);

  ExportSink& out_;
  std::string line_;
  std::string metadata_;
  bool is_first_ = true;
  std::vector<Place> places_;  ///< by track
  std::unordered_map<std::string, std::string> quoted_;
};

}  // namespace superpipe::cli
