// What the user asked of the library, read from the environment (docs/design.md, "Settings and
// statistics").
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interposer/log.h"
#include "policy/budget.h"
#include "policy/pin_list.h"
#include "policy/policy_engine.h"
#include "policy/recorded_run.h"
#include "policy/units.h"
#include "settings/setting_values.h"

namespace superpipe {

/// The code of a process that does not begin because of SUPERPIPE_STRICT.
inline constexpr int kExitBadConfiguration = 2;
/// The code, because of SUPERPIPE_STRICT, of a program that never opened the driver, and of one
/// that was refused a launch.
inline constexpr int kExitStrict = 125;

/// How kernels are timed for a trace.
enum class KernelTimes { kEvents, kCupti, kOff };

/// What programs are told of the device's memory (docs/decisions/0030-memory-that-programs-see.md).
enum class MemoryReport { kAuto, kVirtual, kBudget, kReal };

/// The variables that the library acts on, checked. settings/settings.cc says what each means,
/// which values it takes, and what its default is.
struct Configuration {
  /// The defaults.
  Configuration();
  /// What `values` say.
  ///
  /// With k the default policy is superpipeline, with a budget auto, else resident; k' is
  /// max(1, k/2) where it is not given. With the policy resident, k and the budget have no effect.
  explicit Configuration(const SettingValues& values);

  bool off;                         ///< SUPERPIPE_OFF
  bool strict;                      ///< SUPERPIPE_STRICT
  PolicyKind policy;                ///< SUPERPIPE_POLICY
  std::optional<int> k;             ///< SUPERPIPE_K
  std::optional<int> k_prime;       ///< SUPERPIPE_K_PRIME
  std::optional<SizeSpec> gpu_mem;  ///< SUPERPIPE_GPU_MEM, of the device
  /// Whether the budget is what the device has free when the context is made: a policy that counts
  /// bytes was asked for, and no budget.
  [[nodiscard]] bool budget_is_free_memory() const { return counts_bytes(policy) && !gpu_mem; }
  /// Whether there is a budget, asked for or not.
  [[nodiscard]] bool limits_memory() const { return gpu_mem || budget_is_free_memory(); }
  /// Whether the user asked for less of the device than there is.
  [[nodiscard]] bool asks_for_less() const {
    return policy != PolicyKind::kResident && (gpu_mem || k);
  }
  /// SUPERPIPE_HEADROOM, of the device: the part of the budget that is kept free for what the
  /// driver takes without being asked (module loads, memory pools that grow) between two samples.
  /// nullopt: default_headroom().
  std::optional<SizeSpec> headroom;
  /// The headroom on a device of `device` bytes; `budget`: zero without one.
  [[nodiscard]] Bytes headroom_on(Bytes device, Bytes budget) const;
  std::optional<SizeSpec> host_mem;      ///< SUPERPIPE_HOST_MEM, of the host's memory
  std::string shared_folder;             ///< SUPERPIPE_SHARED_FOLDER
  bool shared_folder_is_given;           ///< whether it is the user who named it
  bool shares_host_memory;               ///< SUPERPIPE_HOST_LEDGER=shared
  Bytes min_buffer;                      ///< SUPERPIPE_MIN_BUFFER
  bool async_allocators;                 ///< SUPERPIPE_ALLOCATOR=async|native
  std::chrono::milliseconds wait_limit;  ///< SUPERPIPE_WAIT_MS
  bool zero_fill;                        ///< SUPERPIPE_FILL=zero
  bool known_kernel_words;               ///< SUPERPIPE_KERNEL_WORDS=known
  PinList pins;                          ///< SUPERPIPE_PIN
  std::string pins_text;                 ///< the same, as it was given
  bool overflow_allowed;                 ///< SUPERPIPE_OVERFLOW=allow
  bool compares_digests;                 ///< SUPERPIPE_WRITEBACK=digest
  bool maps_early;                       ///< SUPERPIPE_MAP=early
  MemoryReport memory_report;            ///< SUPERPIPE_REPORT_MEM
  bool summary;                          ///< SUPERPIPE_SUMMARY=1
  bool progress;                         ///< SUPERPIPE_PROGRESS=auto, where there is a summary
  std::string stats_file;                ///< SUPERPIPE_STATS, with placeholders; empty: none
  std::string timeline_file;             ///< SUPERPIPE_TIMELINE, with placeholders; empty: none
  std::string copies_file;   ///< SUPERPIPE_COPIES, without the process's id; empty: none
  std::string trace_file;    ///< SUPERPIPE_TRACE; empty: none
  KernelTimes kernel_times;  ///< SUPERPIPE_KERNEL_TIMES
  /// What the plan in SUPERPIPE_PLAN says that the program does; null: there is none, or the policy
  /// does not foresee.
  std::shared_ptr<const RecordedRun> recorded;
  LogLevel log_level;    ///< SUPERPIPE_LOG, before the colon
  std::string log_file;  ///< SUPERPIPE_LOG, after the colon
};

/// A configuration and what is wrong with it; if anything is, nothing shall be managed. The fields
/// whose variables are right are set all the same: the log level and `strict` decide how the errors
/// are said.
struct ReadConfiguration {
  Configuration configuration;
  std::vector<SettingProblem> errors;

  [[nodiscard]] bool ok() const { return errors.empty(); }
};

/// Reads all variables, and the plan that one of them names, which says what others do not. Pure
/// but for `environment` and that file. An empty value counts as unset. k and the budget are
/// checked even with the policy resident.
[[nodiscard]] ReadConfiguration read_configuration(const Environment& environment);

}  // namespace superpipe
