#include "tools/superpipe/driver_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "policy/requirements.h"
#include "tools/superpipe/write_all.h"

namespace superpipe::cli {
namespace {

// The few driver calls that are needed, declared here: tools do not see NVIDIA's headers. The
// numbers are CUdevice_attribute's and part of the driver's ABI.
using CuInit = int (*)(unsigned);
using CuDriverGetVersion = int (*)(int*);
using CuDeviceGetCount = int (*)(int*);
using CuDeviceGet = int (*)(int*, int);
using CuDeviceGetName = int (*)(char*, int, int);
using CuDeviceTotalMem = int (*)(std::size_t*, int);
using CuDeviceGetAttribute = int (*)(int*, int, int);
using CuGetErrorName = int (*)(int, const char**);
constexpr int kAsyncEngineCount = 40;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kVirtualMemoryManagement = 102;
constexpr int kMemoryPools = 115;
constexpr int kHostNumaId = 134;
constexpr int kHostNumaVirtualMemory = 141;
constexpr int kPciBus = 33, kPciDevice = 34, kPciDomain = 50;

struct Capability {
  const char* name;
  int attribute;
};

constexpr Capability kCapabilities[] = {
    {"virtual_memory", kVirtualMemoryManagement},
    {"memory_pools", kMemoryPools},
    {"host_numa_pages", kHostNumaVirtualMemory},
    {"host_pages", 145},
    {"copy_engines", kAsyncEngineCount},
    {"generic_compression", 107},
    {"unified_addressing", 41},
    {"host_memory_can_be_registered", 99},
    {"registered_memory_keeps_its_address", 91},
    {"native_atomics_on_host_memory", 86},
    {"pageable_memory_access", 88},
    {"tensor_maps", 127},
    {"concurrent_kernels", 31},
    {"kernel_time_limit", 17},
    {"compute_preemption", 90},
    {"integrated", 18},
    {"ecc", 32},
    {"multiprocessors", 16},
    {"l2_cache_bytes", 38},
    {"memory_clock_khz", 36},
    {"memory_bus_bits", 37},
};

// What the child tells, one line each: a letter, a space, text. 's' names the step that begins, so
// that the last one says where a crash happened.
class StepReport {
 public:
  explicit StepReport(int fd) : fd_(fd) {}
  void line(char kind, const std::string& text) const {
    std::string out = std::string(1, kind) + " " + text;
    for (char& c : out) {
      if (c == '\n') c = ' ';
    }
    write_all(fd_, out + '\n');
  }

