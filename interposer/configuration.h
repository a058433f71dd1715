// What the user asked for, read from the environment (DESIGN section 8).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "interposer/log.h"
#include "policy/budget.h"
#include "policy/policy_engine.h"
#include "policy/units.h"

namespace superpipe {

/// Every SUPERPIPE_* variable, checked.
struct Configuration {
  bool off = false;                              ///< SUPERPIPE_OFF
  bool strict = false;                           ///< SUPERPIPE_STRICT
  PolicyKind policy = PolicyKind::kResident;     ///< SUPERPIPE_POLICY
  std::optional<int> k;                          ///< SUPERPIPE_K
  std::optional<int> k_prime;                    ///< SUPERPIPE_K_PRIME
  std::optional<SizeSpec> gpu_mem;               ///< SUPERPIPE_GPU_MEM, of the device
  std::optional<SizeSpec> host_mem;              ///< SUPERPIPE_HOST_MEM, of the host's memory
  Bytes min_buffer = 1_MiB;                      ///< SUPERPIPE_MIN_BUFFER
  bool async_allocators = true;                  ///< SUPERPIPE_ALLOCATOR=async|native
  std::chrono::milliseconds wait_limit{30'000};  ///< SUPERPIPE_WAIT_MS
  bool zero_fill = false;                        ///< SUPERPIPE_FILL=zero
  bool overflow_allowed = false;                 ///< SUPERPIPE_OVERFLOW=allow
  bool report_real_memory = false;               ///< SUPERPIPE_REPORT_MEM=real
  bool summary = false;                          ///< SUPERPIPE_SUMMARY=1
  std::string stats_file;                        ///< SUPERPIPE_STATS; empty: none
  std::string timeline_file;                     ///< SUPERPIPE_TIMELINE; empty: none
  LogLevel log_level = LogLevel::kWarning;       ///< SUPERPIPE_LOG, before the colon
  std::string log_file;                          ///< SUPERPIPE_LOG, after the colon
};

/// One bad value.
struct ConfigurationError {
  std::string variable;
  std::string value;
  std::string allowed;  ///< what would have been right, for the user

  /// "SUPERPIPE_K=zero: must be ..."
  [[nodiscard]] std::string message() const;
};

/// A configuration, and what was wrong; if anything was, nothing shall be managed. The fields that
/// were right are set all the same (the log level and `strict` are needed to say what was wrong).
struct ReadConfiguration {
  Configuration configuration;
  std::vector<ConfigurationError> errors;

  [[nodiscard]] bool ok() const { return errors.empty(); }
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// Reads all variables. Pure but for `environment`. An empty value counts as unset.
///
/// With k or a budget the default policy is superpipeline, else resident; k = 1 is naive; k' is
/// max(1, k/2) where it is not given. With the policy resident, k and the budget are checked and
/// then have no effect.
[[nodiscard]] ReadConfiguration read_configuration(const Environment& environment);

}  // namespace superpipe
