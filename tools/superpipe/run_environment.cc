#include "tools/superpipe/run_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "policy/policy_engine.h"
#include "profiler/process_name.h"
#include "profiler/run_file.h"
#include "profiler/trace_file.h"

namespace superpipe::cli {
namespace {

// `list` put before what `variable` holds, without the entries that `list` has already: a run
// inside a run must not load the library twice.
std::string prepended(const std::vector<std::string>& list, const char* variable,
                      std::string_view separators) {
  std::string joined;
  const auto add = [&joined](std::string_view entry) {
    if (!joined.empty()) joined += ':';
    joined += entry;
  };
  for (const std::string& entry : list) add(entry);
  const char* const old = std::getenv(variable);
  std::string_view rest = old != nullptr ? old : "";
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(separators);
    const std::string_view entry = rest.substr(0, end);
    bool known = entry.empty();
    for (const std::string& ours : list) known = known || entry == ours;
    if (!known) add(entry);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return joined;
}

// The value of XLA_FLAGS that has XLA take the first way to compute, and not the fastest of those
// that it has tried. Times on simgpu say nothing of a GPU's. And which trial is the fastest changes
// from run to run, while what simgpu's kernels write follows from their names: two runs would not
// compare. nullopt: the user chose, or names a file of flags.
std::optional<std::string> without_autotuning() {
  constexpr std::string_view kFlag = "--xla_gpu_autotune_level";
  const char* const old = std::getenv("XLA_FLAGS");
  const std::string_view set = old != nullptr ? old : "";
  const std::size_t begin = set.find_first_not_of(" \t\n");
  const bool is_file = begin != std::string_view::npos && set[begin] != '-';
  if (is_file || set.find(kFlag) != std::string_view::npos) return std::nullopt;
  return std::string(set) + (set.empty() ? "" : " ") + std::string(kFlag) + "=0";
}

/// Where the kernels of `program` for simgpu lie: beside it, or beside superpipe's own program of
/// that name, which a script of a Python environment's bin executes. Not where its path has a
/// colon, which simgpu's list of them cannot hold. Empty: it has none.
std::string kernels_of(const std::string& program, const Installation& parts) {
  if (program.empty()) return {};
  std::string kernels = program + ".simgpu.so";
  if (kernels.find(':') == std::string::npos && is_readable_file(kernels)) return kernels;
  const std::filesystem::path name = std::filesystem::path(kernels).filename();
  kernels = (std::filesystem::path(parts.doctor_kernels).parent_path() / name).string();
  const bool is_ours = name.string().starts_with("superpipe-") && is_readable_file(kernels);
  return is_ours ? kernels : std::string();
}

}  // namespace

std::optional<std::string> named_driver() {
  const char* const name = std::getenv(variable_of(SettingId::kDriver));
  if (name == nullptr || *name == '\0') return std::nullopt;
  return name;
}

bool switched_off() {
  const char* const off = std::getenv(variable_of(SettingId::kOff));
  return off != nullptr && std::string_view(off) == "1";
}

std::vector<EnvironmentChange> environment_changes(const RunOptions& options,
                                                   const Installation& parts,
                                                   const std::string& program) {
  const Environment environment = [](const char* name) { return std::getenv(name); };
  const SettingValues values = values_of(options, environment);
  std::vector<EnvironmentChange> changes;
  std::vector<std::string> preload;
  if (!switched_off()) preload.push_back(parts.preload_library);

  std::vector<std::string> folders;
  if (!switched_off() && !parts.driver_link_folder.empty()) {
    folders.push_back(parts.driver_link_folder);
  }
  if (options.simulates()) folders.push_back(parts.simgpu_folder);
  if (!folders.empty()) {
    changes.push_back({"LD_LIBRARY_PATH", prepended(folders, "LD_LIBRARY_PATH", ":;")});
  }
  if (options.simulates()) {
    changes.push_back({variable_of(SettingId::kDriver), parts.simgpu_driver});
    preload.push_back(parts.simgpu_devices);
    changes.push_back({"LD_AUDIT", prepended({parts.simgpu_loader}, "LD_AUDIT", ":")});
    for (const Setting& setting : all_settings()) {
      if (*setting.simulated_value == '\0' || values.given(setting.id) != nullptr) continue;
      changes.push_back({setting.variable, setting.simulated_value});
    }
    if (auto flags = without_autotuning()) changes.push_back({"XLA_FLAGS", std::move(flags)});
    const std::string kernels = kernels_of(program, parts);
    if (std::getenv("SIMGPU_KERNELS") == nullptr && !kernels.empty()) {
      changes.push_back({"SIMGPU_KERNELS", kernels});
    }
  }
  if (!preload.empty()) {
    changes.push_back({"LD_PRELOAD", prepended(preload, "LD_PRELOAD", ": ")});
  }

  for (const SettingId replaced : variables_replaced_by(options, environment)) {
    changes.push_back({variable_of(replaced), std::nullopt});
  }
  for (const Setting& setting : all_settings()) {
    const std::string& flag = options.flag(setting.id);
    if (setting.has_variable() && !flag.empty()) changes.push_back({setting.variable, flag});
  }
  if (const std::string& trace = options.flag(SettingId::kTrace); !trace.empty()) {
    changes.push_back({variable_of(SettingId::kTrace), std::filesystem::absolute(trace).string()});
    changes.push_back({kTraceRunVariable, make_trace_run()});
    changes.push_back({kTraceOwnerVariable, std::to_string(::getpid())});
  }
  if (const std::string& plan = options.flag(SettingId::kPlan); !plan.empty()) {
    changes.push_back({variable_of(SettingId::kPlan), std::filesystem::absolute(plan).string()});
  }
  const bool is_scheduled =
      values.given(SettingId::kPlan) != nullptr || values.given(SettingId::kPolicy) != nullptr ||
      values.given(SettingId::kK) != nullptr || values.given(SettingId::kGpuMem) != nullptr;
  if (!is_scheduled) {
    changes.push_back({variable_of(SettingId::kPolicy), std::string(name_of(PolicyKind::kAuto))});
  }
  changes.push_back({variable_of(SettingId::kSummary), "1"});
  // The program begins a run of its own, also where another has started the command.
  for (const char* const of_former_run : {kRunRootVariable, kDriverMarkVariable,
                                          kFormerStatisticsVariable, kFormerTimelineVariable}) {
    changes.push_back({of_former_run, std::nullopt});
  }
  return changes;
}

void apply(const std::vector<EnvironmentChange>& changes) {
  for (const EnvironmentChange& change : changes) {
    if (change.value) {
      setenv(change.name.c_str(), change.value->c_str(), 1);
    } else {
      unsetenv(change.name.c_str());
    }
  }
}

}  // namespace superpipe::cli
