// The functions of the driver that collectives of one process need.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace simgpu::nccl {

/// The ordinal of the device of the calling thread's context; -1: it has none, or there is no
/// driver. Finds the driver as NVIDIA's libraries do, with dlopen and cuGetProcAddress, so that
/// whatever stands in front of it sees the copies.
[[nodiscard]] int current_device() noexcept;

/// Copies `bytes` from one device address to another, in the order of `stream`. Waits on nothing.
/// @return whether the driver took it.
[[nodiscard]] bool copy(void* to, const void* from, std::size_t bytes, CUstream stream) noexcept;

}  // namespace simgpu::nccl
