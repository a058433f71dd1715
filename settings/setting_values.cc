#include "settings/setting_values.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "policy/policy_engine.h"

namespace superpipe {
namespace {

std::optional<int> parse_count(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 1) return std::nullopt;
  return number;
}

std::optional<SizeSpec> parse_size_of(const Setting& setting, std::string_view text) {
  const auto size = parse_size(text);
  if (!size) return std::nullopt;
  if (size->is_percentage()) return setting.whole.empty() ? std::nullopt : size;
  const bool zero = size->resolve(Bytes{}) == Bytes{};
  return zero && setting.kind != SettingKind::kSizeOrZero ? std::nullopt : size;
}

/// The setting's own text of the choice, which outlives `text`; empty if it is none.
std::string_view parse_choice(const Setting& setting, std::string_view text) {
  const auto found = std::find(setting.choices.begin(), setting.choices.end(), text);
  return found == setting.choices.end() ? std::string_view() : *found;
}

std::optional<LogValue> parse_log(const Setting& setting, std::string_view text) {
  const std::size_t colon = text.find(':');
  std::string_view level = text.substr(0, colon);
  if (level == "warn") level = "warning";
  LogValue value{parse_choice(setting, level), {}};
  if (value.level.empty()) return std::nullopt;
  if (colon == std::string_view::npos) return value;
  value.file = text.substr(colon + 1);
  if (value.file.empty()) return std::nullopt;
  return value;
}

/// "must be one of a, b".
std::string must_be_a_choice(const Setting& setting) {
  std::string text = "must be one of ";
  for (const std::string_view& choice : setting.choices) {
    if (&choice != &setting.choices.front()) text += ", ";
    text += choice;
  }
  return text;
}

std::string must_be_a_size(const Setting& setting) {
  std::string text = "must be a size";
  if (setting.kind == SettingKind::kSize) text += " above 0";
  text += ": bytes, or K, M, G, T as powers of 1024 (16M, 1.5G)";
  if (!setting.whole.empty()) {
    text += ", or a percentage of " + std::string(setting.whole) + " (40%)";
  }
  return text;
}

std::string what_is_wrong_with_log(const Setting& setting, std::string_view text) {
  std::string reason;
  if (text.front() == ':') {
    reason = "there is no level before the colon; ";
  } else if (text.back() == ':') {
    reason = "there is no file after the colon; ";
  }
  return reason + "must be LEVEL or LEVEL:FILE, and LEVEL " + must_be_a_choice(setting);
}

/// What a user shall do who gave a value from `source` and should not have.
std::string advice_to_drop(ValueSource source) {
  return source == ValueSource::kFlag ? "leave it out" : "unset it";
}

/// The verb for giving a value by a flag or by a variable.
std::string verb_for(ValueSource source) { return source == ValueSource::kFlag ? "give" : "set"; }

std::string name_in(SettingId id, ValueSource source) {
  return source == ValueSource::kFlag ? setting(id).flag : setting(id).variable;
}

/// How a user who gave a value from `source` would give one to `id`: "--k N" or "SUPERPIPE_K".
std::string usage_of(SettingId id, ValueSource source) {
  const std::string name = name_in(id, source);
  return source == ValueSource::kFlag ? name + ' ' + setting(id).placeholder : name;
}

/// Why a value cannot be taken, whatever the others are; nullopt if it can.
std::optional<std::string> reason_against(const GivenValue& given) {
  const Setting& its = setting(given.id);
  const std::string& text = given.text;
  switch (its.kind) {
    case SettingKind::kCount:
      if (parse_count(text)) return std::nullopt;
      return "must be a whole number of " + std::string(its.unit) + ", at least 1";
    case SettingKind::kSize:
    case SettingKind::kSizeOrZero:
      if (parse_size_of(its, text)) return std::nullopt;
      return must_be_a_size(its);
    case SettingKind::kChoice: {
      if (!parse_choice(its, text).empty()) return std::nullopt;
      const bool later = std::find(its.later.begin(), its.later.end(), text) != its.later.end();
      return (later ? "not available in this version; " : "") + must_be_a_choice(its);
    }
    case SettingKind::kSwitch:
      if (text == "1" || text == "0") return std::nullopt;
      return "must be 1 or 0";
    case SettingKind::kPinList:
      if (PinList::parse(text)) return std::nullopt;
      return "must be numbers of buffers (12,15-17), counted from 1, or sizes with a unit "
             "(8M,1M-2M,33554432B)";
    case SettingKind::kLog:
      if (parse_log(its, text)) return std::nullopt;
      return what_is_wrong_with_log(its, text);
    case SettingKind::kOutputFile:
    case SettingKind::kInputFile:
    case SettingKind::kFolder:
    case SettingKind::kLibraryFile:
      break;  // whether it can be opened is not for policy to find out
  }
  return std::nullopt;
}

}  // namespace

std::string GivenValue::name() const { return name_in(id, source); }

std::string GivenValue::spelled() const {
  if (source == ValueSource::kVariable) return name() + '=' + text;
  return setting(id).kind == SettingKind::kSwitch ? name() : name() + ' ' + text;
}

