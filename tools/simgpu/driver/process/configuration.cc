#include "tools/simgpu/driver/process/configuration.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kSmallestMemory = std::uint64_t{4} << 20;

bool complain(const char* name, const char* value, const char* allowed) {
  log_line(LogLevel::kError, "%s=%s is not valid: it takes %s", name, value, allowed);
  return false;
}

const char* value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

bool read_size(const char* name, std::uint64_t smallest, std::uint64_t* target) {
  const char* const value = value_of(name);
  if (value == nullptr) return true;
  std::uint64_t bytes = 0;
  if (!parse_size(value, &bytes) || bytes < smallest) {
    return complain(name, value, "a size such as 512M, 16G or a number of bytes");
  }
  *target = bytes;
  return true;
}

bool read_number(const char* name, double smallest, bool exclusive, const char* allowed,
                 double* target) {
  const char* const value = value_of(name);
  if (value == nullptr) return true;
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(value, &end);
  if (errno != 0 || *end != '\0' || !std::isfinite(number) || number < smallest ||
      (exclusive && number == smallest)) {
    return complain(name, value, allowed);
  }
  *target = number;
  return true;
}

bool read_duplex(double* target) {
  double share = *target;
  constexpr const char* kShare = "a share of the link from 0.5 to 1";
  if (!read_number("SIMGPU_DUPLEX", 0.5, false, kShare, &share)) return false;
  if (share > 1) return complain("SIMGPU_DUPLEX", value_of("SIMGPU_DUPLEX"), kShare);
  *target = share;
  return true;
}

bool read_whole(const char* name, long most, const char* allowed, long* target) {
  const char* const value = value_of(name);
  if (value == nullptr) return true;
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  if (errno != 0 || *end != '\0' || number < 1 || number > most) {
    return complain(name, value, allowed);
  }
  *target = number;
  return true;
}

bool read_count(const char* name, int* target) {
  long number = *target;
  const bool good = read_whole(name, 64, "a number from 1 to 64", &number);
  *target = static_cast<int>(number);
  return good;
}

