// The values that a user gave to settings, and what is wrong with them.
//
// The one place that parses and checks a setting's value, for a flag and for a variable alike.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/budget.h"
#include "policy/pin_list.h"
#include "settings/settings.h"

namespace superpipe {

/// Where a user gave a value.
enum class ValueSource { kVariable, kFlag };

/// One value as the user gave it.
struct GivenValue {
  SettingId id{};
  ValueSource source = ValueSource::kVariable;
  std::string text;  ///< never empty; "1" for a switch that was given as a flag

  /// What the user wrote it to: "SUPERPIPE_K" or "--k".
  [[nodiscard]] std::string name() const;
  /// As the user wrote it: "SUPERPIPE_K=4" or "--k 4", and "--strict" for a switch.
  [[nodiscard]] std::string spelled() const;
};

/// A value that cannot be taken.
struct SettingProblem {
  GivenValue given;
  std::string reason;  ///< what would be right, or what to do

  /// One line for the user: "SUPERPIPE_K=zero: must be a whole number of layers, at least 1".
  [[nodiscard]] std::string message() const;
};

/// A value of SettingKind::kLog, taken apart.
struct LogValue {
  std::string_view level;  ///< one of the setting's choices
  std::string file;        ///< empty: standard error
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char* name)>;

/// At most one value for each setting. Pure; not thread-safe while it is being filled.
///
/// A typed read REQUIRES a setting of that kind. It returns the default where no value was given or
/// where the one given is bad, so that the right values count even beside wrong ones.
class SettingValues {
 public:
  /// Sets the value of `id`, in place of an earlier one. An empty `text` leaves things as they are.
  void give(SettingId id, ValueSource source, std::string text);

  /// The value of `id` as it was given; null if none was.
  [[nodiscard]] const GivenValue* given(SettingId id) const;

  /// kCount; nullopt without a value and a default.
  [[nodiscard]] std::optional<int> count(SettingId id) const;
  /// kSize and kSizeOrZero; nullopt without a value and a default.
  [[nodiscard]] std::optional<SizeSpec> size(SettingId id) const;
  /// kChoice; one of the setting's choices, or empty without a value and a default.
  [[nodiscard]] std::string_view choice(SettingId id) const;
  /// kSwitch.
  [[nodiscard]] bool is_on(SettingId id) const;
  /// kPinList; empty without a value.
  [[nodiscard]] PinList pins(SettingId id) const;
  /// kLog.
  [[nodiscard]] LogValue log(SettingId id) const;
  /// The text that was given or is the default, unchecked; may be empty.
  [[nodiscard]] std::string text(SettingId id) const;

  /// Everything that is wrong: first each value by itself, then what the values ask for together.
  [[nodiscard]] std::vector<SettingProblem> problems() const;

 private:
  void check_schedule(std::vector<SettingProblem>& problems) const;

  std::array<std::optional<GivenValue>, kSettingCount> given_;
};

/// The values of all variables that are set in `environment`; an empty variable counts as unset.
[[nodiscard]] SettingValues read_variables(const Environment& environment);

}  // namespace superpipe
