// How a stand-in's routine reaches the device: as one launch through the driver.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <span>

#include "tools/simgpu/batched_kernel.h"
#include "tools/simgpu/cublas/status.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cublas {

/// The routines that become launches; each has a kernel of its own name. kDnn: a graph of cuDNN's.
/// kTriangular: a triangular solve. kScale: a vector's multiplication by a number. kFft, kSolver
/// and kSparse: a routine of cuFFT, cuSOLVER or cuSPARSE.
enum class Routine {
  kGemm,
  kGemmStridedBatched,
  kGemv,
  kDot,
  kMatmul,
  kDnn,
  kTriangular,
  kScale,
  kFft,
  kSolver,
  kSparse,
};

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

/// Launches what writes each of `outputs` from all of `inputs`, in their order; null addresses are
/// left out. An operand that a routine overwrites is an input and the last output, so that the
/// others are written from what it was. Where the inputs are more than a launch takes, the first
/// one has those that lie in the output, and the next one goes on from what it has written. Of
/// memory whose bytes are known, they touch nothing else. `work`: how much the routine computes,
/// which says how long it takes. Any thread; waits on nothing.
/// @return as launch() does.
Status execute(Routine routine, CUstream stream, std::span<const ProductOperand> inputs,
               std::span<const ProductOperand> outputs, const Product& work) noexcept;

/// Fills `bytes` of device memory with zeros, in the order of `stream`: reports of success. A null
/// address is left out. @return as launch() does.
Status clear(CUstream stream, void* address, std::uint64_t bytes) noexcept;

/// Writes the pivots of `matrices` factorisations that have exchanged no rows: the numbers from 1
/// to `count` for each, of `number_bytes` (4 or 8). A null address is left out. @return as launch()
/// does.
Status write_pivots(CUstream stream, void* address, std::int64_t count, std::int64_t matrices,
                    std::uint64_t number_bytes) noexcept;

/// A routine over matrices whose addresses lie in device memory: table operands of
/// batched_kernel.h. Null tables are left out. @return as launch() does.
Status launch_batched(CUstream stream, const Batched& batched) noexcept;

}  // namespace simgpu::cublas
