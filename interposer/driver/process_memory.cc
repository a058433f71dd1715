#include "interposer/driver/process_memory.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <new>
#include <string_view>
#include <vector>

#include "interposer/driver/loader.h"
#include "interposer/driver/table.h"

namespace superpipe {
namespace {

/// As NVML lays it out. Source: NVML API Reference Guide, nvmlProcessInfo_t.
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

// nvmlReturn_t.
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
// Where the system does not tell what a process has.
constexpr unsigned long long kNotAvailable = ~0ULL;

/// NVML; its functions are null where there is none.
class Nvml {
 public:
  using Device = struct Opaque*;

  Nvml() {
    // simgpu has it in its driver.
    library_ = ::dlopen(loaded_driver_path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!find_functions() && numbers_are_the_systems()) {
      close();
      library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
      (void)find_functions();
    }
    is_begun_ = processes_ != nullptr && begin_() == kSuccess;
  }
  ~Nvml() = delete;  // threads may ask until the process ends
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// The process's. Two threads that come first both open it: one that waited for the other could
  /// hold the lock of the dynamic linker, which the other needs.
  static const Nvml& instance() {
    static std::atomic<const Nvml*> shared{nullptr};
    const Nvml* known = shared.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    const auto* const opened = new Nvml;
    return shared.compare_exchange_strong(known, opened, std::memory_order_acq_rel) ? *opened
                                                                                    : *known;
  }

  /// Of the device at `bus_id`; empty where it does not tell.
  [[nodiscard]] std::vector<ProcessInfo> processes(const char* bus_id) const {
    Device device = nullptr;
    if (!is_begun_ || device_at_(bus_id, &device) != kSuccess) return {};
    std::vector<ProcessInfo> found(kProcesses);
    auto count = static_cast<unsigned int>(found.size());
    int result = processes_(device, &count, found.data());
    if (result == kInsufficientSize) {
      found.resize(count + kProcesses);  // more may have come meanwhile
      count = static_cast<unsigned int>(found.size());
      result = processes_(device, &count, found.data());
    }
    found.resize(result == kSuccess ? std::min<std::size_t>(count, found.size()) : 0);
    return found;
  }

 private:
  static constexpr std::size_t kProcesses = 32;

  /// Whether getpid() is what NVML knows a process by: in a namespace of its own it may be the
  /// number of another one. Source: Linux, PROC_PID_INIT_INO.
  static bool numbers_are_the_systems() {
    std::array<char, 32> name{};
    const ::ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size());
    return std::string_view(name.data(), length > 0 ? static_cast<std::size_t>(length) : 0) ==
           "pid:[4026531836]";
  }

  bool find_functions() {
    if (library_ == nullptr) return false;
    return find("nvmlInit_v2", begin_) && find("nvmlDeviceGetHandleByPciBusId_v2", device_at_) &&
           find("nvmlDeviceGetComputeRunningProcesses_v3", processes_);
  }
  template <typename Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    return function != nullptr;
  }
  void close() {
    if (library_ != nullptr) ::dlclose(library_);
    library_ = nullptr;
  }

  void* library_ = nullptr;
  bool is_begun_ = false;
  int (*begin_)() = nullptr;
  int (*device_at_)(const char*, Device*) = nullptr;
  int (*processes_)(Device, unsigned int*, ProcessInfo*) = nullptr;
};

}  // namespace

std::optional<Bytes> memory_of_this_process(CUdevice device) noexcept try {
  std::array<char, 32> bus_id{};
  if (driver().cuDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) !=
      CUDA_SUCCESS) {
    return std::nullopt;
  }
  const auto own = static_cast<unsigned int>(::getpid());
  for (const ProcessInfo& process : Nvml::instance().processes(bus_id.data())) {
    if (process.pid != own || process.used_bytes == kNotAvailable) continue;
    if (process.used_bytes > 0) return Bytes{process.used_bytes};
  }
  return std::nullopt;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

}  // namespace superpipe
