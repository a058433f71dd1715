#include "tools/superpipe/run_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <variant>

#include "policy/policy_engine.h"
#include "profiler/plan_file.h"

namespace superpipe::cli {
namespace {

// Why the device at `path` takes nothing. Drivers judge a write of no bytes as any other.
std::optional<std::string> reason_against_writing_device(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const bool takes = file >= 0 && ::write(file, "", 0) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  if (takes) return std::nullopt;
  return std::string("it cannot be written: ") + std::strerror(error);
}

// Why a file in `folder` cannot grow.
std::optional<std::string> reason_against_growing(const std::string& folder) {
  struct statvfs system {};
  // Some file systems do not say how large they are.
  const bool is_full =
      ::statvfs(folder.c_str(), &system) == 0 && system.f_blocks > 0 && system.f_bavail == 0;
  if (!is_full) return std::nullopt;
  return "it cannot be written: the file system of " + folder + " is full";
}

// Why the file at `path` cannot be written; nullopt if it can. The file need not exist, but writing
// it must not fail after a run of an hour.
std::optional<std::string> reason_against_writing(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return "it is a folder; name a file";
    if (access(path.c_str(), W_OK) != 0) {
      return std::string("it cannot be written: ") + std::strerror(errno);
    }
    if (S_ISCHR(status.st_mode)) return reason_against_writing_device(path);
    return S_ISREG(status.st_mode) ? reason_against_growing(path) : std::nullopt;
  }
  auto folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) == 0) return reason_against_growing(folder);
  return "the folder " + folder.string() + " cannot be written: " + std::strerror(errno);
}

// The file that the value of `setting` names to be written; empty if none.
std::string output_file(const Setting& setting, const SettingValues& values) {
  if (setting.kind == SettingKind::kOutputFile) return values.text(setting.id);
  if (setting.kind == SettingKind::kLog) return values.log(setting.id).file;
  return {};
}

}  // namespace

std::vector<SettingId> variables_replaced_by(const RunOptions& options,
                                             const Environment& environment) {
  if (!options.flag(SettingId::kGpuMem).empty()) return {SettingId::kK, SettingId::kKPrime};
  if (options.flag(SettingId::kK).empty()) return {};
  std::vector<SettingId> replaced{SettingId::kGpuMem};
  if (options.flag(SettingId::kKPrime).empty()) replaced.push_back(SettingId::kKPrime);
  // A run in a run without flags has the policy that the outer one chose.
  const char* const policy = environment(variable_of(SettingId::kPolicy));
  const auto kind = policy_from_name(policy != nullptr ? policy : "");
  if (kind && counts_bytes(*kind)) replaced.push_back(SettingId::kPolicy);
  return replaced;
}

SettingValues values_of(const RunOptions& options, const Environment& environment) {
  SettingValues values;
  const auto replaced = variables_replaced_by(options, environment);
  for (const Setting& setting : all_settings()) {
    if (const std::string& flag = options.flag(setting.id); !flag.empty()) {
      values.give(setting.id, ValueSource::kFlag, flag);
      continue;
    }
    if (!setting.has_variable() || std::count(replaced.begin(), replaced.end(), setting.id) > 0) {
      continue;
    }
    const char* const text = environment(setting.variable);
    if (text != nullptr) values.give(setting.id, ValueSource::kVariable, text);
  }
  return values;
}

std::optional<std::string> problem_with(const RunOptions& options, FilesOf files) {
  SettingValues values = values_of(options, [](const char* name) { return std::getenv(name); });
  const GivenValue* const planned = values.given(SettingId::kPlan);
  if (planned != nullptr && planned->source == ValueSource::kFlag) {
    if (files == FilesOf::kThisMachine) {
      const auto read = read_plan(planned->text);
      if (const auto* const problem = std::get_if<std::string>(&read)) {
        return SettingProblem{*planned, *problem}.message();
      }
      give_values_of(std::get<Plan>(read), values);
    } else if (!std::filesystem::path(planned->text).is_absolute()) {
      return SettingProblem{*planned, "it takes an absolute path"}.message();
    }
  }
  for (const SettingProblem& problem : values.problems()) {
    if (problem.given.source == ValueSource::kFlag) return problem.message();
  }
  if (files != FilesOf::kThisMachine) return std::nullopt;
  for (const Setting& setting : all_settings()) {
    const GivenValue* const given = values.given(setting.id);
    if (given == nullptr || given->source != ValueSource::kFlag) continue;
    const std::string file = output_file(setting, values);
    if (file.empty()) continue;
    if (auto reason = reason_against_writing(file)) {
      return SettingProblem{*given, *std::move(reason)}.message();
    }
  }
  return std::nullopt;
}

}  // namespace superpipe::cli
