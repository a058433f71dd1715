// Kernels of simgpu's own libraries that its driver computes.
#pragma once

#include <string_view>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The host kernel of the (mangled) name `name`, or null. Constant; any thread.
///
/// They are those of batched_kernel.h:
///  - routines over matrices whose addresses lie in device memory. What they write follows from all
///    that they read, and from the sizes, as a mixer's bytes do; an address that a mixer has made
///    up, which is a small integer or a floating-point number, is left out;
///  - pivots, by which programs index rows.
[[nodiscard]] const SimgpuKernel* library_kernel(std::string_view name);

}  // namespace simgpu
