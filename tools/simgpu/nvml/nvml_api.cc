// simgpu's libnvidia-ml.so.1: which devices there are, and what is free of their memory.
//
// It has no state, and does not begin the driver: programs ask NVML before they fork processes
// that use the driver. What the environment says is read here; what is in use the driver knows,
// where the process has one (driver/process/management_api.cc).
#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "tools/simgpu/driver/device/identity.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/export.h"

namespace simgpu::nvml {
namespace {

// Source: NVML API Reference Guide, nvmlReturn_t.
enum Status : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kUnknown = 999,
};

constexpr char kDriverVersion[] = "580.65.06";
constexpr char kNvmlVersion[] = "13.580.65.06";
constexpr std::size_t kMostDevices = 64;

/// What a nvmlDevice_t points to.
struct Device {
  int ordinal;
};

const Configuration* read_once() {
  static auto* const configuration = new Configuration;  // never destroyed: threads outlive exit
  return read_configuration(configuration) ? configuration : nullptr;
}

/// Null, and one line on standard error, if the environment has a malformed value.
const Configuration* configuration_or_null() {
  static const Configuration* const read = read_once();
  return read;
}

std::array<Device, kMostDevices>& devices() {
  static std::array<Device, kMostDevices> all = [] {
    std::array<Device, kMostDevices> numbered{};
    for (std::size_t i = 0; i < numbered.size(); ++i) numbered[i].ordinal = static_cast<int>(i);
    return numbered;
  }();
  return all;
}

int device_count() {
  const Configuration* const configuration = configuration_or_null();
  return configuration == nullptr ? 0 : configuration->devices;
}

int give(int ordinal, Device** device) {
  if (device == nullptr) return kInvalidArgument;
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidArgument;
  *device = &devices()[static_cast<std::size_t>(ordinal)];
  return kSuccess;
}

/// Writes `text` with its end to `target`, of `size` bytes.
int tell(const char* text, char* target, unsigned size) {
  if (target == nullptr) return kInvalidArgument;
  if (std::strlen(text) >= size) return kInsufficientSize;
  std::strcpy(target, text);
  return kSuccess;
}

/// A number, or that there is no place for it.
int tell(int number, int* target) {
  if (target == nullptr) return kInvalidArgument;
  *target = number;
  return kSuccess;
}

std::string uuid_text(int ordinal) {
  const auto bytes = uuid_of(ordinal);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(bytes[i]));
    text += digits.data();
  }
  return text;
}

/// A function of the driver's library in this library's folder, if the process has opened it.
template <typename Function>
Function* function_of_driver(const char* name) {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&device_count), &self) == 0) return nullptr;
  std::string path = self.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libcuda.so.1";
  void* const driver = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  auto* const function = reinterpret_cast<Function*>(::dlsym(driver, name));
  ::dlclose(driver);  // it is never unloaded
  return function;
}

/// Bytes that this process and others have in use of a device.
std::uint64_t bytes_in_use(int ordinal) {
  const auto tell = function_of_driver<bool(int, std::uint64_t*)>("simgpu_bytes_in_use");
  std::uint64_t bytes = 0;
  if (tell != nullptr && tell(ordinal, &bytes)) return bytes;
  const Configuration* const configuration = configuration_or_null();
  return configuration == nullptr ? 0 : configuration->other_bytes;
}

/// nvmlMemory_t.
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// nvmlMemory_v2_t.
struct MemoryWithReserved {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

int read_memory(const Device* device, Memory* memory) {
  const Configuration* const configuration = configuration_or_null();
  if (device == nullptr || memory == nullptr || configuration == nullptr) return kInvalidArgument;
  const std::uint64_t total = configuration->card.memory_bytes;
  const std::uint64_t used = bytes_in_use(device->ordinal);
  *memory = {total, used < total ? total - used : 0, used};
  return kSuccess;
}

/// nvmlPciInfo_t of version 3.
struct PciInfo {
  char old_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

int begin() { return configuration_or_null() == nullptr ? kUnknown : kSuccess; }

}  // namespace

SIMGPU_EXPORT int nvmlInit() { return begin(); }
SIMGPU_EXPORT int nvmlInit_v2() { return begin(); }
SIMGPU_EXPORT int nvmlInitWithFlags(unsigned /*flags*/) { return begin(); }
SIMGPU_EXPORT int nvmlShutdown() { return kSuccess; }

SIMGPU_EXPORT const char* nvmlErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

SIMGPU_EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return tell(kDriverVersion, version, size);
}
SIMGPU_EXPORT int nvmlSystemGetNVMLVersion(char* version, unsigned size) {
  return tell(kNvmlVersion, version, size);
}
SIMGPU_EXPORT int nvmlSystemGetCudaDriverVersion(int* version) {
  return tell(CUDA_VERSION, version);
}
SIMGPU_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return tell(CUDA_VERSION, version);
}