bool read_queue_depth(unsigned* target) {
  long number = *target;
  const bool good =
      read_whole("SIMGPU_QUEUE_DEPTH", 1'000'000'000, "a number of operations above 0", &number);
  *target = static_cast<unsigned>(number);
  return good;
}

/// Reads a variable that takes one of two values, which stand for 0 and 1 of `Choice`.
template <typename Choice>
bool read_choice(const char* name, const std::array<std::string_view, 2>& names, Choice* target) {
  const char* const value = value_of(name);
  if (value == nullptr) return true;
  if (value != names[0] && value != names[1]) {
    return complain(name, value, (std::string{names[0]} + " or " + std::string{names[1]}).c_str());
  }
  *target = static_cast<Choice>(value == names[1] ? 1 : 0);
  return true;
}

bool read_host_pages(Configuration* out) {
  constexpr std::array<std::pair<std::string_view, HostPagePolicy>, 5> kNames{
      {{"on", HostPagePolicy::kOn},
       {"off", HostPagePolicy::kOff},
       {"refused", HostPagePolicy::kRefused},
       {"crash", HostPagePolicy::kCrash},
       {"no-numa", HostPagePolicy::kNoNuma}}};
  bool good = true;
  if (const char* const value = value_of("SIMGPU_HOST_PAGES")) {
    const auto* const found = std::find_if(kNames.begin(), kNames.end(),
                                           [&](const auto& entry) { return entry.first == value; });
    if (found != kNames.end()) {
      out->host_pages = found->second;
    } else {
      good = complain("SIMGPU_HOST_PAGES", value, "on, off, refused, crash or no-numa");
    }
  }
  if (value_of("SIMGPU_HOST_PAGE_LIMIT") != nullptr) {
    out->host_page_limit = 0;
    good &= read_size("SIMGPU_HOST_PAGE_LIMIT", 0, &*out->host_page_limit);
  }
  good &=
      read_number("SIMGPU_HOST_REREAD", 0, true, "a number of times above 0", &out->host_reread);
  constexpr const char* kShare = "a share above 0, at most 1";
  good &= read_number("SIMGPU_HOST_SHARE", 0, true, kShare, &out->host_share);
  if (out->host_share > 1) {
    good &= complain("SIMGPU_HOST_SHARE", value_of("SIMGPU_HOST_SHARE"), kShare);
  }
  return good;
}

bool read_log_level() {
  const char* const value = value_of("SIMGPU_LOG");
  if (value == nullptr) return true;
  const std::string_view name{value};
  if (name == "error" || name == "off") {
    set_log_level(LogLevel::kError);
  } else if (name == "warning" || name == "warn") {
    set_log_level(LogLevel::kWarning);
  } else if (name == "info") {
    set_log_level(LogLevel::kInfo);
  } else if (name == "debug" || name == "trace") {
    set_log_level(LogLevel::kDebug);
  } else {
    return complain("SIMGPU_LOG", value, "error, warning, info or debug");
  }
  return true;
}

constexpr const char* kBandwidth = "GB/s, a number above 0";
constexpr const char* kTime = "microseconds, a number not below 0";

/// The preset, scaled.
bool read_preset(Card* card) {
  const char* const name = value_of("SIMGPU_PRESET");
  const Card* const chosen = name == nullptr ? &kPlainCard : find_card(name);
  if (chosen == nullptr) return complain("SIMGPU_PRESET", name, card_names().c_str());
  constexpr const char* kFactor = "a number not below 1";
  double slowdown = name == nullptr ? 1 : kUsualSlowdown;
  bool good = read_number("SIMGPU_SLOWDOWN", 1, false, kFactor, &slowdown);
  double scale = name == nullptr ? 1 : scale_for(*chosen, slowdown);
  good &= read_number("SIMGPU_SCALE", 1, false, kFactor, &scale);
  *card = scaled(*chosen, scale, slowdown);
  return good;
}

/// What is said of the card besides its name.
bool read_card(Card* card) {
  bool good = read_size("SIMGPU_MEMORY", kSmallestMemory, &card->memory_bytes);
  good &= read_number("SIMGPU_DEVICE_GBPS", 0, true, kBandwidth, &card->memory_gbps);
  constexpr double kTera = 1e3;  // operations per nanosecond
  for (const auto& [name, flops] : {std::pair{"SIMGPU_HALF_TFLOPS", &card->half_flops},
                                    std::pair{"SIMGPU_SINGLE_TFLOPS", &card->single_flops}}) {
    double tera = *flops / kTera;
    good &= read_number(name, 0, true, "TFLOP/s, a number above 0", &tera);
    *flops = tera * kTera;
  }
  good &= read_number("SIMGPU_H2D_GBPS", 0, true, kBandwidth, &card->h2d_gbps);
  good &= read_number("SIMGPU_D2H_GBPS", 0, true, kBandwidth, &card->d2h_gbps);
  good &= read_number("SIMGPU_PIN_GBPS", 0, true, kBandwidth, &card->pin_gbps);
  for (const auto& [name, nanoseconds] : {std::pair{"SIMGPU_COPY_US", &card->copy_ns},
                                          std::pair{"SIMGPU_LAUNCH_US", &card->launch_ns}}) {
    double microseconds = *nanoseconds / 1e3;
    good &= read_number(name, 0, false, kTime, &microseconds);
    *nanoseconds = microseconds * 1e3;
  }
  if (card->memory_bytes >= kSmallestMemory) {
    return read_duplex(&card->duplex) && good;
  }
  log_line(LogLevel::kError, "SIMGPU_SCALE leaves the device less than 4 MiB of memory");
  return false;
}

bool read_call_costs(Configuration* out) {
  const char* const value = value_of("SIMGPU_CALL_COSTS");
  // A card that is simulated at all is simulated with its driver.
  const bool preset = value_of("SIMGPU_PRESET") != nullptr;
  const std::string_view word = value != nullptr ? value : preset ? "on" : "off";
  double factor = out->card.call_factor;
  if (word != "on" && word != "off" &&
      !read_number("SIMGPU_CALL_COSTS", 0, true, "on, off or a factor above 0", &factor)) {
    return false;
  }
  if (word != "off") out->calls.set_all(factor, out->card.pin_gbps);
  bool good = true;
  for (const auto& [name, function] :
       {std::pair{"SIMGPU_CREATE_US", "cuMemCreate"}, std::pair{"SIMGPU_MAP_US", "cuMemMap"},
        std::pair{"SIMGPU_UNMAP_US", "cuMemUnmap"},
        std::pair{"SIMGPU_SET_ACCESS_US", "cuMemSetAccess"}}) {
    double microseconds = -1;
    good &= read_number(name, 0, false, kTime, &microseconds);
    if (microseconds >= 0) out->calls.set(function, microseconds * 1e3);
  }
  return good;
}

}  // namespace