 private:
  int fd_;
};

template <typename Function>
Function entry(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string name_of_error(void* library, int code) {
  const auto get_name = entry<CuGetErrorName>(library, "cuGetErrorName");
  const char* name = nullptr;
  if (get_name != nullptr && get_name(code, &name) == 0 && name != nullptr) return name;
  return "error " + std::to_string(code);
}

void describe_device(void* library, int index, const StepReport& report) {
  const auto get = entry<CuDeviceGet>(library, "cuDeviceGet");
  const auto get_name = entry<CuDeviceGetName>(library, "cuDeviceGetName");
  const auto total_memory = entry<CuDeviceTotalMem>(library, "cuDeviceTotalMem_v2");
  const auto get_attribute = entry<CuDeviceGetAttribute>(library, "cuDeviceGetAttribute");
  int device = 0;
  std::array<char, 256> name{};
  std::size_t total = 0;
  if (get == nullptr || get_name == nullptr || total_memory == nullptr ||
      get_attribute == nullptr || get(&device, index) != 0 ||
      get_name(name.data(), static_cast<int>(name.size()) - 1, device) != 0 ||
      total_memory(&total, device) != 0) {
    return;
  }
  std::ostringstream fields;
  fields << total;
  for (const int attribute :
       {kComputeCapabilityMajor, kComputeCapabilityMinor, kAsyncEngineCount,
        kVirtualMemoryManagement, kMemoryPools, kHostNumaVirtualMemory, kHostNumaId}) {
    int value = attribute == kHostNumaId ? -1 : 0;
    if (get_attribute(&value, attribute, device) != 0) value = attribute == kHostNumaId ? -1 : 0;
    fields << ' ' << value;
  }
  report.line('d', fields.str() + ' ' + name.data());
  for (const Capability& capability : kCapabilities) {
    int value = 0;
    if (get_attribute(&value, capability.attribute, device) != 0) continue;
    report.line('c', std::string(capability.name) + ' ' + std::to_string(value));
  }
  int bus = 0, slot = 0, domain = 0;
  if (get_attribute(&bus, kPciBus, device) == 0 && get_attribute(&slot, kPciDevice, device) == 0 &&
      get_attribute(&domain, kPciDomain, device) == 0) {
    std::array<char, 32> address{};
    std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(domain),
                  static_cast<unsigned>(bus), static_cast<unsigned>(slot));
    report.line('b', address.data());
  }
}

// Runs in the child. Returns nothing: all it found is in the report.
void probe(const std::string& name, ProbeDepth depth, const StepReport& report) {
  report.line('s', "loading it");
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    report.line('x', why != nullptr ? why : "it cannot be loaded");
    return;
  }
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') {
    report.line('p', map->l_name);
  }
  const auto init = entry<CuInit>(library, "cuInit");
  if (init == nullptr) {
    report.line('n', "it has no cuInit");
    return;
  }
  report.line('s', "cuDriverGetVersion");
  const auto get_version = entry<CuDriverGetVersion>(library, "cuDriverGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) version = 0;
  report.line('v', std::to_string(version));
  if (version != 0 && version < kOldestDriver) {
    report.line('o', "it is of CUDA " + cuda_version(version) + ", and superpipe needs " +
                         cuda_version(kOldestDriver) + " or newer");
    return;
  }
  if (dlsym(library, "cuGetProcAddress_v2") == nullptr) {
    report.line('n', "it has no cuGetProcAddress_v2");
    return;
  }
  if (dlsym(library, "cuMemcpyBatchAsync") != nullptr ||
      dlsym(library, "cuMemcpyBatchAsync_v2") != nullptr) {
    report.line('f', "cuMemcpyBatchAsync");
  }
  if (depth == ProbeDepth::kDevices) {
    report.line('s', "cuInit");
    if (const int code = init(0); code != 0) {
      report.line('i', "cuInit: " + name_of_error(library, code));
      return;
    }
    report.line('s', "cuDeviceGetCount");
    const auto get_count = entry<CuDeviceGetCount>(library, "cuDeviceGetCount");
    int count = 0;
    if (get_count == nullptr || get_count(&count) != 0) count = 0;
    for (int index = 0; index < count; ++index) {
      report.line('s', "describing device " + std::to_string(index));
      describe_device(library, index, report);
    }
  }
  report.line('u', "usable");
}

void read_device(const std::string& text, DriverProbe& found) {
  ProbedDevice device;
  int virtual_memory = 0, pools = 0, host_located = 0;
  std::istringstream fields(text);
  fields >> device.total_bytes >> device.compute_major >> device.compute_minor >>
      device.copy_engines >> virtual_memory >> pools >> host_located >> device.host_numa_node;
  if (!fields) return;
  std::getline(fields >> std::ws, device.name);
  device.virtual_memory = virtual_memory != 0;
  device.memory_pools = pools != 0;
  device.host_located_memory = host_located != 0;
  found.devices.push_back(std::move(device));
}

// Reads the child's report. Returns the last step it began; `answered` says whether it came to an
// end by itself.
std::string read_report(const std::string& text, DriverProbe& found, bool& answered) {
  using Outcome = DriverProbe::Outcome;
  std::string step;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 2) continue;
    const std::string rest = line.substr(2);
    switch (line[0]) {
      case 's':
        step = rest;
        break;
      case 'p':
        found.path = rest;
        break;
      case 'v':
        found.version = std::atoi(rest.c_str());
        break;
      case 'd':
        read_device(rest, found);
        break;
      case 'c': {
        std::istringstream fields(rest);
        std::string name;
        int value = 0;
        if (fields >> name >> value && !found.devices.empty()) {
          found.devices.back().capabilities.emplace_back(name, value);
        }
        break;
      }
      case 'b':
        if (!found.devices.empty()) found.devices.back().pci_address = rest;
        break;
      case 'f':
        found.batch_copies = true;
        break;
      case 'u':
        found.outcome = Outcome::kUsable;
        answered = true;
        break;
      case 'n':
        found.outcome = Outcome::kNotADriver;
        found.detail = rest;
        answered = true;
        break;
      case 'o':
        found.outcome = Outcome::kTooOld;
        found.detail = rest;
        answered = true;
        break;
      case 'i':
        found.outcome = Outcome::kInitFailed;
        found.detail = rest;
        answered = true;
        break;
      case 'x': {
        // The loader gives one text for all that can go wrong; only this one means that there is
        // nothing.
        const bool absent =
            rest.find("cannot open shared object file: No such file") != std::string::npos;
        found.outcome = absent ? Outcome::kNotFound : Outcome::kNotADriver;
        found.detail = rest;
        answered = true;
        break;
      }
      default:
        break;
    }
  }
  return step;
}

// All that comes from `fd` until it is closed or `limit` has passed. False if it passed.
bool read_until(int fd, std::chrono::milliseconds limit, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

int ProbedDevice::capability(std::string_view wanted) const {
  for (const auto& [known, value] : capabilities) {
    if (known == wanted) return value;
  }
  return 0;
}

bool DriverProbe::is_simulated() const {
  return !devices.empty() && devices.front().name.rfind("simgpu", 0) == 0;
}

DriverProbe probe_driver(const std::string& library, ProbeDepth depth,
                         std::chrono::milliseconds limit) {
  DriverProbe found;
  found.path = library;
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    found.outcome = DriverProbe::Outcome::kHung;
    found.detail = std::string("no pipe for the probe: ") + std::strerror(errno);
    return found;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    // What the driver prints is not part of our answer, and _exit leaves its static destructors
    // alone.
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) {
      dup2(null, STDOUT_FILENO);
      dup2(null, STDERR_FILENO);
    }
    probe(library, depth, StepReport(pipe_ends[1]));
    _exit(0);
  }
  close(pipe_ends[1]);
  if (child < 0) {
    close(pipe_ends[0]);
    found.outcome = DriverProbe::Outcome::kHung;
    found.detail = std::string("no process for the probe: ") + std::strerror(errno);
    return found;
  }
  std::string text;
  const bool closed = read_until(pipe_ends[0], limit, text);
  close(pipe_ends[0]);
  if (!closed) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  bool answered = false;
  const std::string step = read_report(text, found, answered);
  if (answered) return found;
  if (!closed) {
    found.outcome = DriverProbe::Outcome::kHung;
    found.detail = "no answer within " + std::to_string(limit.count() / 1000) + " s while " + step;
  } else {
    found.outcome = DriverProbe::Outcome::kCrashed;
    found.detail = "it crashed while " + step;
    if (WIFSIGNALED(status)) found.detail += std::string(" (") + strsignal(WTERMSIG(status)) + ")";
  }
  return found;
}

}  // namespace superpipe::cli
