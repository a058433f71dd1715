#include "tools/superpipe/export_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policy/budget.h"
#include "profiler/trace_reader.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/export_csv.h"
#include "tools/superpipe/export_perfetto.h"
#include "tools/superpipe/export_sink.h"
#include "tools/superpipe/export_snapshot.h"
#include "tools/superpipe/export_stacks.h"
#include "tools/superpipe/export_tracks.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/planner/traced_program.h"
#include "tools/superpipe/planner/traced_workload.h"
#include "tools/superpipe/progress_line.h"
#include "tools/superpipe/trace_exporter.h"
#include "tools/superpipe/trace_files.h"

namespace superpipe::cli {
namespace {

// A format at work: the exporter, and what it writes through.
struct Export {
  std::unique_ptr<TrackSink> tracks;
  std::unique_ptr<TraceExporter> exporter;
};

// What a format is made with.
struct Wanted {
  StackWeight weight = StackWeight::kAllocated;
  TracedLayers layers;
};

struct ExportFormat {
  std::string_view name;
  std::string_view extension;  ///< of a file that is named after the trace
  bool is_binary;
  bool has_layers;  ///< of passes, for which the trace is read once more
  Export (*make)(ExportSink& out, const Wanted& wanted);
};

template <typename Writer>
Export export_tracks(ExportSink& out, const Wanted& wanted) {
  Export made;
  made.tracks = std::make_unique<Writer>(out);
  made.exporter = std::make_unique<TrackExporter>(*made.tracks, wanted.layers);
  return made;
}

template <typename Writer>
Export export_events(ExportSink& out, const Wanted& /*wanted*/) {
  return {nullptr, std::make_unique<Writer>(out)};
}

Export export_csv(ExportSink& out, const Wanted& wanted) {
  return {nullptr, std::make_unique<CsvWriter>(out, wanted.layers)};
}

Export export_collapsed(ExportSink& out, const Wanted& wanted) {
  return {nullptr, std::make_unique<CollapsedWriter>(out, wanted.weight)};
}

constexpr std::array<ExportFormat, 5> kExportFormats = {
    ExportFormat{"perfetto", ".perfetto-trace", true, true, export_tracks<PerfettoWriter>},
    ExportFormat{"torch-snapshot", ".pickle", true, false, export_events<TorchSnapshotWriter>},
    ExportFormat{"csv", ".csv", false, true, export_csv},
    ExportFormat{"collapsed", ".folded", false, false, export_collapsed},
    ExportFormat{"speedscope", ".speedscope.json", false, false, export_events<SpeedscopeWriter>},
};

const ExportFormat* export_format_named(std::string_view name) {
  const auto* const place =
      std::find_if(kExportFormats.begin(), kExportFormats.end(),
                   [&](const ExportFormat& format) { return format.name == name; });
  return place == kExportFormats.end() ? nullptr : place;
}

void say_export(const std::string& line) { std::cerr << "superpipe export: " << line << '\n'; }

int fail_export(int code, const std::string& line) {
  say_export(line);
  return code;
}

// run.sptrace becomes run.csv, run.sptrace.4711 becomes run.sptrace.4711.csv.
std::string output_named_after(const std::string& trace, std::string_view extension) {
  constexpr std::string_view kExtension = ".sptrace";
  std::string stem = trace;
  if (stem.size() > kExtension.size() &&
      stem.compare(stem.size() - kExtension.size(), kExtension.size(), kExtension) == 0) {
    stem.resize(stem.size() - kExtension.size());
  }
  return stem.append(extension);
}

// " of 12 MiB"; empty where that is not known.
std::string size_of_trace(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return " of " + format_bytes(Bytes{static_cast<std::uint64_t>(status.st_size)});
}

// The layers of the program in a trace; none where it has no passes. What is wrong with the file is
// said when it is read for its events.
TracedLayers layers_of(const std::string& file, ProgressLine& progress) {
  auto reader = TraceReader::open(file);
  if (!reader.ok()) return {};
  progress.begin("looking for layers in " + file);
  const auto read = TracedProgram::read(*reader);
  const auto* const program = std::get_if<TracedProgram>(&read);
  if (program == nullptr) return {};
  return find_layers(*program, find_passes(*program, Planner::kMostLaunches));
}

// What whoever looks at the result has to know.
void say_what_is_missing(const std::string& file, const TraceEnding& ending) {
  if (!ending.is_complete) {
    say_export("note: " + file +
               " ends early, because its process died or the disk was full; the " +
               std::to_string(ending.events) + " events up to there are exported");
  }
  if (ending.dropped > 0) {
    say_export("note: " + std::to_string(ending.dropped) +
               " events were not recorded, because the disk was slow; what follows from them is "
               "missing");
  }
  const std::string others = other_trace_files(file, {});
  if (others.empty()) return;
  say_export("note: the run has other files too, each to be exported by itself: " + others);
}

}  // namespace

std::string export_formats() {
  std::string names;
  for (const ExportFormat& format : kExportFormats) {
    names.append(names.empty() ? "" : ", ").append(format.name);
  }
  return names;
}

std::optional<std::string> problem_with(const ExportOptions& options) {
  if (options.file.empty()) return "no trace; it takes a file that superpipe profile wrote";
  if (options.format.empty()) return "no format; --format takes " + export_formats();
  if (export_format_named(options.format) == nullptr) {
    return "--format " + options.format + ": it takes " + export_formats();
  }
  if (options.stacks.empty()) return std::nullopt;
  if (options.format != "collapsed") {
    return "--stacks has no meaning with --format " + options.format + ", only with collapsed";
  }
  if (stack_weight_named(options.stacks)) return std::nullopt;
  std::string names;
  for (const StackWeight weight : kStackWeights) {
    names.append(names.empty() ? "" : ", ").append(name_of(weight));
  }
  return "--stacks " + options.stacks + ": it takes " + names;
}

int export_command(const ExportOptions& options) {
  const ExportFormat& format = *export_format_named(options.format);
  auto reader = TraceReader::open(options.file);
  if (!reader.ok()) return fail_export(kBadUsage, reader.error().message);
  const std::string output =
      options.output.empty() ? output_named_after(options.file, format.extension) : options.output;
  if (output == "-" && format.is_binary && ::isatty(STDOUT_FILENO) == 1) {
    return fail_export(kBadUsage, options.format +
                                      " is binary and standard output a terminal; name a file "
                                      "with -o FILE");
  }
  if (is_same_file(options.file, output)) {
    return fail_export(kBadUsage, "-o " + output + " is the trace itself; name another file");
  }
  std::string problem;
  const auto file = ExportFile::open(output, problem);
  if (file == nullptr) return fail_export(kBadUsage, problem);

  ProgressLine progress("export", output != "-" || ::isatty(STDOUT_FILENO) != 1);
  Wanted wanted;
  wanted.weight = stack_weight_named(options.stacks).value_or(StackWeight::kAllocated);
  if (format.has_layers) wanted.layers = layers_of(options.file, progress);
  const Export made = format.make(*file, wanted);
  made.exporter->begin(reader->properties());
  for (;;) {
    progress.say("read " + format_bytes(Bytes{reader->offset()}) + size_of_trace(options.file));
    const TraceResult<bool> more = reader->read_chunk(*made.exporter);
    if (!more.ok() || !*more || file->problem()) progress.clear();
    if (!more.ok()) return fail_export(kBadUsage, more.error().message);
    if (!*more) break;
    if (file->problem()) return fail_export(kBadUsage, *file->problem());
  }
  progress.begin("writing " + output);
  made.exporter->finish();
  progress.clear();
  if (options.format == "csv" && wanted.layers.layers == 0) {
    say_export("note: the column layer is empty, because no pass was found that repeats");
  }
  if (const auto failed = file->finish()) return fail_export(kBadUsage, *failed);
  const std::string why_empty = made.exporter->why_empty();
  if (!why_empty.empty())
    say_export("note: " + (output == "-" ? "standard output" : output) + " is empty: " + why_empty);
  say_what_is_missing(options.file, reader->ending());
  if (output != "-") std::cout << "wrote " << output << '\n';
  return kSuccess;
}

}  // namespace superpipe::cli
