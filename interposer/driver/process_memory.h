// What a process has of a device's memory, by NVML, NVIDIA's management library.
#pragma once

#include <optional>

#include "interposer/driver/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// What this process has of the memory of `device`, its contexts included; nullopt: that is not to
/// be had. The driver tells only what all processes have together. NVML is opened where it is, and
/// closed again. It knows processes by their numbers outside of containers, and is not asked in
/// one. REQUIRES: the driver is initialised. Thread-safe. On a real driver tens of milliseconds.
[[nodiscard]] std::optional<Bytes> memory_of_this_process(CUdevice device);

}  // namespace superpipe
