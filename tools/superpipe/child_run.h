// Runs a command as a child process, and waits for it.
#pragma once

#include <string>
#include <vector>

#include "tools/superpipe/run_environment.h"

namespace superpipe::cli {

/// How a child process ended.
struct ChildEnd {
  int exit_code = 0;   ///< of a child that exited; 128 + signal of one that was killed
  int signal = 0;      ///< that killed it; 0: none
  double seconds = 0;  ///< from its start to its end

  /// "exit code 3" or "killed by signal 11 (Segmentation fault)".
  [[nodiscard]] std::string text() const;
};

/// Runs `command` with `changes` made to the environment, standard input empty, standard output and
/// error in the files of those paths, which it makes. While it runs, this process ignores SIGINT
/// and SIGQUIT, which a terminal sends to both. Throws std::system_error if there is no process to
/// be had or a file cannot be made.
[[nodiscard]] ChildEnd run_child(const std::vector<std::string>& command,
                                 const std::vector<EnvironmentChange>& changes,
                                 const std::string& output_path, const std::string& error_path);

}  // namespace superpipe::cli
