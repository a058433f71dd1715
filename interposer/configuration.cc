#include "interposer/configuration.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace superpipe {
namespace {

/// Reads variables one by one and collects what is wrong with them.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  /// The value of `name`, or nullopt if it is unset or empty.
  std::optional<std::string> text(const char* name) const {
    const char* const value = environment_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  }

  void reject(const char* name, const std::string& value, std::string allowed) {
    errors_.push_back({name, value, std::move(allowed)});
  }

  std::optional<int> whole_number(const char* name, int least, const char* allowed) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int number = 0;
    const char* const end = value->data() + value->size();
    const auto [stop, problem] = std::from_chars(value->data(), end, number);
    if (problem != std::errc() || stop != end || number < least) {
      reject(name, *value, allowed);
      return std::nullopt;
    }
    return number;
  }

  std::optional<SizeSpec> size(const char* name, const char* allowed) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    auto size = parse_size(*value);
    if (!size || (!size->is_percentage() && size->resolve(Bytes{}) == Bytes{})) {
      reject(name, *value, allowed);
      return std::nullopt;
    }
    return size;
  }

  /// Whether `name` is `on` rather than `off`; `preset` if it is unset.
  bool choice(const char* name, std::string_view on, std::string_view off, bool preset) {
    const auto value = text(name);
    if (!value) return preset;
    if (*value == on) return true;
    if (*value == off) return false;
    reject(name, *value, "must be " + std::string(on) + " or " + std::string(off));
    return preset;
  }

  /// A variable of a feature that this version lacks.
  void not_available(const char* name) {
    if (const auto value = text(name)) {
      reject(name, *value, "not available in this version; unset it");
    }
  }

  std::vector<ConfigurationError> take_errors() { return std::move(errors_); }

 private:
  const Environment& environment_;
  std::vector<ConfigurationError> errors_;
};

constexpr char kSizeAllowed[] =
    "must be a size above 0: bytes, or K, M, G, T as powers of 1024 (16M, 1.5G), or a percentage "
    "(40%)";

std::optional<LogLevel> log_level_from_name(std::string_view name) {
  constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
      {"debug", LogLevel::kDebug},  {"info", LogLevel::kInfo},   {"warning", LogLevel::kWarning},
      {"warn", LogLevel::kWarning}, {"error", LogLevel::kError}, {"off", LogLevel::kOff}};
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  return std::nullopt;
}

void read_log(Reader& reader, Configuration& configuration) {
  const auto value = reader.text("SUPERPIPE_LOG");
  if (!value) return;
  const std::size_t colon = value->find(':');
  const auto level = log_level_from_name(value->substr(0, colon));
  if (!level || colon == value->size() - 1) {
    reader.reject("SUPERPIPE_LOG", *value,
                  "must be debug, info, warning, error or off, with or without :FILE");
    return;
  }
  configuration.log_level = *level;
  if (colon != std::string::npos) configuration.log_file = value->substr(colon + 1);
}

std::optional<PolicyKind> read_policy(Reader& reader) {
  const auto value = reader.text("SUPERPIPE_POLICY");
  if (!value) return std::nullopt;
  const auto kind = policy_from_name(*value);
  if (!kind) {
    constexpr char kKnown[] = "must be resident, naive, superpipeline or superpipeline-paper";
    const bool later = *value == "lru" || *value == "auto";
    reader.reject(
        "SUPERPIPE_POLICY", *value,
        later ? std::string("not available in this version; ") + kKnown : std::string(kKnown));
  }
  return kind;
}

