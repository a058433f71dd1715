// All that reads traces, over one trace.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "profiler/trace_file.h"
#include "profiler/trace_reader.h"
#include "tests/tools/export_testing.h"
#include "tools/superpipe/diff/compared_run.h"
#include "tools/superpipe/diff/run_comparison.h"
#include "tools/superpipe/export_csv.h"
#include "tools/superpipe/export_perfetto.h"
#include "tools/superpipe/export_snapshot.h"
#include "tools/superpipe/export_stacks.h"
#include "tools/superpipe/export_tracks.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/planner/traced_program.h"
#include "tools/superpipe/report/report_page.h"
#include "tools/superpipe/report/trace_report.h"

namespace superpipe::cli::testing {

/// Has `superpipe export` in each format, `plan`, `report` and `diff` read a trace.
class AllTraceTools {
 public:
  /// `file` must outlive it.
  explicit AllTraceTools(std::span<const std::byte> file) : file_(file) {}

  /// @return how many of them found nothing wrong with the file.
  int run() {
    plan();
    export_all();
    report();
    compare();
    return content_;
  }

 private:
  [[nodiscard]] TraceResult<TraceReader> open() const {
    return TraceReader::from(std::make_unique<TraceBytesSource>(file_), "trace");
  }

  // A program that is as large as what it says may take long: only small ones are replayed.
  void plan() {
    auto reader = open();
    if (!reader.ok()) return;
    const auto read = TracedProgram::read(*reader);
    const auto* const program = std::get_if<TracedProgram>(&read);
    if (program == nullptr) return;
    ++content_;
    const Planner planner(*program, assumed_link("", program->run()).speed);
    layers_ = find_layers(*program, planner.passes());
    constexpr std::size_t kMostBuffers = 1'000;
    if (program->buffers() > kMostBuffers || planner.needed() > 1_GiB) return;
    (void)planner.predict({PolicyKind::kAuto, planner.least(), {}, {}});
    (void)planner.accuracy();
  }

  void export_all() {
    TextSink sink;
    PerfettoWriter perfetto(sink);
    TrackExporter perfetto_exporter(perfetto, layers_);
    TorchSnapshotWriter snapshot(sink);
    CsvWriter csv(sink, layers_);
    CollapsedWriter collapsed(sink, StackWeight::kPeak);
    SpeedscopeWriter speedscope(sink);
    for (TraceExporter* const exporter : std::initializer_list<TraceExporter*>{
             &perfetto_exporter, &snapshot, &csv, &collapsed, &speedscope}) {
      (void)read_into(*exporter);
    }
  }

  void report() {
    TraceReport report(layers_);
    ReportedTrace trace;
    trace.file = "trace";
    trace.report = &report;
    trace.ending = read_into(report);
    TextSink sink;
    write_report_page(sink, "title", as_script_content(report_json(std::span(&trace, 1))));
  }

  void compare() {
    const auto run = run_of_trace([this] { return open(); }, "trace");
    const auto* const compared = std::get_if<ComparedRun>(&run);
    if (compared == nullptr) return;
    ++content_;
    const auto comparison = compare_runs(*compared, *compared);
    if (const auto* const both = std::get_if<RunComparison>(&comparison)) {
      (void)comparison_text(*both, {});
      (void)comparison_json(*both, {});
    }
  }

  TraceEnding read_into(TraceExporter& exporter) {
    auto reader = open();
    if (!reader.ok()) return {};
    exporter.begin(reader->properties());
    content_ += reader->read_all(exporter) ? 0 : 1;
    exporter.finish();
    return reader->ending();
  }

  const std::span<const std::byte> file_;
  TracedLayers layers_;
  int content_ = 0;
};

}  // namespace superpipe::cli::testing
