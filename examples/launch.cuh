// How the examples launch their kernels: <<<>>> under nvcc.
//
// The tests also compile the same kernels as plain C++ and run them thread by thread on the host
// (tests/examples/kernel_emulation.h), which is how the device code is checked without a device.
#pragma once

#include <cuda_runtime.h>

#include "examples/cuda_objects.h"

namespace examples {

#ifdef __CUDACC__
/// Launches `kernel` on `stream` and returns at once. Throws std::runtime_error where CUDA refuses
/// the launch.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
            Arguments... arguments) {
  kernel<<<grid, block, 0, stream>>>(arguments...);
  check(cudaGetLastError(), "kernel launch");
}
#else
/// As above; runs the kernel on the host, and has finished when it returns.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
            Arguments... arguments) {
  emulation::launch(kernel, grid, block, stream, static_cast<Parameters>(arguments)...);
}
#endif

}  // namespace examples