/// The checks that concern several variables at once.
void read_schedule(Reader& reader, Configuration& configuration) {
  const auto named = read_policy(reader);
  const bool policy_is_bad = !named && reader.text("SUPERPIPE_POLICY").has_value();
  auto k = reader.whole_number("SUPERPIPE_K", 1, "must be a whole number of layers, 1 or more");
  auto k_prime = reader.whole_number("SUPERPIPE_K_PRIME", 1,
                                     "must be a whole number of layers, 1 or more and below "
                                     "SUPERPIPE_K");
  auto budget = reader.size("SUPERPIPE_GPU_MEM", kSizeAllowed);
  const bool k_given = reader.text("SUPERPIPE_K").has_value();
  const bool budget_given = reader.text("SUPERPIPE_GPU_MEM").has_value();
  if (k_given && budget_given) {
    reader.reject("SUPERPIPE_GPU_MEM", *reader.text("SUPERPIPE_GPU_MEM"),
                  "set SUPERPIPE_K or SUPERPIPE_GPU_MEM, not both");
  }
  if (k_prime && !k_given) {
    reader.reject("SUPERPIPE_K_PRIME", std::to_string(*k_prime),
                  "has no meaning without SUPERPIPE_K; set it too");
  }
  if (k && k_prime && *k_prime >= *k && *k > 1) {
    reader.reject("SUPERPIPE_K_PRIME", std::to_string(*k_prime),
                  "must be below SUPERPIPE_K, which is " + std::to_string(*k));
  }
  if (k && k_prime && *k == 1) {
    reader.reject("SUPERPIPE_K_PRIME", std::to_string(*k_prime),
                  "has no meaning with SUPERPIPE_K=1, which moves one layer at a time; unset it");
  }
  const bool limited = k_given || budget_given;
  PolicyKind kind = named.value_or(limited ? PolicyKind::kSuperpipeline : PolicyKind::kResident);
  if (kind != PolicyKind::kResident && !limited && !policy_is_bad) {
    reader.reject("SUPERPIPE_POLICY", std::string(name_of(kind)),
                  "needs SUPERPIPE_K or SUPERPIPE_GPU_MEM; set one of them");
  }
  if (kind == PolicyKind::kResident) {
    configuration.policy = kind;
    return;
  }
  if (k == 1 && kind == PolicyKind::kSuperpipeline) kind = PolicyKind::kNaive;
  configuration.policy = kind;
  configuration.k = k;
  configuration.gpu_mem = budget;
  if (k && *k > 1 && kind != PolicyKind::kNaive) {
    configuration.k_prime = k_prime ? *k_prime : std::max(1, *k / 2);
  }
}

}  // namespace

std::string ConfigurationError::message() const { return variable + "=" + value + ": " + allowed; }

ReadConfiguration read_configuration(const Environment& environment) {
  Reader reader(environment);
  ReadConfiguration result;
  Configuration& configuration = result.configuration;
  configuration.off = reader.choice("SUPERPIPE_OFF", "1", "0", false);
  configuration.strict = reader.choice("SUPERPIPE_STRICT", "1", "0", false);
  read_log(reader, configuration);
  read_schedule(reader, configuration);
  configuration.host_mem = reader.size("SUPERPIPE_HOST_MEM", kSizeAllowed);
  if (const auto size = reader.size("SUPERPIPE_MIN_BUFFER", kSizeAllowed)) {
    if (size->is_percentage()) {
      reader.reject("SUPERPIPE_MIN_BUFFER", *reader.text("SUPERPIPE_MIN_BUFFER"),
                    "must be bytes, or K, M, G as powers of 1024 (1M)");
    } else {
      configuration.min_buffer = size->resolve(Bytes{});
    }
  }
  configuration.async_allocators = reader.choice("SUPERPIPE_ALLOCATOR", "async", "native", true);
  if (const auto limit = reader.whole_number("SUPERPIPE_WAIT_MS", 1,
                                             "must be a whole number of milliseconds, 1 or more")) {
    configuration.wait_limit = std::chrono::milliseconds(*limit);
  }
  configuration.zero_fill = reader.choice("SUPERPIPE_FILL", "zero", "none", false);
  configuration.overflow_allowed = reader.choice("SUPERPIPE_OVERFLOW", "allow", "fail", false);
  configuration.report_real_memory =
      reader.choice("SUPERPIPE_REPORT_MEM", "real", "virtual", false);
  configuration.summary = reader.choice("SUPERPIPE_SUMMARY", "1", "0", false);
  configuration.stats_file = reader.text("SUPERPIPE_STATS").value_or("");
  configuration.timeline_file = reader.text("SUPERPIPE_TIMELINE").value_or("");
  if (const auto value = reader.text("SUPERPIPE_WRITEBACK"); value && *value != "always") {
    reader.reject(
        "SUPERPIPE_WRITEBACK", *value,
        *value == "digest" ? "not available in this version; must be always" : "must be always");
  }
  if (const auto value = reader.text("SUPERPIPE_EVICTED");
      value && *value != "auto" && *value != "unmapped") {
    reader.reject("SUPERPIPE_EVICTED", *value,
                  *value == "host-mapped"
                      ? "not available in this version; must be auto or unmapped"
                      : "must be auto or unmapped");
  }
  reader.not_available("SUPERPIPE_PLAN");
  reader.not_available("SUPERPIPE_TRACE");
  result.errors = reader.take_errors();
  return result;
}

}  // namespace superpipe
