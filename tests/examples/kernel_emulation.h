// Runs kernels that were compiled as plain C++ on the host, thread by thread.
//
// Included before every other file of a kernel source that tests compile without nvcc. A block's
// threads are fibres, taken in turn from one __syncthreads() to the next, so the device code is
// executed as written: indices, shared memory and barriers. Blocks run one after the other. Not
// emulated: warp functions, atomics, dynamic shared memory.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <functional>

// The toolkit's header defines these for other compilers as nothing.
#undef __shared__
#define __shared__ static

namespace emulation {

/// The running thread's position, as CUDA's built-in variables.
struct Position {
  uint3 thread_index;
  uint3 block_index;
  dim3 block_size;
  dim3 grid_size;
};
extern Position position;  // NOLINT: a kernel's built-in variables are global

/// A barrier of all threads of the running block. REQUIRES: called from a kernel in
/// run_on_host(); a thread that ends counts as waiting.
void synchronize_threads();

/// Runs `thread` for each thread of each block, one block after the other; returns when all ended.
void run_on_host(dim3 grid, dim3 block, const std::function<void()>& thread);

/// Runs one launch, of the kernel whose code is at `kernel` and whose parameters are given by
/// address and size: in the plugin named by EMULATION_PLUGIN where that is set (the kernel is
/// looked up by its mangled name), else with run_on_host(`thread`). Ends the process with a message
/// where the plugin cannot be loaded or lacks the kernel: a test must not go on without it.
void launch_untyped(void* kernel, dim3 grid, dim3 block, void* const* arguments,
                    const std::size_t* sizes, std::size_t count,
                    const std::function<void()>& thread);

/// As cudaLaunchKernel, on the host, and finished when it returns.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t /*stream*/,
            Parameters... arguments) {
  const std::array<void*, sizeof...(Parameters)> addresses = {
      const_cast<void*>(static_cast<const void*>(&arguments))...};
  const std::array<std::size_t, sizeof...(Parameters)> sizes = {sizeof(Parameters)...};
  launch_untyped(reinterpret_cast<void*>(kernel), grid, block, addresses.data(), sizes.data(),
                 sizes.size(), [&] { kernel(arguments...); });
}

}  // namespace emulation

#define threadIdx ::emulation::position.thread_index
#define blockIdx ::emulation::position.block_index
#define blockDim ::emulation::position.block_size
#define gridDim ::emulation::position.grid_size
#define __syncthreads ::emulation::synchronize_threads
