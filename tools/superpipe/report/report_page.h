// The page of a report: one file that needs no other, and no network.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "profiler/trace_reader.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/report/trace_report.h"
#include "tools/superpipe/report/what_if.h"

namespace superpipe::cli {

/// A trace and what goes with it.
struct ReportedTrace {
  std::string file;
  const TraceReport* report = nullptr;
  TraceEnding ending{};
  std::optional<WhatIf> what_if{};
  std::string no_what_if{};   ///< why there is none
  std::string no_layers{};    ///< why there are none; empty: there are
  std::string other_files{};  ///< of the same run, with ", " between
};

/// Rows of the tables of kernels and call sites, at most; the costliest are kept.
inline constexpr std::size_t kMostReportRows = 400;

/// The figures of `traces`, as the page reads them: one JSON object. Pure.
/// docs/report.md says what is in it.
[[nodiscard]] std::string report_json(std::span<const ReportedTrace> traces);

/// `json` as it may stand in a script element of HTML: no text in it can end the element. Pure.
[[nodiscard]] std::string as_script_content(std::string_view json);

/// Writes the page: template, styles, chart library and program, with `json` as its data.
void write_report_page(ExportSink& out, std::string_view title, const std::string& json);

}  // namespace superpipe::cli
