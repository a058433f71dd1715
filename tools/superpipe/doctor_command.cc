#include "tools/superpipe/doctor_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "policy/budget.h"
#include "settings/settings.h"
#include "tools/superpipe/doctor_report.h"
#include "tools/superpipe/driver_link.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_preparation.h"

namespace superpipe::cli {
namespace {

constexpr std::chrono::seconds kDriverLimit{30};
constexpr double kDefaultProbeSeconds = 60;

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  if (!list.empty() && list.back() == ',') words.emplace_back();
  return words;
}

std::optional<double> seconds_in(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  constexpr double kDay = 86400;
  if (!std::isfinite(seconds) || seconds < 0.001 || seconds > kDay) return std::nullopt;
  return seconds;
}

std::string ids_of_probes() {
  std::string ids;
  for (const Probe& probe : all_probes()) ids += (ids.empty() ? "" : ", ") + std::string(probe.id);
  return ids;
}

std::chrono::milliseconds limit_of(const DoctorOptions& options) {
  const double seconds = options.probe_timeout.empty()
                             ? kDefaultProbeSeconds
                             : seconds_in(options.probe_timeout).value_or(kDefaultProbeSeconds);
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

bool is_wanted(const DoctorOptions& options, const Probe& probe) {
  if (options.probes.empty()) return true;
  for (const std::string& id : split(options.probes)) {
    if (probe_called(id) == &probe) return true;
  }
  return false;
}

// The file that --output names. What was there stays until the new one is complete.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {
    struct stat status {};
    const bool exists = stat(path_.c_str(), &status) == 0;
    // A terminal or a pipe is written to, not replaced.
    written_ = exists && !S_ISREG(status.st_mode) ? path_ : path_ + ".partial";
    if (exists && S_ISREG(status.st_mode) && access(path_.c_str(), W_OK) != 0) {
      problem_ = std::strerror(errno);
      return;
    }
    if (exists && S_ISDIR(status.st_mode)) {
      problem_ = "it is a folder";
      return;
    }
    errno = 0;
    out_.open(written_);
    if (!out_) problem_ = errno != 0 ? std::strerror(errno) : "it cannot be opened";
  }
  ~OutputFile() {
    if (!done_ && written_ != path_ && problem_.empty()) std::remove(written_.c_str());
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Why it cannot be written; empty if it can.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  void write(const Report& report) {
    write_json(report, out_);
    out_.close();
    errno = 0;
    if (!out_) {
      problem_ = errno != 0 ? std::strerror(errno) : "writing failed: is the disk full?";
    } else if (written_ != path_ && std::rename(written_.c_str(), path_.c_str()) != 0) {
      problem_ = std::strerror(errno);
    } else {
      done_ = true;
    }
  }

 private:
  std::string path_, written_, problem_;
  std::ofstream out_;
  bool done_ = false;
};

int cannot_write(const DoctorOptions& options, const std::string& why) {
  std::cerr << "superpipe doctor: --output " << options.output << ": " << why
            << "; name a file in a folder that you may write to\n";
  return kBadUsage;
}

void list_probes() {
  for (const Probe& probe : all_probes()) {
    std::cout << std::left << std::setw(5) << probe.id << std::setw(16) << probe.name
              << probe.question << '\n';
  }
}

void look_at_driver(const DoctorOptions& options, Report& report) {
  std::string library = kDriverLibrary;
  report.driver_source = "the loader's search path";
  const std::optional<std::string> named = named_driver();
  if (options.simulate) {
    library = report.parts.simgpu_driver;
    report.driver_source = setting(SettingId::kSimulate).flag;
  } else if (named) {
    library = *named;
    report.driver_source = variable_of(SettingId::kDriver);
  }
  report.driver = probe_driver(library, ProbeDepth::kDevices, kDriverLimit);
  report.simulated = options.simulate || report.driver.is_simulated();
  if (!report.simulated) report.kernel_module = kernel_module_version();
}

// simgpu gets the kernels of the questions, and the library's, which one of them asks about; what
// the user gave stays behind them.
void give_kernels_to_simgpu(const Installation& parts) {
  if (!is_readable_file(parts.doctor_kernels)) return;
  const char* const old = std::getenv("SIMGPU_KERNELS");
  std::string list = parts.doctor_kernels;
  if (is_readable_file(parts.library_kernels)) list += ":" + parts.library_kernels;
  if (old != nullptr && *old != '\0') list += std::string(":") + old;
  setenv("SIMGPU_KERNELS", list.c_str(), 1);
}

void tell_progress(const Probe& probe, double seconds, const std::string& step) {
  std::cerr << "superpipe doctor: " << probe.name << ", " << std::fixed << std::setprecision(0)
            << seconds << " s: " << step << std::endl;
}

// Asks one question. Pages of a NUMA node are known to crash drivers that are good for those of any
// node: if they ended a question about host pages, it is asked again without them.
ProbeResult ask_one(const Probe& probe, const ProbeSetting& setting, const DoctorOptions& options) {
  const auto limit = limit_of(options);
  ProbeResult result = run_probe(probe, setting, limit, tell_progress);
  const bool ended = result.outcome == ProbeResult::Outcome::kCrashed ||
                     result.outcome == ProbeResult::Outcome::kTimedOut;
  if (!ended || result.figures.value("location", "") != "HOST_NUMA" ||
      !result.figures.value("supported_host", false)) {
    return result;
  }
  ProbeSetting others = setting;
  others.without_host_numa = true;
  ProbeResult second = run_probe(probe, others, limit, tell_progress);
  second.seconds += result.seconds;
  second.figures["host_numa_ended"] = result.reason;
  return second;
}

void ask(const DoctorOptions& options, Report& report) {
  ProbeSetting setting;
  setting.driver_path = report.driver.path;
  setting.simulated = report.simulated;
  setting.quick = options.quick;
  setting.driver_version = report.driver.version;
  setting.cuda_runtime = options.cudart;
  const SettingValues values =
      values_of({}, [](const char* variable) { return std::getenv(variable); });
  const std::string shared = values.text(SettingId::kSharedFolder);
  const std::optional<Installation> named = parts_to_be_named(report.parts, shared);
  setting.parts = named.value_or(report.parts);
  if (const auto usable = report.host.memory.usable()) setting.host_bytes = usable->count();
  if (!options.host_mem.empty()) {
    const Bytes whole{setting.host_bytes.value_or(0)};
    if (const auto size = parse_size(options.host_mem, whole)) setting.host_bytes = size->count();
  }
  const bool usable = report.driver.outcome == DriverProbe::Outcome::kUsable &&
                      !report.driver.devices.empty() &&
                      report.driver.devices.front().virtual_memory;
  std::string obstacle;
  if (!usable) {
    obstacle = "there is no usable device";
  } else if (!named) {
    obstacle = reason_against_place(report.parts.prefix, shared);
  } else if (report.simulated) {
    give_kernels_to_simgpu(setting.parts);
    if (!is_readable_file(report.parts.doctor_kernels)) {
      obstacle = "simgpu lacks the questions' kernels: " + report.parts.doctor_kernels;
    }
  }
  for (const Probe& probe : all_probes()) {
    if (!is_wanted(options, probe)) continue;
    if (obstacle.empty()) {
      report.probes.push_back(ask_one(probe, setting, options));
    } else {
      ProbeResult skipped;
      skipped.probe = &probe;
      skipped.reason = obstacle;
      report.probes.push_back(skipped);
    }
  }
}

}  // namespace

