// The environment variables SIMGPU_*, read once at cuInit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace simgpu {

/// What device memory reads as that the program has not written.
enum class FillPolicy { kZero, kPoison };

/// Where the driver places device addresses that the program does not choose.
enum class ArenaPolicy { kHigh, kLow };

/// Everything a user can set. Sizes in bytes, bandwidths in bytes per nanosecond (= GB/s), times in
/// nanoseconds.
struct Configuration {
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;  ///< SIMGPU_MEMORY, per device
  int devices = 1;                                       ///< SIMGPU_DEVICES
  double h2d_gbps = 4.0;                                 ///< SIMGPU_H2D_GBPS
  double d2h_gbps = 4.0;                                 ///< SIMGPU_D2H_GBPS
  double pageable_gbps = 1.6;                            ///< SIMGPU_PAGEABLE_GBPS, 0.4 x H2D
  double d2d_gbps = 6.0;                                 ///< SIMGPU_D2D_GBPS, also memsets
  double kernel_us = 20.0;                               ///< SIMGPU_KERNEL_US
  double create_us = 0.0;                                ///< SIMGPU_CREATE_US, host time
  double map_us = 0.0;                                   ///< SIMGPU_MAP_US, host time
  double unmap_us = 0.0;                                 ///< SIMGPU_UNMAP_US, host time
  double set_access_us = 0.0;                            ///< SIMGPU_SET_ACCESS_US, host time
  std::uint64_t context_bytes = std::uint64_t{2} << 20;  ///< SIMGPU_CONTEXT_BYTES
  std::uint64_t other_bytes = 0;           ///< SIMGPU_OTHER_BYTES, in use by other processes
  std::uint64_t pool_chunk_bytes = 0;      ///< SIMGPU_POOL_CHUNK; 0: by what the pool holds
  FillPolicy fill = FillPolicy::kZero;     ///< SIMGPU_FILL
  ArenaPolicy arena = ArenaPolicy::kHigh;  ///< SIMGPU_ARENA
  int compute_engines = 1;                 ///< SIMGPU_COMPUTE_ENGINES
  bool pageable_staged = false;            ///< SIMGPU_PAGEABLE_STAGED
  bool serial_host_functions = false;      ///< SIMGPU_HOST_FUNCTIONS
  bool host_access = false;                ///< SIMGPU_HOST_ACCESS
  std::string statistics_path;             ///< SIMGPU_STATS
  std::string faults;                      ///< SIMGPU_FAULTS
  std::string kernel_plugins;              ///< SIMGPU_KERNELS, colon-separated
};

/// The configuration; defaults before load_configuration(). Read-only after cuInit.
const Configuration& configuration() noexcept;

/// Reads the environment once, the first time. @return false, and one line on standard error that
/// names variable, value and what is allowed, if a value is malformed. Thread-safe.
bool load_configuration();

/// Parses a SIZE: bytes, or K, M, G, T (also KiB, MiB, ...) as powers of 1024. @return false if
/// malformed or too large; `*bytes` is then untouched.
bool parse_size(std::string_view text, std::uint64_t* bytes);

}  // namespace simgpu
