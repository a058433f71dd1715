// `superpipe doctor`: what this machine offers to superpipe, what would be used, and what is
// missing.
#pragma once

namespace superpipe::cli {

struct DoctorOptions {
  bool simulate = false;  ///< look at simgpu instead of the machine's driver
  bool json = false;      ///< one JSON object instead of text
};

/// Writes the report to stdout. Opens the driver in a child process only.
/// @return kSuccess if programs can run under superpipe here, else kProblemFound.
[[nodiscard]] int doctor_command(const DoctorOptions& options);

}  // namespace superpipe::cli