SIMGPU_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(device_count());
  return kSuccess;
}
SIMGPU_EXPORT int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

SIMGPU_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  return give(static_cast<int>(index), device);
}
SIMGPU_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, Device** device) {
  return give(static_cast<int>(index), device);
}

/// The domain may have four digits or eight.
SIMGPU_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device** device) {
  if (bus_id == nullptr || device == nullptr) return kInvalidArgument;
  std::string_view asked = bus_id;
  if (asked.size() == 16 && asked.substr(0, 4) == "0000") asked.remove_prefix(4);
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (asked == bus_id_of(ordinal).data()) return give(ordinal, device);
  }
  return kNotFound;
}
SIMGPU_EXPORT int nvmlDeviceGetHandleByPciBusId(const char* bus_id, Device** device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

SIMGPU_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Device** device) {
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (uuid_text(ordinal) == uuid) return give(ordinal, device);
  }
  return kNotFound;
}

SIMGPU_EXPORT int nvmlDeviceGetName(const Device* device, char* name, unsigned size) {
  return device == nullptr ? kInvalidArgument : tell(kDeviceName, name, size);
}
SIMGPU_EXPORT int nvmlDeviceGetUUID(const Device* device, char* uuid, unsigned size) {
  return device == nullptr ? kInvalidArgument
                           : tell(uuid_text(device->ordinal).c_str(), uuid, size);
}
SIMGPU_EXPORT int nvmlDeviceGetIndex(const Device* device, int* index) {
  return device == nullptr ? kInvalidArgument : tell(device->ordinal, index);
}
SIMGPU_EXPORT int nvmlDeviceGetMinorNumber(const Device* device, int* number) {
  return device == nullptr ? kInvalidArgument : tell(device->ordinal, number);
}
SIMGPU_EXPORT int nvmlDeviceGetCudaComputeCapability(const Device* device, int* major, int* minor) {
  if (device == nullptr || minor == nullptr) return kInvalidArgument;
  *minor = kCapabilityMinor;
  return tell(kCapabilityMajor, major);
}
SIMGPU_EXPORT int nvmlDeviceGetPciInfo_v3(const Device* device, PciInfo* info) {
  if (device == nullptr || info == nullptr) return kInvalidArgument;
  *info = {};
  info->bus = static_cast<unsigned>(device->ordinal + 1);
  const auto bus_id = bus_id_of(device->ordinal);
  std::snprintf(info->old_bus_id, sizeof(info->old_bus_id), "%.15s", bus_id.data());
  std::snprintf(info->bus_id, sizeof(info->bus_id), "0000%s", bus_id.data());
  return kSuccess;
}

// A bus of the fourth generation with 16 lanes, and no link to other devices.
SIMGPU_EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(const Device* device, int* generation) {
  return device == nullptr ? kInvalidArgument : tell(4, generation);
}
SIMGPU_EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(const Device* device, int* generation) {
  return device == nullptr ? kInvalidArgument : tell(4, generation);
}
SIMGPU_EXPORT int nvmlDeviceGetCurrPcieLinkWidth(const Device* device, int* lanes) {
  return device == nullptr ? kInvalidArgument : tell(16, lanes);
}
SIMGPU_EXPORT int nvmlDeviceGetMaxPcieLinkWidth(const Device* device, int* lanes) {
  return device == nullptr ? kInvalidArgument : tell(16, lanes);
}
SIMGPU_EXPORT int nvmlDeviceGetNvLinkState(const Device* device, unsigned /*link*/,
                                           int* is_active) {
  return device == nullptr ? kInvalidArgument : tell(0, is_active);
}
/// As a card that is in no fabric.
SIMGPU_EXPORT int nvmlDeviceGetGpuFabricInfoV(const Device* /*device*/, void* /*info*/) {
  return kNotSupported;
}

SIMGPU_EXPORT int nvmlDeviceGetMemoryInfo(const Device* device, Memory* memory) {
  return read_memory(device, memory);
}
SIMGPU_EXPORT int nvmlDeviceGetMemoryInfo_v2(const Device* device, MemoryWithReserved* memory) {
  Memory read{};
  if (memory == nullptr) return kInvalidArgument;
  if (const int status = read_memory(device, &read); status != kSuccess) return status;
  memory->total = read.total;
  memory->reserved = 0;
  memory->free = read.free;
  memory->used = read.used;
  return kSuccess;
}

}  // namespace simgpu::nvml
