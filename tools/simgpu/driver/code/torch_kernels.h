// Kernels of PyTorch whose results decide what it does next. simgpu computes them.
#pragma once

#include <string_view>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The host kernel of the (mangled) name `name`, or null. Constant; any thread.
///
/// With a mixer's bytes in their place, PyTorch takes the reports of a solver for failures, and
/// gives it addresses of matrices that there are not. They are:
///  - conversions of integers to booleans, and whether any of some integers of 32 bits is not zero:
///    so it looks at reports, of one matrix and of several;
///  - `arange` of integers of 64 bits: so it makes tables of addresses.
/// Source: PyTorch, aten/src/ATen/native/cuda: Copy.cu, CUDALoops.cuh, MemoryAccess.cuh,
/// Reduce.cuh, ReduceLogicKernel.cu, RangeFactories.cu.
[[nodiscard]] const SimgpuKernel* torch_kernel(std::string_view name);

}  // namespace simgpu
