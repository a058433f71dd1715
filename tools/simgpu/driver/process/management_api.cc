// As much of NVML, NVIDIA's management library, as tells what processes have of a device's memory.
//
// It is part of the driver's library, and known to what looks for it there. Programs that open NVML
// by its own name find simgpu's (tools/simgpu/nvml), which asks here what is in use.
#include <unistd.h>

#include <cstdint>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/device/shared_devices.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/process/configuration.h"

namespace {

/// Source: NVML API Reference Guide, nvmlProcessInfo_t and nvmlReturn_t.
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance = 0;
  unsigned int compute_instance = 0;
};
constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
/// By how much a process's number is another one where they are hidden.
constexpr unsigned int kHidden = 10'000'000;

}  // namespace

extern "C" {

/// Tells the bytes that this process and others have in use of a device. @return false before
/// cuInit, and for a device that there is not.
SIMGPU_EXPORT bool simgpu_bytes_in_use(int ordinal, std::uint64_t* bytes) {
  const simgpu::Device* const device = simgpu::find_device(ordinal);
  if (device == nullptr) return false;
  *bytes = device->used() + device->used_by_others();
  return true;
}

SIMGPU_EXPORT int nvmlInit_v2() { return kSuccess; }
SIMGPU_EXPORT int nvmlShutdown() { return kSuccess; }

SIMGPU_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, simgpu::Device** device) {
  if (bus_id == nullptr || device == nullptr) return kInvalidArgument;
  CUdevice ordinal = 0;
  if (cuDeviceGetByPCIBusId(&ordinal, bus_id) != CUDA_SUCCESS) return kNotFound;
  *device = simgpu::find_device(ordinal);
  return kSuccess;
}

/// Those of the other processes come first, so that who takes the first one gets a wrong answer.
SIMGPU_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(simgpu::Device* device,
                                                          unsigned int* count, ProcessInfo* infos) {
  if (device == nullptr || count == nullptr) return kInvalidArgument;
  const unsigned int room = infos == nullptr ? 0 : *count;
  unsigned int found = 0;
  const simgpu::Configuration& settings = simgpu::configuration();
  const auto tell = [&](std::int32_t process, std::uint64_t bytes) {
    const auto number = static_cast<unsigned int>(process);
    if (found < room) infos[found] = {settings.processes_hidden ? number + kHidden : number, bytes};
    ++found;
  };
  if (settings.shared != nullptr) settings.shared[device->ordinal()].for_each_other(tell);
  tell(::getpid(), device->used());
  *count = found;
  return found <= room ? kSuccess : kInsufficientSize;
}

}  // extern "C"
