// Kernels of frameworks whose results decide what the framework does next. simgpu computes them.
#pragma once

#include <string_view>

#include "tools/simgpu/kernel_plugin.h"

namespace simgpu {

/// The host kernel of the (mangled) name `name`, or null. Constant; any thread.
///
/// A mixer's bytes in their place would have a framework take trials for failed ones, or variables
/// for initialized ones. They are:
///  - XLA's, for its trials of ways to compute (autotuning): the one that fills a buffer with
///    copies of its beginning; the one that counts changed bytes in the red zones around a result;
///    and those that count the differences of two results, which find none, since what a mixer
///    writes depends on its kernel's name;
///  - TensorFlow's that put numbers of several tensors side by side. Booleans among them say which
///    variables are initialized; and where there are many tensors, their addresses are read from
///    device memory, on which nothing may depend;
///  - TensorFlow's products of few integers, which become extents of tensors;
///  - CUB's counts of true booleans, as TensorFlow and PyTorch have them made for masks and for
///    what is not zero, which become extents as well;
///  - JAX's and XLA's tables of the addresses of matrices, for routines over several of them.
/// Source: their sources, by their names and parameters (XLA, stream_executor/cuda; TensorFlow,
/// core/kernels/concat_lib_gpu_impl.cu.cc, reduction_gpu_kernels.cu.h; CUB, device_reduce.cuh; JAX,
/// jaxlib/gpu/make_batch_pointers.cu.cc).
[[nodiscard]] const SimgpuKernel* framework_kernel(std::string_view name);

}  // namespace simgpu
