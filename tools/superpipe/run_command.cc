#include "tools/superpipe/run_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "policy/requirements.h"
#include "policy/settings.h"
#include "tools/superpipe/driver_probe.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/installation.h"
#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {
namespace {

constexpr std::chrono::seconds kProbeLimit{20};

int fail(int code, const std::string& line) {
  std::cerr << "superpipe run: " << line << '\n';
  return code;
}

// What is missing of this installation, for a run as `options` ask for; empty if nothing.
std::string missing_part(const RunOptions& options, const Installation& parts) {
  std::vector<const std::string*> needed;
  if (!switched_off()) needed.push_back(&parts.preload_library);
  if (options.simulates()) {
    needed.push_back(&parts.simgpu_driver);
    needed.push_back(&parts.simgpu_runtime);
  }
  for (const std::string* const part : needed) {
    if (part->empty()) return "cannot tell where superpipe is installed: /proc is not mounted";
    if (!is_readable_file(*part)) {
      return "a part of superpipe is missing: " + *part +
             "; install it again (cmake --install) or build all of it";
    }
    if (part->find_first_of(": ;") != std::string::npos) {
      return "superpipe lies in a folder whose name has a space, a colon or a semicolon (" + *part +
             "), which the loader's LD_PRELOAD cannot name; move it";
    }
  }
  return {};
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

// Replaces this process. Returns the exit code if that failed.
int execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // execvp does not write them
  }
  arguments.push_back(nullptr);
  std::cout.flush();
  execvp(arguments[0], arguments.data());
  const int error = errno;
  if (error == ENOENT) {
    return fail(kCommandNotFound,
                "cannot start '" + command[0] +
                    "': it, or the interpreter in its first line, does not exist");
  }
  return fail(kNotExecutable, "cannot execute '" + command[0] + "': " + std::strerror(error));
}

}  // namespace

int run_command(const RunOptions& options) {
  const std::string& name = options.command.front();
  const std::string program = find_program(name);
  struct stat status {};
  if (program.empty() || stat(program.c_str(), &status) != 0) {
    return fail(kCommandNotFound,
                "there is no command '" + name + "'; give a path, or a name that is on PATH");
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(kNotExecutable, "cannot execute '" + name + "': it is a folder");
  }
  if (access(program.c_str(), X_OK) != 0) {
    return fail(kNotExecutable, "cannot execute '" + name + "': " + std::strerror(errno) +
                                    " (a script needs `chmod +x`, or its interpreter before it)");
  }
  const Installation parts = this_installation();
  if (const std::string missing = missing_part(options, parts); !missing.empty()) {
    return fail(kCannotRun, missing);
  }
  // With superpipe off and no simulation the program has the machine as it is: nothing to check.
  if (!options.simulates() && !switched_off()) {
    if (const std::string problem = driver_problem(); !problem.empty()) {
      return fail(kCannotRun, problem);
    }
  }
  apply(environment_changes(options, parts, program));
  return execute(options.command);
}

}  // namespace superpipe::cli
