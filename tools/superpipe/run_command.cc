#include "tools/superpipe/run_command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "profiler/trace_file.h"
#include "settings/settings.h"
#include "tools/superpipe/exit_code.h"
#include "tools/superpipe/run_environment.h"
#include "tools/superpipe/run_preparation.h"

namespace superpipe::cli {
namespace {

/// Says on stderr why the run that `options` ask for does not take place. @return `code`.
int fail(const RunOptions& options, int code, const std::string& line) {
  std::cerr << "superpipe " << options.subcommand << ": " << line << '\n';
  return code;
}

// Replaces this process. Returns the exit code if that failed.
int execute(const RunOptions& options) {
  const std::vector<std::string>& command = options.command;
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
    return fail(options, kCommandNotFound,
                "cannot start '" + command[0] +
                    "': it, or the interpreter in its first line, does not exist");
  }
  return fail(options, kNotExecutable,
              "cannot execute '" + command[0] + "': " + std::strerror(error));
}

}  // namespace

int run_command(const RunOptions& options) {
  const RunPreparation ready = prepare_run(options);
  if (!ready.ok()) return fail(options, ready.code, ready.problem);
  if (const std::string& trace = options.flag(SettingId::kTrace); !trace.empty()) {
    // What the program does not record must not look like what it did before.
    remove_former_trace(trace);
    if (const std::string reason = reason_against_preloading(ready.program); !reason.empty()) {
      std::cerr << "superpipe " << options.subcommand << ": note: nothing of " << ready.program
                << " itself can be recorded: " << reason << '\n';
    }
  }
  apply(environment_changes(options, ready.parts, ready.program));
  return execute(options);
}

}  // namespace superpipe::cli
