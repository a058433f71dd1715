// The configuration of a process that uses the driver.
#include <string>

#include "tools/simgpu/driver/faults/fault_injection.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

Configuration& mutable_configuration() {
  static auto* const values = new Configuration;  // never destroyed: threads outlive exit handlers
  return *values;
}

/// What the process takes part in from now on.
bool take_part(Configuration* out) {
  bool good = true;
  if (!out->shared_file.empty()) {
    out->shared = map_shared_devices(out->shared_file.c_str(), out->devices);
    good = out->shared != nullptr;
    if (!good) {
      log_line(LogLevel::kError, "SIMGPU_SHARED_FILE=%s is not valid: it takes a file of one's own",
               out->shared_file.c_str());
    }
  }
  if (out->faults.empty()) return good;
  const std::string problem = set_faults(out->faults);
  if (problem.empty()) return good;
  log_line(LogLevel::kError, "SIMGPU_FAULTS=%s is not valid: %s", out->faults.c_str(),
           problem.c_str());
  return false;
}

bool read_and_take_part(Configuration* out) {
  const bool good = read_configuration(out);
  return take_part(out) && good;
}

}  // namespace

const Configuration& configuration() noexcept { return mutable_configuration(); }

bool load_configuration() {
  static const bool good = read_and_take_part(&mutable_configuration());
  return good;
}

}  // namespace simgpu