std::string SettingProblem::message() const { return given.spelled() + ": " + reason; }

void SettingValues::give(SettingId id, ValueSource source, std::string text) {
  if (text.empty()) return;
  // The ledger's variable used to name its folder, and scripts still do.
  if (id == SettingId::kHostLedger && text.front() == '/') {
    if (given(SettingId::kSharedFolder) == nullptr) give(SettingId::kSharedFolder, source, text);
    text = "shared";
  }
  given_[index_of(id)] = GivenValue{id, source, std::move(text)};
}

const GivenValue* SettingValues::given(SettingId id) const {
  const auto& value = given_[index_of(id)];
  return value ? &*value : nullptr;
}

std::string SettingValues::text(SettingId id) const {
  const GivenValue* const value = given(id);
  return value != nullptr ? value->text : setting(id).default_value;
}

std::optional<int> SettingValues::count(SettingId id) const {
  if (const auto number = parse_count(text(id))) return number;
  return parse_count(setting(id).default_value);
}

std::optional<SizeSpec> SettingValues::size(SettingId id) const {
  const Setting& its = setting(id);
  if (const auto size = parse_size_of(its, text(id))) return size;
  return parse_size_of(its, its.default_value);
}

std::string_view SettingValues::choice(SettingId id) const {
  const Setting& its = setting(id);
  const std::string_view chosen = parse_choice(its, text(id));
  return chosen.empty() ? std::string_view(its.default_value) : chosen;
}

bool SettingValues::is_on(SettingId id) const { return text(id) == "1"; }

PinList SettingValues::pins(SettingId id) const {
  return PinList::parse(text(id)).value_or(PinList());
}

LogValue SettingValues::log(SettingId id) const {
  const Setting& its = setting(id);
  if (auto value = parse_log(its, text(id))) return *value;
  return LogValue{its.default_value, {}};
}

void SettingValues::check_schedule(std::vector<SettingProblem>& problems) const {
  const GivenValue* const k = given(SettingId::kK);
  const GivenValue* const k_prime = given(SettingId::kKPrime);
  const GivenValue* const gpu_mem = given(SettingId::kGpuMem);
  const GivenValue* const policy = given(SettingId::kPolicy);
  if (k != nullptr && gpu_mem != nullptr) {
    problems.push_back({*gpu_mem, k->name() + " and " + gpu_mem->name() +
                                      " both say how much stays on the device; give one of them, "
                                      "not both"});
  }

  const auto k_number = count(SettingId::kK);
  const auto k_prime_number = count(SettingId::kKPrime);
  if (k_prime_number && k == nullptr) {
    std::string reason = "has no meaning without " + name_in(SettingId::kK, k_prime->source) + "; ";
    if (gpu_mem != nullptr) {
      reason += "with " + gpu_mem->name() + " it follows from the k that fits";
    } else {
      reason += verb_for(k_prime->source) + " it too";
    }
    problems.push_back({*k_prime, std::move(reason)});
  }
  if (k_prime_number && k_number && *k_number == 1) {
    problems.push_back({*k_prime, "has no meaning with " + k->spelled() +
                                      ", which moves one layer at a time; " +
                                      advice_to_drop(k_prime->source)});
  } else if (k_prime_number && k_number && *k_prime_number >= *k_number) {
    problems.push_back({*k_prime, "must be below " + k->name() + ", which is " + k->text +
                                      ": k' layers arrive while the other k - k' run"});
  }

  const auto kind = policy_from_name(choice(SettingId::kPolicy));
  if (policy == nullptr || !kind) return;
  if (counts_bytes(*kind) && k != nullptr) {
    problems.push_back({*policy, "counts in bytes, not in layers: it goes with " +
                                     usage_of(SettingId::kGpuMem, policy->source) +
                                     ", and not with " + k->name()});
  } else if (counts_layers(*kind) && k == nullptr && gpu_mem == nullptr) {
    problems.push_back({*policy, "needs " + usage_of(SettingId::kK, policy->source) + " or " +
                                     usage_of(SettingId::kGpuMem, policy->source) + "; " +
                                     verb_for(policy->source) + " one of them"});
  }
  // A variable may be left over from elsewhere; flags stand beside each other on one line.
  const auto is_flag = [](const GivenValue* value) {
    return value != nullptr && value->source == ValueSource::kFlag;
  };
  if (*kind == PolicyKind::kResident && is_flag(policy) && (is_flag(k) || is_flag(gpu_mem))) {
    problems.push_back(
        {*policy, "keeps everything on the device, and goes with neither --k nor --gpu-mem"});
  }
}

std::vector<SettingProblem> SettingValues::problems() const {
  std::vector<SettingProblem> found;
  for (const auto& value : given_) {
    if (!value) continue;
    if (auto reason = reason_against(*value)) found.push_back({*value, *std::move(reason)});
  }
  check_schedule(found);
  return found;
}

SettingValues read_variables(const Environment& environment) {
  SettingValues values;
  for (const Setting& one : all_settings()) {
    if (!one.has_variable()) continue;
    if (const char* const text = environment(one.variable)) {
      values.give(one.id, ValueSource::kVariable, text);
    }
  }
  return values;
}

}  // namespace superpipe
