#include "tools/simgpu/driver/process/configuration.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "tools/simgpu/driver/faults/fault_injection.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

Configuration& mutable_configuration() {
  static auto* const values = new Configuration;  // never destroyed: threads outlive exit handlers
  return *values;
}

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

bool read_count(const char* name, int* target) {
  const char* const value = value_of(name);
  if (value == nullptr) return true;
  char* end = nullptr;
  const long number = std::strtol(value, &end, 10);
  if (*end != '\0' || number < 1 || number > 64) {
    return complain(name, value, "a number from 1 to 64");
  }
  *target = static_cast<int>(number);
  return true;
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

bool read_environment(Configuration* out) {
  bool good = read_log_level();
  good &= read_size("SIMGPU_MEMORY", std::uint64_t{4} << 20, &out->memory_bytes);
  good &= read_count("SIMGPU_DEVICES", &out->devices);
  constexpr const char* kBandwidth = "GB/s, a number above 0";
  good &= read_number("SIMGPU_H2D_GBPS", 0, true, kBandwidth, &out->h2d_gbps);
  good &= read_number("SIMGPU_D2H_GBPS", 0, true, kBandwidth, &out->d2h_gbps);
  out->pageable_gbps = 0.4 * out->h2d_gbps;
  good &= read_number("SIMGPU_PAGEABLE_GBPS", 0, true, kBandwidth, &out->pageable_gbps);
  good &= read_number("SIMGPU_D2D_GBPS", 0, true, kBandwidth, &out->d2d_gbps);
  constexpr const char* kTime = "microseconds, a number not below 0";
  good &= read_number("SIMGPU_KERNEL_US", 0, false, kTime, &out->kernel_us);
  good &= read_number("SIMGPU_CREATE_US", 0, false, kTime, &out->create_us);
  good &= read_number("SIMGPU_MAP_US", 0, false, kTime, &out->map_us);
  good &= read_number("SIMGPU_UNMAP_US", 0, false, kTime, &out->unmap_us);
  good &= read_number("SIMGPU_SET_ACCESS_US", 0, false, kTime, &out->set_access_us);
  good &= read_size("SIMGPU_CONTEXT_BYTES", 0, &out->context_bytes);
  good &= read_choice("SIMGPU_HOST_ACCESS", {"fault", "allowed"}, &out->host_access);
  good &= read_size("SIMGPU_OTHER_BYTES", 0, &out->other_bytes);
  if (out->other_bytes > out->memory_bytes) {
    good &= complain("SIMGPU_OTHER_BYTES", value_of("SIMGPU_OTHER_BYTES"),
                     "a size that is not above SIMGPU_MEMORY");
  }
  good &= read_size("SIMGPU_POOL_CHUNK", 1, &out->pool_chunk_bytes);
  good &= read_choice("SIMGPU_FILL", {"zero", "poison"}, &out->fill);
  good &= read_choice("SIMGPU_ARENA", {"high", "low"}, &out->arena);
  good &= read_count("SIMGPU_COMPUTE_ENGINES", &out->compute_engines);
  good &= read_choice("SIMGPU_PAGEABLE_STAGED", {"0", "1"}, &out->pageable_staged);
  good &= read_choice("SIMGPU_HOST_FUNCTIONS", {"parallel", "serial"}, &out->serial_host_functions);
  if (const char* const path = value_of("SIMGPU_STATS")) out->statistics_path = path;
  if (const char* const plugins = value_of("SIMGPU_KERNELS")) out->kernel_plugins = plugins;
  if (const char* const faults = value_of("SIMGPU_FAULTS")) {
    out->faults = faults;
    if (const std::string problem = set_faults(faults); !problem.empty()) {
      log_line(LogLevel::kError, "SIMGPU_FAULTS=%s is not valid: %s", faults, problem.c_str());
      good = false;
    }
  }
  return good;
}

}  // namespace

const Configuration& configuration() noexcept { return mutable_configuration(); }

bool load_configuration() {
  static const bool good = read_environment(&mutable_configuration());
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
