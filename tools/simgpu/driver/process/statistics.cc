#include "tools/simgpu/driver/process/statistics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

struct KernelNames {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};

KernelNames& kernel_names() {
  static auto* const names = new KernelNames;
  return *names;
}

std::string milliseconds(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f", static_cast<double>(nanoseconds) * 1e-6);
  return text;
}

std::string fraction(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f", value);
  return text;
}

std::string number(std::uint64_t value) { return std::to_string(value); }

/// Entries of one function name in several files (ABI families) are summed. Names are identifiers:
/// nothing needs escaping.
std::string api_calls_json() {
  std::map<std::string, std::uint64_t> calls;
  for (const EntryPoint* entry = EntryPoint::first(); entry != nullptr; entry = entry->next()) {
    calls[entry->name()] += entry->calls();
  }
  std::string text = "{";
  for (const auto& [name, count] : calls) {
    if (text.size() > 1) text += ", ";
    text += "\"" + name + "\": " + number(count);
  }
  return text + "}";
}

std::string statistics_json() {
  const Statistics& counted = statistics();
  std::size_t kernels = 0;
  {
    KernelNames& known = kernel_names();
    const std::lock_guard lock{known.mutex};
    kernels = known.names.size();
  }
  std::string per_device = "[";
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (ordinal > 0) per_device += ", ";
    per_device += number(find_device(ordinal)->peak());
  }
  per_device += "]";
  std::string text = "{\n";
  text += "  \"peak_bytes\": " + number(peak_of_all_devices()) + ",\n";
  text += "  \"peak_bytes_per_device\": " + per_device + ",\n";
  text += "  \"host_page_bytes\": " + number(HostPages::instance().used()) + ",\n";
  text += "  \"peak_host_page_bytes\": " + number(HostPages::instance().peak()) + ",\n";
  text += "  \"h2d_bytes\": " + number(counted.h2d_bytes) + ",\n";
  text += "  \"d2h_bytes\": " + number(counted.d2h_bytes) + ",\n";
  text += "  \"in_place_read_bytes\": " + number(counted.in_place_read_bytes) + ",\n";
  text += "  \"in_place_written_bytes\": " + number(counted.in_place_written_bytes) + ",\n";
  text += "  \"launches\": " + number(counted.launches) + ",\n";
  text += "  \"kernels\": " + number(kernels) + ",\n";
  text += "  \"unmapped_accesses\": " + number(counted.unmapped_accesses) + ",\n";
  const std::int64_t busy = counted.busy_ns[0] + counted.busy_ns[1] + counted.busy_ns[2];
  const double share =
      busy == 0 ? 0.0 : static_cast<double>(counted.overrun_ns) / static_cast<double>(busy);
  text += "  \"overrun_ms\": " + milliseconds(counted.overrun_ns) + ",\n";
  text += "  \"overrun_share\": " + fraction(share) + ",\n";
  text += "  \"call_ms\": " + milliseconds(counted.call_ns) + ",\n";
  text += "  \"call_wait_ms\": " + milliseconds(counted.call_wait_ns) + ",\n";
  text += "  \"api_calls\": " + api_calls_json() + ",\n";
  text += "  \"busy_ms\": {\"compute\": " + milliseconds(counted.busy_ns[0]) +
          ", \"h2d\": " + milliseconds(counted.busy_ns[1]) +
          ", \"d2h\": " + milliseconds(counted.busy_ns[2]) + "}\n";
  return text + "}\n";
}

// Exit handlers of the program have run by then; other threads may still run.
__attribute__((destructor)) void at_exit() { write_statistics(); }

}  // namespace

Statistics& statistics() noexcept {
  static auto* const counters = new Statistics;
  return *counters;
}

void count_kernel(std::string_view name) {
  KernelNames& known = kernel_names();
  const std::lock_guard lock{known.mutex};
  if (known.names.find(name) == known.names.end()) known.names.emplace(name);
}

void write_statistics() noexcept {
  if (!initialized() || configuration().statistics_path.empty()) return;
  const std::string& path = configuration().statistics_path;
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  const std::string text = statistics_json();
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool good = file >= 0;
  if (good) {
    good = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    good = ::close(file) == 0 && good;
    good = good && ::rename(temporary.c_str(), path.c_str()) == 0;
    if (!good) ::unlink(temporary.c_str());
  }
  if (!good) log_line(LogLevel::kError, "cannot write the statistics to %s", path.c_str());
}

}  // namespace simgpu
