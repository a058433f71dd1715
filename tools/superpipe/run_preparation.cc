#include "tools/superpipe/run_preparation.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "policy/requirements.h"
#include "settings/settings.h"
#include "tools/superpipe/driver_link.h"
#include "tools/superpipe/driver_probe.h"
#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {
namespace {

constexpr std::chrono::seconds kProbeLimit{20};

// What is missing of this installation, for a run as `options` ask for; empty if nothing.
std::string missing_part(const RunOptions& options, const Installation& parts) {
  std::vector<const std::string*> needed;
  if (!switched_off()) needed.push_back(&parts.preload_library);
  if (options.simulates()) {
    needed.push_back(&parts.simgpu_driver);
    needed.push_back(&parts.simgpu_runtime);
    needed.push_back(&parts.simgpu_loader);
    needed.push_back(&parts.simgpu_devices);
  }
  for (const std::string* const part : needed) {
    if (part->empty()) return "cannot tell where superpipe is installed: /proc is not mounted";
    if (!is_readable_file(*part)) {
      return "a part of superpipe is missing: " + *part +
             "; install it again (cmake --install) or build all of it";
    }
  }
  return {};
}

template <typename Trivial>
bool read_into(std::istream& file, Trivial& object) {
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&object), sizeof object));
}

// Why the driver that the program would get cannot be used; empty if it can.
std::string driver_problem() {
  const std::optional<std::string> named = named_driver();
  const DriverProbe found =
      probe_driver(named.value_or(kDriverLibrary), ProbeDepth::kOpen, kProbeLimit);
  const std::string origin = named ? variable_of(SettingId::kDriver) + std::string("=") : "";
  switch (found.outcome) {
    case DriverProbe::Outcome::kUsable:
      return {};
    case DriverProbe::Outcome::kNotFound:
      if (named) {
        return origin + *named + " does not exist; unset it, or name the CUDA driver library";
      }
      return "no CUDA driver (libcuda.so.1) on this machine; install NVIDIA's driver, or add "
             "--simulate to run on a simulated GPU";
    case DriverProbe::Outcome::kNotADriver:
      return origin + found.path + " is not a CUDA driver: " + found.detail +
             (named ? "; unset it, or name the CUDA driver library" : "");
    case DriverProbe::Outcome::kTooOld:
      return "the CUDA driver " + found.path + " is too old: " + found.detail +
             "; update NVIDIA's driver to " + kOldestDriverPackage +
             " or newer, or add --simulate to run on a simulated GPU";
    default:
      return "the CUDA driver " + found.path + " is not usable: " + found.detail +
             "; `superpipe doctor` says more, --simulate runs without it";
  }
}

// The first two numbers of a version such as "2.36"; 0 where there is none.
std::pair<int, int> numbers_of(std::string_view version) {
  std::pair<int, int> numbers{};
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, numbers.first);
  if (error == std::errc{} && dot != end) std::from_chars(dot + 1, end, numbers.second);
  return numbers;
}

}  // namespace

std::string reason_against_preloading(const std::string& program) {
  struct stat status {};
  if (::stat(program.c_str(), &status) != 0) return {};
  const bool is_other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid();
  const bool is_other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getegid();
  if (is_other_user || is_other_group) {
    return "it runs with other privileges than yours, for which the loader drops LD_PRELOAD";
  }
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_into(file, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return "it is no 64-bit program, and superpipe's library is for those";
  }
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * header.e_phentsize));
    if (!read_into(file, segment) || segment.p_type == PT_INTERP) return {};
  }
  return "it is statically linked, and superpipe's library cannot be loaded into it";
}

std::string reason_against_simulating(std::string_view glibc, std::string_view oldest) {
  if (oldest.empty() || !(numbers_of(glibc) < numbers_of(oldest))) return {};
  return "this machine's glibc is " + std::string(glibc) +
         ", older than any that simgpu was tried with; --simulate needs glibc " +
         std::string(oldest) + " or newer: take a newer Linux or container, or run without it";
}

std::string reason_against_simulating_here() {
  return reason_against_simulating(gnu_get_libc_version(), SUPERPIPE_SIMULATES_FROM_GLIBC);
}

std::string reason_against_place(const std::string& prefix, const std::string& shared) {
  return "superpipe lies in a folder whose name has a space, a colon or a semicolon (" + prefix +
         "), which the loader's LD_PRELOAD and LD_AUDIT cannot name, and no link to it can be "
         "made in " +
         shared + "; move superpipe, or name a folder of your own with " +
         variable_of(SettingId::kSharedFolder);
}

namespace {

// Why a program cannot run with `parts` here, whatever the driver is; empty if it can.
std::string reason_against_parts(const RunOptions& options, const Installation& parts) {
  if (std::string missing = missing_part(options, parts); !missing.empty()) return missing;
  return options.simulates() ? reason_against_simulating_here() : std::string();
}

// Puts paths that the loader can name into `parts`, and the folder of the driver's other name.
// @return why there are none; empty if there are.
std::string name_parts(const RunOptions& options, Installation& parts) {
  if (!options.simulates() && switched_off()) return {};
  const SettingValues values =
      values_of(options, [](const char* variable) { return std::getenv(variable); });
  const std::string shared = values.text(SettingId::kSharedFolder);
  std::optional<Installation> named = parts_to_be_named(parts, shared);
  if (!named) return reason_against_place(parts.prefix, shared);
  parts = std::move(*named);
  if (!switched_off()) {
    parts.driver_link_folder = folder_with_driver_link(parts.preload_library, shared);
  }
  return {};
}

}  // namespace

RunPreparation prepare_run(const RunOptions& options) {
  RunPreparation ready;
  const auto refuse = [&ready](int code, std::string problem) {
    ready.code = code;
    ready.problem = std::move(problem);
    return ready;
  };
  const std::string& name = options.command.front();
  ready.program = find_program(name);
  struct stat status {};
  if (ready.program.empty() || stat(ready.program.c_str(), &status) != 0) {
    return refuse(kCommandNotFound,
                  "there is no command '" + name + "'; give a path, or a name that is on PATH");
  }
  if (S_ISDIR(status.st_mode)) {
    return refuse(kNotExecutable, "cannot execute '" + name + "': it is a folder");
  }
  if (access(ready.program.c_str(), X_OK) != 0) {
    return refuse(kNotExecutable, "cannot execute '" + name + "': " + std::strerror(errno) +
                                      " (a script needs `chmod +x`, or its interpreter before it)");
  }
  ready.parts = this_installation();
  if (const std::string reason = reason_against_parts(options, ready.parts); !reason.empty()) {
    return refuse(kCannotRun, reason);
  }
  // With superpipe off and no simulation the program has the machine as it is: nothing to check.
  if (!options.simulates() && !switched_off()) {
    if (const std::string problem = driver_problem(); !problem.empty()) {
      return refuse(kCannotRun, problem);
    }
  }
  if (const std::string reason = name_parts(options, ready.parts); !reason.empty()) {
    return refuse(kCannotRun, reason);
  }
  return ready;
}

RunPreparation prepare_environment(const RunOptions& options, const Installation& parts) {
  RunPreparation ready;
  ready.parts = parts;
  ready.problem = reason_against_parts(options, parts);
  if (!ready.problem.empty()) ready.code = kCannotRun;
  return ready;
}

}  // namespace superpipe::cli
