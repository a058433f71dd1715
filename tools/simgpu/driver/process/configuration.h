// The environment variables SIMGPU_*, read once at cuInit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tools/simgpu/driver/device/card.h"
#include "tools/simgpu/driver/device/shared_devices.h"
#include "tools/simgpu/driver/entry/call_costs.h"

namespace simgpu {

/// What device memory reads as that the program has not written.
enum class FillPolicy { kZero, kPoison };

/// Where the driver places device addresses that the program does not choose.
enum class ArenaPolicy { kHigh, kLow };

/// What becomes of pages that a program wants to lie on the host.
enum class HostPagePolicy {
  kOn,       ///< There are such pages.
  kOff,      ///< The device says that it has none.
  kRefused,  ///< The device says that it has them, and their creation fails, as in containers.
  kCrash,    ///< The device says that it has them, and their creation ends the process.
  kNoNuma,   ///< As kRefused, for pages of a node of the host.
};

/// Everything a user can set. Sizes in bytes, bandwidths in bytes per nanosecond (= GB/s), times in
/// microseconds. What is not set follows from the card.
struct Configuration {
  /// The device's size and speeds: those of SIMGPU_PRESET, scaled by SIMGPU_SCALE and
  /// SIMGPU_SLOWDOWN, with what SIMGPU_MEMORY, _DEVICE_GBPS, _HALF_TFLOPS, _SINGLE_TFLOPS,
  /// _H2D_GBPS, _D2H_GBPS, _DUPLEX, _COPY_US, _LAUNCH_US and _PIN_GBPS say instead.
  Card card = kPlainCard;
  int devices = 1;                  ///< SIMGPU_DEVICES
  double pageable_gbps = 1.6;       ///< SIMGPU_PAGEABLE_GBPS, 0.4 x H2D
  double d2d_gbps = 50;             ///< SIMGPU_D2D_GBPS, half of the device's memory bandwidth
  double fill_gbps = 100;           ///< SIMGPU_D2D_GBPS, the device's memory bandwidth
  std::optional<double> kernel_us;  ///< SIMGPU_KERNEL_US, of every kernel; else kernel_cost.h
  CallCosts calls;                  ///< SIMGPU_CALL_COSTS, _CREATE_US, _MAP_US, ...
  bool implicit_sync = false;       ///< SIMGPU_IMPLICIT_SYNC
  unsigned queue_depth = 1024;      ///< SIMGPU_QUEUE_DEPTH, operations of one stream
  std::uint64_t context_bytes = std::uint64_t{2} << 20;  ///< SIMGPU_CONTEXT_BYTES
  std::uint64_t other_bytes = 0;           ///< SIMGPU_OTHER_BYTES, in use by other processes
  std::string other_file;                  ///< SIMGPU_OTHER_FILE, says it anew
  std::string shared_file;                 ///< SIMGPU_SHARED_FILE
  SharedDevice* shared = nullptr;          ///< what is in it, of each device; null: not shared
  bool processes_hidden = false;           ///< SIMGPU_PROCESSES
  std::uint64_t pool_chunk_bytes = 0;      ///< SIMGPU_POOL_CHUNK; 0: by what the pool holds
  FillPolicy fill = FillPolicy::kZero;     ///< SIMGPU_FILL
  ArenaPolicy arena = ArenaPolicy::kHigh;  ///< SIMGPU_ARENA
  int compute_engines = 1;                 ///< SIMGPU_COMPUTE_ENGINES
  bool pageable_staged = false;            ///< SIMGPU_PAGEABLE_STAGED
  bool serial_host_functions = false;      ///< SIMGPU_HOST_FUNCTIONS
  bool mixers_write = true;                ///< SIMGPU_MIXERS
  bool host_access = false;                ///< SIMGPU_HOST_ACCESS
  bool live_operands = false;              ///< SIMGPU_OPERANDS
  bool mapped_peers = true;                ///< SIMGPU_MAPPED_PEERS
  HostPagePolicy host_pages = HostPagePolicy::kOn;  ///< SIMGPU_HOST_PAGES
  /// SIMGPU_HOST_PAGE_LIMIT; none: the machine's memory
  std::optional<std::uint64_t> host_page_limit;
  double host_reread = 1;  ///< SIMGPU_HOST_REREAD, times that a kernel reads a byte of such pages
  double host_share = 1;   ///< SIMGPU_HOST_SHARE, of their bytes that a kernel reads
  std::string statistics_path;  ///< SIMGPU_STATS
  std::string faults;           ///< SIMGPU_FAULTS
  std::string kernel_plugins;   ///< SIMGPU_KERNELS, colon-separated
};

/// Reads the environment into `*out`, and changes nothing of the process. @return false, and one
/// line on standard error that names variable, value and what is allowed, if a value is malformed.
bool read_configuration(Configuration* out);

/// The configuration; defaults before load_configuration(). Read-only after cuInit.
const Configuration& configuration() noexcept;

/// Reads the environment once, the first time; the process shares what it names from then on.
/// @return false, and one line on standard error, if a value is malformed. Thread-safe.
bool load_configuration();

/// Parses a SIZE: bytes, or K, M, G, T (also KiB, MiB, ...) as powers of 1024. @return false if
/// malformed or too large; `*bytes` is then untouched.
bool parse_size(std::string_view text, std::uint64_t* bytes);

}  // namespace simgpu
