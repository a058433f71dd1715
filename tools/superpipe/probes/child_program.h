// Small programs that some probes run, with and without superpipe's library preloaded. They are
// this same executable, started with a first word that no user types.
#pragma once

#include <string>
#include <vector>

#include "tools/superpipe/probes/probe.h"

namespace superpipe::cli {

/// The first word of the command line that makes the command one of these programs.
inline constexpr const char* kChildProgramWord = "doctor-child";

/// How the program meets superpipe.
enum class ChildLibrary {
  kNone,      ///< not at all
  kResident,  ///< preloaded, everything stays on the device
  kManaging,  ///< preloaded, with a budget that everything fits
};

/// What a program left behind.
struct ChildEnd {
  ProbeReport::Json figures = ProbeReport::Json::object();
  std::string failure;  ///< empty if it came to its end; else what went wrong, in one line
};

/// Runs `words` (without kChildProgramWord) and waits for it; the probe's own time limit ends it.
/// Throws Skipped if superpipe's library is switched off or missing where it is wanted.
[[nodiscard]] ChildEnd run_child_program(const ProbeSetting& setting,
                                         const std::vector<std::string>& words,
                                         ChildLibrary library);

/// The other side: runs the program that `words` name in this process. @return its exit code.
int child_program_main(const std::vector<std::string>& words);

}  // namespace superpipe::cli