std::optional<std::string> problem_with(const DoctorOptions& options) {
  if (options.no_probes && !options.probes.empty()) {
    return "--probe and --no-probes: give one of them";
  }
  for (const std::string& id : split(options.probes)) {
    if (probe_called(id) == nullptr) {
      return "there is no question '" + id + "'; --probe takes some of " + ids_of_probes() +
             ", or their names, separated by commas (superpipe doctor --list says what they ask)";
    }
  }
  if (!options.probe_timeout.empty() && !seconds_in(options.probe_timeout)) {
    return "--probe-timeout " + options.probe_timeout +
           ": it takes seconds, such as 60 (0.001 to 86400)";
  }
  if (!options.host_mem.empty() && !parse_size(options.host_mem)) {
    return "--host-mem " + options.host_mem +
           ": it takes a size: bytes, or K, M, G, T as powers of 1024, or a percentage";
  }
  if (!options.cudart.empty() && options.cudart.find('/') != std::string::npos &&
      !is_readable_file(options.cudart)) {
    return "--cudart " + options.cudart + ": there is no such file";
  }
  return std::nullopt;
}

int doctor_command(const DoctorOptions& options) {
  if (options.list) {
    list_probes();
    return kSuccess;
  }
  if (options.simulate) {
    if (const std::string reason = reason_against_simulating_here(); !reason.empty()) {
      std::cerr << "superpipe doctor: " << reason << '\n';
      return kCannotRun;
    }
  }
  std::optional<OutputFile> file;
  if (!options.output.empty()) {
    file.emplace(options.output);  // before minutes are spent on what cannot be kept
    if (!file->problem().empty()) return cannot_write(options, file->problem());
  }
  Report report;
  report.quick = options.quick;
  report.parts = this_installation();
  report.library_present = is_readable_file(report.parts.preload_library);
  look_at_driver(options, report);
  report.host = describe_host();
  if (!options.no_probes) ask(options, report);
  judge(report);
  if (options.json) {
    write_json(report, std::cout);
  } else {
    write_text(report, std::cout);
  }
  std::cout.flush();
  if (file) {
    file->write(report);
    if (!file->problem().empty()) return cannot_write(options, file->problem());
  }
  return report.ready() ? kSuccess : kProblemFound;
}

}  // namespace superpipe::cli
