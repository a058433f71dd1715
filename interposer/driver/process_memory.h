// What a process has of a device's memory, by NVML, NVIDIA's management library.
#pragma once

#include <optional>

#include "interposer/driver/cuda_api.h"
#include "policy/units.h"

namespace superpipe {

/// What this process has of the memory of `device`, its contexts included; nullopt: that is not to
/// be had. The driver tells only what all processes have together. NVML knows processes by their
/// numbers outside of containers, and is not asked in one. REQUIRES: the driver is initialised.
/// Thread-safe. The first call opens NVML, which stays open: so later ones need no lock of the
/// dynamic linker, which may be held by a thread that waits for this one. On a real driver the
/// first takes tens of milliseconds, others some. Without host memory it is not to be had.
[[nodiscard]] std::optional<Bytes> memory_of_this_process(CUdevice device) noexcept;

}  // namespace superpipe