bool read_configuration(Configuration* out) {
  bool good = read_log_level();
  good &= read_preset(&out->card) && read_card(&out->card);
  good &= read_count("SIMGPU_DEVICES", &out->devices);
  out->pageable_gbps = 0.4 * out->card.h2d_gbps;
  good &= read_number("SIMGPU_PAGEABLE_GBPS", 0, true, kBandwidth, &out->pageable_gbps);
  // A copy reads and writes, a fill only writes.
  out->d2d_gbps = out->card.memory_gbps / 2;
  out->fill_gbps = out->card.memory_gbps;
  if (value_of("SIMGPU_D2D_GBPS") != nullptr) {
    good &= read_number("SIMGPU_D2D_GBPS", 0, true, kBandwidth, &out->d2d_gbps);
    out->fill_gbps = out->d2d_gbps;
  }
  if (value_of("SIMGPU_KERNEL_US") != nullptr) {
    out->kernel_us = 0;
    good &= read_number("SIMGPU_KERNEL_US", 0, false, kTime, &*out->kernel_us);
  }
  good &= read_call_costs(out);
  good &= read_choice("SIMGPU_IMPLICIT_SYNC", {"off", "on"}, &out->implicit_sync);
  if (out->implicit_sync) out->calls.set_implicit_sync();
  good &= read_queue_depth(&out->queue_depth);
  good &= read_size("SIMGPU_CONTEXT_BYTES", 0, &out->context_bytes);
  good &= read_choice("SIMGPU_HOST_ACCESS", {"fault", "allowed"}, &out->host_access);
  good &= read_size("SIMGPU_OTHER_BYTES", 0, &out->other_bytes);
  if (out->other_bytes > out->card.memory_bytes) {
    good &= complain("SIMGPU_OTHER_BYTES", value_of("SIMGPU_OTHER_BYTES"),
                     "a size that is not above SIMGPU_MEMORY");
  }
  if (const char* const file = value_of("SIMGPU_OTHER_FILE")) out->other_file = file;
  if (const char* const file = value_of("SIMGPU_SHARED_FILE")) out->shared_file = file;
  good &= read_choice("SIMGPU_PROCESSES", {"told", "hidden"}, &out->processes_hidden);
  good &= read_size("SIMGPU_POOL_CHUNK", 1, &out->pool_chunk_bytes);
  good &= read_choice("SIMGPU_FILL", {"zero", "poison"}, &out->fill);
  good &= read_choice("SIMGPU_ARENA", {"high", "low"}, &out->arena);
  good &= read_count("SIMGPU_COMPUTE_ENGINES", &out->compute_engines);
  good &= read_choice("SIMGPU_PAGEABLE_STAGED", {"0", "1"}, &out->pageable_staged);
  good &= read_choice("SIMGPU_HOST_FUNCTIONS", {"parallel", "serial"}, &out->serial_host_functions);
  good &= read_choice("SIMGPU_MIXERS", {"off", "on"}, &out->mixers_write);
  good &= read_choice("SIMGPU_OPERANDS", {"copied", "live"}, &out->live_operands);
  good &= read_choice("SIMGPU_MAPPED_PEERS", {"off", "on"}, &out->mapped_peers);
  good &= read_host_pages(out);
  if (const char* const path = value_of("SIMGPU_STATS")) out->statistics_path = path;
  if (const char* const plugins = value_of("SIMGPU_KERNELS")) out->kernel_plugins = plugins;
  if (const char* const faults = value_of("SIMGPU_FAULTS")) out->faults = faults;
  return good;
}

bool parse_size(std::string_view text, std::uint64_t* bytes) {
  std::uint64_t number = 0;
  std::size_t position = 0;
  while (position < text.size() && text[position] >= '0' && text[position] <= '9') {
    const auto digit = static_cast<std::uint64_t>(text[position] - '0');
    if (number > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return false;
    number = number * 10 + digit;
    ++position;
  }
  if (position == 0) return false;
  std::string_view unit = text.substr(position);
  unsigned shift = 0;
  if (!unit.empty()) {
    constexpr std::string_view kUnits = "KMGT";
    const std::size_t power = kUnits.find(unit.front());
    if (power == std::string_view::npos) return false;
    shift = static_cast<unsigned>(10 * (power + 1));
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "iB") return false;
  }
  if (number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return false;
  *bytes = number << shift;
  return true;
}

}  // namespace simgpu
