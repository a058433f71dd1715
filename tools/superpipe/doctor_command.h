// `superpipe doctor`: what this machine offers to superpipe, what its device answers to the
// questions that only a device can answer, what would be used, and what is missing.
#pragma once

#include <optional>
#include <string>

namespace superpipe::cli {

/// What stands on the command line; empty strings: not given.
struct DoctorOptions {
  bool simulate = false;      ///< look at simgpu instead of the machine's driver
  bool json = false;          ///< one JSON object instead of text
  bool list = false;          ///< only say which questions there are
  bool no_probes = false;     ///< measure nothing
  bool quick = false;         ///< fewer sizes and repetitions
  std::string probes;         ///< "H1,H3": these questions only
  std::string probe_timeout;  ///< seconds a question may take
  std::string host_mem;       ///< SIZE: host memory that the questions may use together
  std::string cudart;         ///< the libcudart of H0
  std::string output;         ///< also write the JSON object to this file
};

/// What is wrong with the flags, in one line that names the flag and what is allowed; nullopt if
/// nothing is.
[[nodiscard]] std::optional<std::string> problem_with(const DoctorOptions& options);

/// Writes the report to stdout, and what takes long to stderr. Opens the driver in child processes
/// only. REQUIRES: !problem_with(options).
/// @return kSuccess if programs can run under superpipe here, whatever single questions gave;
/// kProblemFound if not; kBadUsage if --output cannot be written.
[[nodiscard]] int doctor_command(const DoctorOptions& options);

}  // namespace superpipe::cli
