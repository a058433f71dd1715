// Perfetto's own format: TrackEvent packets, for ui.perfetto.dev and its trace processor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/track_sink.h"

namespace superpipe::cli {

/// Writes a timeline as a Perfetto trace.
///
/// Names are written once and then referred to. Memory: the different names. Format:
/// perfetto.dev/docs/reference/synthetic-track-event and .../trace-packet-proto.
class PerfettoWriter final : public TrackSink {
 public:
  /// `out` must outlive it.
  explicit PerfettoWriter(ExportSink& out) : out_(out) {}

  void begin(const TracedProcess& process) override;
  void define(const Track& track) override;
  void slice(const TrackEvent& event, std::uint64_t duration_ns) override;
  void open_slice(const TrackEvent& event) override;
  void close_slice(std::uint64_t track, std::uint64_t time) override;
  void instant(const TrackEvent& event) override;
  void count(std::uint64_t track, std::uint64_t time, std::uint64_t value) override;
  void finish() override {}

 private:
  using Interned = std::unordered_map<std::string, std::uint64_t>;

  void write_event(std::uint32_t type, const TrackEvent& event);
  std::uint64_t intern(Interned& known, std::string_view name, std::uint32_t field);
  void send();

  ExportSink& out_;
  std::uint64_t start_ = 0;
  std::uint64_t process_ = 0;
  std::int32_t process_id_ = 0;
  std::string packet_;    ///< what send() sends
  std::string interned_;  ///< InternedData that the next packet brings
  Interned names_;
  Interned argument_names_;
  std::string body_;  // working memory
  std::string frame_;
};

}  // namespace superpipe::cli
