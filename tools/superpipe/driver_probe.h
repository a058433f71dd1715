// Opens a CUDA driver in a child process and says what it is: a driver that crashes is a finding,
// not our end.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace superpipe::cli {

/// One device as its driver describes it.
struct ProbedDevice {
  std::string name;
  std::uint64_t total_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  int copy_engines = 0;
  bool virtual_memory = false;       ///< cuMemCreate and cuMemMap: residency needs them
  bool memory_pools = false;         ///< cuMemAllocAsync
  bool host_located_memory = false;  ///< cuMemCreate on the host
  int host_numa_node = -1;           ///< of the host memory nearest to it; -1 if unknown
  std::string pci_address;           ///< as Linux writes it, 0000:3b:00.0; empty if unknown
  /// What else matters to superpipe, by the names of kCapabilities; what the driver does not know
  /// is not there.
  std::vector<std::pair<std::string, int>> capabilities;

  /// The value of a capability; 0 if the driver does not know it.
  [[nodiscard]] int capability(std::string_view name) const;
};

/// What became of the attempt.
struct DriverProbe {
  enum class Outcome {
    kUsable,      ///< it is a driver; `devices` says what it drives, if it was asked
    kNotFound,    ///< the loader has no such file
    kNotADriver,  ///< a file, but not a library, or one without the driver's entry points
    kTooOld,      ///< a driver, but older than kOldestDriver (policy/requirements.h)
    kInitFailed,  ///< cuInit returned an error
    kCrashed,     ///< the child died by a signal
    kHung,        ///< the child did not answer in time and was ended
  };
  Outcome outcome = Outcome::kNotFound;
  std::string path;           ///< of the file that was opened; what was asked for if none was
  std::string detail;         ///< for a person: why it is not usable, in which call it crashed
  int version = 0;            ///< as cuDriverGetVersion gives it: 13000 for CUDA 13.0; 0 if unknown
  bool batch_copies = false;  ///< it exports cuMemcpyBatchAsync
  std::vector<ProbedDevice> devices;

  /// Whether the device is simgpu's: then nothing is a property of real hardware.
  [[nodiscard]] bool is_simulated() const;
};

/// How deep to look.
enum class ProbeDepth {
  kOpen,     ///< is it a driver, and new enough? No device is touched; milliseconds.
  kDevices,  ///< initialise it and describe its devices; a second or more on real hardware.
};

/// Opens `library` (a path, or a name that the loader looks up) in a child process and describes
/// it.
///
/// Waits for the child, at most `limit`. Not thread-safe: it forks, so call it while the process
/// has one thread.
[[nodiscard]] DriverProbe probe_driver(const std::string& library, ProbeDepth depth,
                                       std::chrono::milliseconds limit);

}  // namespace superpipe::cli
