#include "tools/superpipe/report_command.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <utility>
#include <variant>

#include "profiler/trace_reader.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/planner/cards.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/progress_line.h"
#include "tools/superpipe/report/report_page.h"
#include "tools/superpipe/report/trace_report.h"
#include "tools/superpipe/report/what_if.h"
#include "tools/superpipe/trace_files.h"

namespace superpipe::cli {
namespace {

// More traces than colours that can be told apart are no comparison.
constexpr std::size_t kMostReportedTraces = 4;
// For the plan of one trace.
constexpr std::chrono::seconds kPlanLimit{30};

void say_report(const std::string& line) { std::cerr << "superpipe report: " << line << '\n'; }

int fail_report(const std::string& line) {
  say_report(line);
  return kBadUsage;
}

// What is read of a trace before its figures: its layers and the plan.
struct Preparation {
  TracedLayers layers;
  std::optional<WhatIf> what_if;
  std::string no_what_if;
  std::string no_layers;
};

// @return what is wrong with the file.
std::optional<std::string> prepare_trace(const std::string& file, const ReportOptions& options,
                                         ProgressLine& progress, Preparation& made) {
  auto reader = TraceReader::open(file);
  if (!reader.ok()) return reader.error().message;
  progress.begin("reading " + file);
  auto read = TracedProgram::read(*reader);
  if (const auto* const problem = std::get_if<std::string>(&read)) {
    // A trace without launches is a trace; where reading failed, the second reading says so.
    made.no_layers = *problem;
    made.no_what_if = *problem;
    return std::nullopt;
  }
  const auto& program = std::get<TracedProgram>(read);
  if (options.no_plan) {
    made.no_what_if = "it was left out (--no-plan)";
    const TracedPasses passes = find_passes(program, Planner::kMostLaunches);
    made.layers = find_layers(program, passes);
  } else {
    const AssumedLink link = assumed_link(options.link, program.run());
    const Planner planner(program, link.speed);
    made.layers = find_layers(program, planner.passes());
    made.what_if = predict_what_if(
        program, planner, link.text(), kPlanLimit, [&](std::size_t done, std::size_t all) {
          progress.say("planning " + file + ", budget " + std::to_string(done) + " of " +
                       std::to_string(all));
        });
  }
  if (made.layers.layers == 0) {
    made.no_layers = "no pass was found that repeats itself";
  }
  return std::nullopt;
}

void say_what_is_missing(const ReportedTrace& trace) {
  if (!trace.ending.is_complete) {
    say_report("note: " + trace.file +
               " ends early, because its process died or the disk was full; the report is on the " +
               std::to_string(trace.ending.events) + " events up to there");
  }
  if (trace.ending.dropped > 0) {
    say_report("note: " + std::to_string(trace.ending.dropped) + " events of " + trace.file +
               " were not recorded, because the disk was slow; what follows from them is missing");
  }
  if (!trace.other_files.empty()) {
    say_report("note: the run has other files too, which can be named as well: " +
               trace.other_files);
  }
}

std::string title_of(const std::vector<std::string>& files) {
  std::string title;
  for (const std::string& file : files) {
    title.append(title.empty() ? "" : ", ").append(file.substr(file.rfind('/') + 1));
  }
  return as_utf8(title);
}

}  // namespace

std::optional<std::string> problem_with(const ReportOptions& options) {
  if (options.files.empty()) return "no trace; it takes files that superpipe profile wrote";
  if (options.files.size() > kMostReportedTraces) {
    return std::to_string(options.files.size()) + " traces are too many; a page compares up to " +
           std::to_string(kMostReportedTraces);
  }
  if (options.output.empty()) return "no file; name the page to write with -o FILE";
  if (options.no_plan && !options.link.empty()) {
    return "--link is for the plan, which --no-plan leaves out";
  }
  if (!options.link.empty() && !link_named(options.link)) {
    return "--link " + options.link +
           ": must be gen3, gen4, gen5, one of these with x8, or GB/s each way";
  }
  return std::nullopt;
}

int report_command(const ReportOptions& options) {
  for (const std::string& file : options.files) {
    if (is_same_file(file, options.output)) {
      return fail_report("-o " + options.output + " is a trace itself; name another file");
    }
  }
  if (options.output == "-" && ::isatty(STDOUT_FILENO) == 1) {
    return fail_report("standard output is a terminal; name a file with -o FILE");
  }
  // Whether it can be written is known before the work begins.
  std::string problem;
  const auto page = ExportFile::open(options.output, problem);
  if (page == nullptr) return fail_report(problem);
  ProgressLine progress("report");
  std::vector<std::unique_ptr<TraceReport>> reports;
  std::vector<ReportedTrace> traces;
  for (const std::string& file : options.files) {
    Preparation made;
    if (const auto wrong = prepare_trace(file, options, progress, made)) {
      progress.clear();
      return fail_report(*wrong);
    }
    progress.begin("adding up " + file);
    auto reader = TraceReader::open(file);
    if (!reader.ok()) return fail_report(reader.error().message);
    reports.push_back(std::make_unique<TraceReport>(std::move(made.layers)));
    TraceReport& report = *reports.back();
    report.begin(reader->properties());
    if (const auto error = reader->read_all(report)) {
      progress.clear();
      return fail_report(error->message);
    }
    report.finish();
    ReportedTrace& trace = traces.emplace_back();
    trace.file = file;
    trace.report = &report;
    trace.ending = reader->ending();
    trace.what_if = std::move(made.what_if);
    trace.no_what_if = std::move(made.no_what_if);
    trace.no_layers = std::move(made.no_layers);
    trace.other_files = other_trace_files(file, options.files);
  }
  progress.clear();
  write_report_page(*page, title_of(options.files), report_json(traces));
  if (const auto failed = page->finish()) return fail_report(*failed);
  for (const ReportedTrace& trace : traces) say_what_is_missing(trace);
  if (options.output != "-") std::cout << "wrote " << options.output << '\n';
  return kSuccess;
}

}  // namespace superpipe::cli
