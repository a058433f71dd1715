// A driver inside the test process that does nothing, at once: what is measured over it is ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interposer/driver/cuda_api.h"

namespace superpipe::testing {

/// Puts the null driver into the driver table: one device of 1 TiB with a context that is current
/// everywhere; virtual memory, events and streams that always succeed; kernels that all have
/// `pointer_parameters` pointers as their parameters. Device memory must not be touched.
void install_null_driver(std::size_t pointer_parameters);

/// A kernel's handle that the null driver knows.
[[nodiscard]] CUfunction null_kernel(std::uintptr_t number);

/// From now on `stream` is one that the program captures (null: none is).
void set_captured_stream(CUstream stream);

/// How many events were recorded on `stream` since the driver was installed.
[[nodiscard]] std::uint64_t events_recorded_on(CUstream stream);

/// As if somebody had taken `bytes` of the device, or given them back (negative). Pages that are
/// made by cuMemCreate count by themselves. Any thread.
void change_device_usage(std::int64_t bytes);

/// As if the process had ended: all of the device is free. REQUIRES: no context is managed.
void free_device();

/// Has ContextCount count no context. Tests destroy contexts that were never created.
void forget_contexts();

/// How many launches reached the null driver.
[[nodiscard]] std::uint64_t null_driver_launches();

}  // namespace superpipe::testing
