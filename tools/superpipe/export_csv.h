// A trace as a table, for spreadsheets, pandas and DuckDB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/trace_exporter.h"

namespace superpipe::cli {

/// Writes a row for each event, with a column for each field that any type of event has
/// (docs/trace-format.md): those that an event does not have are empty.
///
/// Fields that refer to definitions have their names: kernels, streams, texts, and call sites as
/// their functions, innermost first, with " < " between. Several buffers have a space between.
/// `thread` is the system's id. A last column, `layer`, is filled in allocations: the number of the
/// buffer's layer from 1 on, or "shared" where launches of many layers name it. As in RFC 4180, but
/// lines end with a line feed.
class CsvWriter final : public TraceExporter {
 public:
  /// `out` must outlive it.
  explicit CsvWriter(ExportSink& out, TracedLayers layers = {});

  void begin(const TraceProperties& properties) override;
  void finish() override {}
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

 private:
  template <typename Event>
  void row(const TraceMoment& when, const Event& event, std::string_view layer = {});
  template <typename Event>
  void add_columns();

  ExportSink& out_;
  const TracedLayers layers_;
  std::uint64_t buffers_ = 0;                         ///< allocated so far
  std::vector<std::string_view> columns_;             ///< behind event, time_ns and thread
  std::vector<std::vector<std::size_t>> columns_of_;  ///< by type: of each field
  std::vector<std::string> cells_;
  std::string line_;
};

}  // namespace superpipe::cli
