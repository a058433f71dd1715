// How a stand-in's routine reaches the device: as one launch through the driver.
#pragma once

#include <cuda.h>

#include <array>

#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cublas {

/// The routines that become launches; each has a kernel of its own name. kDnn: a graph of cuDNN's.
enum class Routine { kGemm, kGemmStridedBatched, kGemv, kDot, kMatmul, kDnn };

/// Device memory that a routine reads; null addresses are left out.
using Inputs = std::array<ProductOperand, kProductInputs>;

/// Whether the driver is there and a context is current to the calling thread.
///
/// Finds the driver as NVIDIA's libraries do, with dlopen and cuGetProcAddress, so that whatever
/// stands in front of the driver sees these launches. Any thread; waits on nothing.
Status check_context() noexcept;

/// Blocks of 256 threads, each of which computes 128 x 128 numbers of the result of `product`; for
/// a result of one row or column, 128 numbers; for one of a single number, 1024 steps of its sum.
[[nodiscard]] std::array<unsigned, 3> grid_of(const Product& product);

/// Launches `routine` on `stream`: it reads `inputs` and writes `output`, which it only reads where
/// that is one of `inputs`, too. The parameters carry the
/// extents of `product` too, and the grid follows from them: from both simgpu's driver takes how
/// long it runs. Of memory whose bytes are known, it touches nothing else.
///
/// The kernel has a name and a parameter layout and no code: simgpu's mixer writes what follows
/// from the inputs' bytes, and the numbers are not those of a matrix product. Any thread; waits on
/// nothing.
/// @return kNotInitialized without a driver or current context, kExecutionFailed if the driver
/// refused the launch.
Status launch(Routine routine, CUstream stream, const Inputs& inputs, ProductOperand output,
              const Product& product) noexcept;

}  // namespace simgpu::cublas
