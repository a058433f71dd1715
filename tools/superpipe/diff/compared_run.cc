#include "tools/superpipe/diff/compared_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "profiler/trace_chunk.h"
#include "profiler/trace_event.h"
#include "tools/superpipe/diff/pass_report.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_layers.h"
#include "tools/superpipe/planner/traced_program.h"
#include "tools/superpipe/planner/traced_workload.h"

namespace superpipe::cli {
namespace {

using nlohmann::json;

// Orders are known after two passes.
constexpr std::size_t kLearningPasses = 2;
constexpr double kMsOfNs = 1e-6;
// Traces of earlier minor versions do not tell where the program waited.
constexpr std::uint16_t kFirstWithWaits = 3;

// What a wait counts as.
struct WaitQuantity {
  Quantity quantity;
  std::uint64_t what;  ///< TraceWait::what
};
constexpr std::array<WaitQuantity, 3> kWaitQuantities = {
    {{Quantity::kLaunchWait, TraceWait::kLaunch},
     {Quantity::kDeviceWait, TraceWait::kDevice},
     {Quantity::kCopyWait, TraceWait::kCopy}}};

double as_double(std::uint64_t count) { return static_cast<double>(count); }

// 0 where `end` is before `begin`; times in nanoseconds, whatever a trace says.
double milliseconds_between(std::int64_t begin, std::int64_t end) {
  return std::max(static_cast<double>(end) - static_cast<double>(begin), 0.0) * kMsOfNs;
}

// What is known of a trace before its figures are added up.
struct TracedPassTimes {
  TracedLayers layers;
  std::vector<std::int64_t> begins;  ///< of passes, and the end of the last
  std::vector<double> launches;      ///< of each pass
  double launches_behind = 0;        ///< the last of them
  std::int64_t last_launch = 0;      ///< when it was submitted
  std::int64_t end = 0;
  std::string no_passes;
};

TracedPassTimes pass_times_of(TraceReader& reader) {
  TracedPassTimes times;
  const auto read = TracedProgram::read(reader);
  if (const auto* const problem = std::get_if<std::string>(&read)) {
    // A trace without launches is a trace; where reading failed, the second reading says so.
    times.no_passes = *problem;
    return times;
  }
  const auto& program = std::get<TracedProgram>(read);
  const TracedPasses passes = find_passes(program, Planner::kMostLaunches);
  times.layers = find_layers(program, passes);
  times.end = program.end_time();
  times.last_launch = program.time_of_launch(program.launches() - 1);
  if (passes.size() == 0) {
    times.no_passes = "no pass was found that repeats itself";
    return times;
  }
  for (std::size_t i = 0; i < passes.begins.size(); ++i) {
    const std::size_t launch = passes.begins[i];
    times.begins.push_back(launch < program.launches() ? program.time_of_launch(launch)
                                                       : program.end_time());
    if (i > 0) times.launches.push_back(as_double(launch - passes.begins[i - 1]));
  }
  times.launches_behind = as_double(program.launches() - passes.begins.back());
  return times;
}

// The time of a pass by when the program submitted passes.
Measured submitted_pass_time(const TracedPassTimes& times, std::size_t first) {
  std::vector<double> lengths;
  for (std::size_t i = first; i + 1 < times.begins.size(); ++i) {
    lengths.push_back(milliseconds_between(times.begins[i], times.begins[i + 1]));
  }
  return median_of(std::move(lengths));
}

// Up to `end`, in nanoseconds. The launches behind the last pass that was found are a part of one.
double mean_pass_ms(const TracedPassTimes& times, double end) {
  const auto passes = static_cast<double>(times.begins.size() - 1);
  double launches = 0;
  for (const double some : times.launches) launches += some;
  const double all = passes * (1 + times.launches_behind / std::max(launches, 1.0));
  return std::max(end - static_cast<double>(times.begins.front()), 0.0) * kMsOfNs / all;
}

// The passes from `first` on, whose times by submission have the median `median_ms`. A program that
// works on after its last launch, or waits for something else, makes its trace longer: only the
// kernels tell how long the device was busy. Where the last ones have no times, others may tell
// that it was busy for long after the last launch, and only the trace's end for how long.
ComparedPasses compared_passes(const TracedPassTimes& times, std::size_t first, double median_ms,
                               const PassReport& report) {
  ComparedPasses passes;
  passes.first = first;
  passes.found = times.launches.size();
  passes.count = passes.found - first;
  passes.launches =
      median_of({times.launches.begin() + static_cast<std::ptrdiff_t>(first), times.launches.end()})
          .value;
  passes.tail_ms = milliseconds_between(times.last_launch, times.end);
  const std::optional<double> device_end = report.device_end();
  passes.ends_with_kernel = device_end.has_value();
  passes.mean_ms = mean_pass_ms(times, device_end.value_or(static_cast<double>(times.end)));
  const double most_ms = ComparedRun::kMostPassesAhead * median_ms;
  const double busy_ms = (report.busy_until() - static_cast<double>(times.last_launch)) * kMsOfNs;
  passes.is_ahead = busy_ms > most_ms;
  passes.may_be_ahead = !device_end && !passes.is_ahead && passes.tail_ms > most_ms;
  return passes;
}

// Sets the figures of passes, as medians.
void set_figures_of_passes(const PassReport& report, std::size_t first, bool tells_waits,
                           Figures& figures) {
  const auto set = [&](Quantity quantity, auto value_of) {
    std::vector<double> values;
    for (std::size_t i = first; i < report.passes().size(); ++i) {
      values.push_back(value_of(report.passes()[i]));
    }
    figures.set(quantity, median_of(std::move(values)));
  };
  using Sums = PassReport::Sums;
  set(Quantity::kStallTime, [](const Sums& sums) { return as_double(sums.stall_ns) * kMsOfNs; });
  set(Quantity::kToDevice, [](const Sums& sums) { return as_double(sums.to_device); });
  set(Quantity::kToHost, [](const Sums& sums) { return as_double(sums.to_host); });
  set(Quantity::kFetches, [](const Sums& sums) { return as_double(sums.fetches); });
  set(Quantity::kDemandFetches, [](const Sums& sums) { return as_double(sums.demand_fetches); });
  set(Quantity::kEvictions, [](const Sums& sums) { return as_double(sums.evictions); });
  set(Quantity::kWriteBacks, [](const Sums& sums) { return as_double(sums.write_backs); });
  set(Quantity::kCopiedIn, [](const Sums& sums) { return as_double(sums.copied_in); });
  set(Quantity::kCopiedOut, [](const Sums& sums) { return as_double(sums.copied_out); });
  set(Quantity::kLaunches, [](const Sums& sums) { return as_double(sums.launches); });
  set(Quantity::kAllocations, [](const Sums& sums) { return as_double(sums.allocations); });
  if (!tells_waits) return;
  for (const WaitQuantity& wait : kWaitQuantities) {
    set(wait.quantity,
        [&](const Sums& sums) { return as_double(sums.wait_ns[wait.what]) * kMsOfNs; });
  }
}

void set_figures_of_run(const PassReport& report, const TraceEnding& ending, bool tells_waits,
                        Figures& figures) {
  const PassReport::Sums& sums = report.whole();
  figures.set(Quantity::kStallTime, as_double(sums.stall_ns) * kMsOfNs);
  figures.set(Quantity::kToDevice, as_double(sums.to_device));
  figures.set(Quantity::kToHost, as_double(sums.to_host));
  figures.set(Quantity::kFetches, as_double(sums.fetches));
  figures.set(Quantity::kDemandFetches, as_double(sums.demand_fetches));
  figures.set(Quantity::kEvictions, as_double(sums.evictions));
  figures.set(Quantity::kWriteBacks, as_double(sums.write_backs));
  figures.set(Quantity::kCopiedIn, as_double(sums.copied_in));
  figures.set(Quantity::kCopiedOut, as_double(sums.copied_out));
  figures.set(Quantity::kLaunches, as_double(sums.launches));
  figures.set(Quantity::kAllocations, as_double(sums.allocations));
  const auto set_link = [&](Quantity quantity, const LinkUse& link) {
    if (link.busy() == 0) return;  // bytes in a nanosecond are gigabytes in a second
    figures.set(quantity, as_double(link.bytes().count()) / as_double(link.busy()));
  };
  set_link(Quantity::kLinkToDevice, report.to_device());
  set_link(Quantity::kLinkToHost, report.to_host());
  figures.set(Quantity::kPeakDevice, as_double(report.device().peak()));
  figures.set(Quantity::kPinnedHost, as_double(report.pinned_host().peak()));
  figures.set(Quantity::kManaged, as_double(report.live().peak()));
  figures.set(Quantity::kPassthrough, as_double(report.passthrough().peak()));
  figures.set(Quantity::kBudget, as_double(report.budget().value()));
  figures.set(Quantity::kDroppedEvents, as_double(ending.dropped));
  if (!tells_waits) return;
  for (const WaitQuantity& wait : kWaitQuantities) {
    figures.set(wait.quantity, as_double(sums.wait_ns[wait.what]) * kMsOfNs);
  }
}

// Kernels by name: indices are the trace's own, and a name may have several.
std::vector<ComparedKernel> kernels_of(const PassReport& report, double passes) {
  struct Sums {
    PassReport::KernelUse use;
    double stall_ns = 0;
    double late_bytes = 0;
  };
  std::map<std::string, Sums> by_name;
  for (const auto& [index, kernel] : report.kernels()) {
    const PassReport::KernelUse use = report.use_of(index);
    if (use.launches == 0 && kernel.stall_ns == 0) continue;
    Sums& sums = by_name[report.kernel_name(index)];
    sums.use.launches += use.launches;
    sums.use.timed_launches += use.timed_launches;
    sums.use.device_ns += use.device_ns;
    sums.stall_ns += as_double(kernel.stall_ns);
    sums.late_bytes += kernel.late_bytes;
  }
  std::vector<ComparedKernel> kernels;
  for (const auto& [name, sums] : by_name) {
    ComparedKernel& kernel = kernels.emplace_back();
    kernel.name = name;
    kernel.launches = as_double(sums.use.launches) / passes;
    kernel.stall_ms = sums.stall_ns * kMsOfNs / passes;
    kernel.late_bytes = sums.late_bytes / passes;
    if (sums.use.timed_launches == 0) continue;
    kernel.device_us = as_double(sums.use.device_ns) * 1e-3 / as_double(sums.use.timed_launches);
  }
  return kernels;
}

std::vector<ComparedGroup> groups_of(const PassReport& report, double passes) {
  std::vector<ComparedGroup> groups;
  for (std::size_t i = 0; i < report.groups().size(); ++i) {
    const TraceReport::Group& group = report.groups()[i];
    const PassReport::Moved moved = report.moved(i);
    ComparedGroup& compared = groups.emplace_back();
    compared.name = group.name;
    compared.is_layer = group.layer != kNoLayer;
    compared.bytes = as_double(group.most_bytes);
    compared.stall_ms = group.stall_ns * kMsOfNs / passes;
    compared.fetched_bytes = as_double(moved.fetched) / passes;
    compared.written_back_bytes = as_double(moved.written_back) / passes;
    compared.content = group.name;
    if (!compared.is_layer || group.name.rfind("layer", 0) != 0) continue;
    // A layer's number says little once another one was added before it.
    std::map<std::uint64_t, std::uint64_t> buffers_of_size;
    for (const auto& [key, kind] : group.kinds) buffers_of_size[key.second] += kind.buffers;
    compared.content.clear();
    for (const auto& [size, buffers] : buffers_of_size) {
      compared.content += std::to_string(buffers) + "x" + std::to_string(size) + " ";
    }
  }
  return groups;
}

// The first `most` bytes of the file at `path`, or all if it has less.
TraceResult<std::string> beginning_of(const std::string& path, std::size_t most) {
  const auto problem = [&path](const std::string& what) {
    return TraceError{TraceError::Kind::kFile, "cannot read " + path + ": " + what};
  };
  // What is no file, such as a pipe that nobody writes to, must not hold the reader up.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return problem(std::strerror(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closed(
      &file, [](const int* opened) { ::close(*opened); });
  struct stat status {};
  if (::fstat(file, &status) != 0) return problem(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return problem("it is no regular file");
  std::string text(std::min(most, static_cast<std::size_t>(status.st_size)), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = ::read(file, text.data() + read, text.size() - read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return problem(std::strerror(errno));
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  text.resize(read);
  return text;
}

bool begins_as_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

std::string text_in(const json& object, const char* key) {
  const auto place = object.find(key);
  return place != object.end() && place->is_string() ? place->get<std::string>() : std::string();
}

}  // namespace

std::variant<ComparedRun, FileProblem> run_of_statistics(std::string_view text,
                                                         const std::string& name) {
  // Deeper is none of superpipe's, and not kept.
  constexpr int kMostDepth = 3;
  const json object = json::parse(
      text, [](int depth, json::parse_event_t, json&) { return depth <= kMostDepth; }, false);
  if (object.is_discarded()) {
    return name + " is cut off or damaged: it begins as JSON and does not end so; write it again";
  }
  const auto is_number = [&](const char* key) {
    const auto place = object.find(key);
    return place != object.end() && place->is_number();
  };
  if (!object.is_object() || text_in(object, "version").empty() || !is_number("launches")) {
    return name +
           " is JSON, but no statistics of a run; superpipe run --stats FILE writes those, and "
           "superpipe profile traces";
  }
  ComparedRun run;
  run.file = name;
  run.version = text_in(object, "version");
  run.policy = text_in(object, "policy");
  for (const QuantityKind& kind : all_quantities()) {
    const std::string key(kind.name);
    if (!is_number(key.c_str())) continue;
    double value = object.at(key).get<double>();
    if (value == 0) value = 0;  // and not -0, which looks as if it were below
    if (!std::isfinite(value) || value < 0) {
      std::string problem = name + " is damaged: its ";
      problem.append(key).append(" is ").append(object.at(key).dump());
      return problem + ", which cannot be; write it again";
    }
    if (kind.id == Quantity::kPassTime) {
      // 0 stands for a run without passes.
      if (value > 0) run.of_pass.set(kind.id, value);
    } else {
      run.of_run.set(kind.id, value);
    }
  }
  run.no_passes = "statistics tell of all passes together";
  return run;
}

std::variant<ComparedRun, FileProblem> run_of_trace(
    const std::function<TraceResult<TraceReader>()>& open, const std::string& name) {
  TracedPassTimes times;
  {
    auto reader = open();
    if (!reader.ok()) return reader.error().message;
    times = pass_times_of(*reader);
  }
  const std::size_t found = times.launches.size();
  const std::size_t first = found > kLearningPasses ? kLearningPasses : 0;
  auto reader = open();
  if (!reader.ok()) return reader.error().message;
  PassReport report(std::move(times.layers), times.begins, first);
  report.begin(reader->properties());
  if (const auto error = reader->read_all(report)) return error->message;
  report.finish();

  ComparedRun run;
  run.file = name;
  run.is_trace = true;
  run.is_complete = reader->ending().is_complete;
  run.events = as_double(reader->ending().events);
  const TraceProperties& properties = report.properties();
  run.version = as_utf8(properties.text("superpipe.version").value_or(""));
  run.device = as_utf8(properties.text("device.name").value_or(""));
  run.policy = as_utf8(properties.text("policy.name").value_or(""));
  for (const std::string& word : properties.texts("process.argument")) {
    run.command.append(run.command.empty() ? "" : " ").append(as_utf8(word));
  }
  run.no_passes = times.no_passes;
  const bool tells_waits = reader->version().minor >= kFirstWithWaits;
  set_figures_of_run(report, reader->ending(), tells_waits, run.of_run);
  double passes = 1;
  if (found > 0) {
    set_figures_of_passes(report, first, tells_waits, run.of_pass);
    const Measured time = submitted_pass_time(times, first);
    run.of_pass.set(Quantity::kPassTime, time);
    run.passes = compared_passes(times, first, time.value, report);
    passes = as_double(found - first);
  }
  run.kernels = kernels_of(report, passes);
  run.groups = groups_of(report, passes);
  run.unexplained_stall_ms = report.unexplained_stall_ns() * kMsOfNs / passes;
  return run;
}

std::variant<ComparedRun, FileProblem> read_compared_run(const std::string& path) {
  constexpr std::size_t kBeginning = 4096;
  const auto beginning = beginning_of(path, kBeginning);
  if (!beginning.ok()) return beginning.error().message;
  if (begins_as_json(*beginning)) {
    const auto text = beginning_of(path, ComparedRun::kMostStatisticsBytes + 1);
    if (!text.ok()) return text.error().message;
    if (text->size() > ComparedRun::kMostStatisticsBytes) {
      return path + " is too large for statistics of a run";
    }
    return run_of_statistics(*text, path);
  }
  std::array<std::byte, kTraceHeaderSize> header{};
  std::copy_n(std::as_bytes(std::span(*beginning)).begin(),
              std::min(header.size(), beginning->size()), header.begin());
  if (!beginning->empty() && read_trace_header(header).problem == TraceHeaderProblem::kForeign) {
    return path + " is neither a trace of superpipe nor statistics of a run (--stats)";
  }
  return run_of_trace([&path] { return TraceReader::open(path); }, path);
}

}  // namespace superpipe::cli
