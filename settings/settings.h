// Every setting of superpipe, once: its variable, its flag, what it takes and what it means.
//
// The flags of `superpipe run` and their help, the variables that the library reads, the table of
// docs/settings.md and the manual page are made from this table. settings/setting_values.h reads
// and checks values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Names a setting; also its index in all_settings().
enum class SettingId : std::size_t {
  kK,
  kKPrime,
  kGpuMem,
  kHeadroom,
  kPolicy,
  kSimulate,
  kHostMem,
  kMinBuffer,
  kAllocator,
  kOverflow,
  kWaitMs,
  kFill,
  kKernelWords,
  kPin,
  kEvicted,
  kWriteback,
  kMap,
  kReportMem,
  kLog,
  kStats,
  kTimeline,
  kTrace,
  kKernelTimes,
  kProgress,
  kStrict,
  kPlan,
  kOff,
  kDriver,
  kSummary,
  kCopies,
  kSharedFolder,
  kHostLedger,
};

inline constexpr std::size_t kSettingCount = static_cast<std::size_t>(SettingId::kHostLedger) + 1;

/// The position of `id` in a table indexed by settings.
constexpr std::size_t index_of(SettingId id) { return static_cast<std::size_t>(id); }

/// What values a setting takes.
enum class SettingKind {
  kCount,        ///< a whole number of at least 1
  kSize,         ///< a SIZE above 0 (parse_size in policy/budget.h)
  kSizeOrZero,   ///< a SIZE
  kChoice,       ///< one of `choices`
  kSwitch,       ///< the flag takes no value, the variable takes 1 or 0
  kOutputFile,   ///< the path of a file that is written
  kInputFile,    ///< the path of a file that is read
  kFolder,       ///< the absolute path of a folder
  kLibraryFile,  ///< the path of a library, or a name that the loader looks up
  kPinList,      ///< buffers, by numbers and sizes (PinList in policy/pin_list.h)
  kLog,          ///< LEVEL or LEVEL:FILE, LEVEL one of `choices`
};

/// Under which heading `superpipe run --help` has a flag.
enum class SettingGroup : std::uint8_t {
  kOptions,
  kMemory,
  kPolicy,
  kDiagnosis,
  kRare,  ///< not there, but in the manual and in docs/settings.md
};
inline constexpr SettingGroup kSettingGroups[] = {SettingGroup::kOptions, SettingGroup::kMemory,
                                                  SettingGroup::kPolicy, SettingGroup::kDiagnosis,
                                                  SettingGroup::kRare};

/// One setting. Texts are for users; an empty text means that there is none.
struct Setting {
  SettingId id{};
  SettingKind kind{};
  SettingGroup group = SettingGroup::kOptions;
  const char* variable = "";                ///< "SUPERPIPE_K"; empty: the library need not know
  const char* flag = "";                    ///< "--k"
  const char* placeholder = "";             ///< the flag's value in help, "N"; a switch has none
  std::string_view unit{};                  ///< kCount: what is counted, "layers"
  std::string_view whole{};                 ///< sizes: what a percentage is of; empty: none allowed
  std::vector<std::string_view> choices{};  ///< kChoice, kLog
  std::vector<std::string_view> later{};    ///< choices of later versions
  const char* default_value = "";           ///< what counts where no value is given
  std::string_view default_words{};         ///< the default where it is not one value
  const char* simulated_value = "";         ///< what --simulate sets where no value is given
  std::string_view help{};                  ///< what the setting does, without a full stop

  [[nodiscard]] bool has_flag() const { return *flag != '\0'; }
  [[nodiscard]] bool has_variable() const { return *variable != '\0'; }
};

/// All settings, in the order in which users read them.
[[nodiscard]] std::span<const Setting> all_settings();

/// The setting that `id` names.
[[nodiscard]] const Setting& setting(SettingId id);

/// The environment variable of the setting that `id` names; "" if it has none.
[[nodiscard]] const char* variable_of(SettingId id);

/// The headroom on a device of `whole` bytes where no value is given: kHeadroom's default.
/// `budget`: what is left of it beside the context; zero without a budget.
[[nodiscard]] Bytes default_headroom(Bytes whole, Bytes budget = Bytes{});

/// What a user should know of `setting`, in one line without a full stop: its help, the choices
/// that its placeholder does not show, and its default.
[[nodiscard]] std::string description_of(const Setting& setting);

}  // namespace superpipe
