// How an execution reaches the device: as launches, one for each result.
#pragma once

#include <vector>

#include "tools/simgpu/cublas/number.h"
#include "tools/simgpu/cudnn/handle.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cudnn {

/// Launches on the handle's stream what writes each of `outputs` from all of `inputs`; null
/// addresses are left out. Where the inputs are more than a launch takes, the next one goes on from
/// what the first has written. Of memory whose bytes are known, they touch nothing else. `work`:
/// how much it computes, which says how long it takes. Any thread; waits on nothing.
/// @return kSuccess or kExecutionFailed.
int execute(const Handle& handle, const std::vector<ProductOperand>& inputs,
            const std::vector<ProductOperand>& outputs, const Product& work);

/// What an operation reads of `result`, whose numbers are of `type`: nothing where `beta`, on the
/// host, is zero. A null one counts as zero. Source: cuDNN, "Scaling Parameters": the factors of
/// doubles are doubles, all others are floats.
inline ProductOperand added_to(const void* beta, int type, const ProductOperand& result) {
  constexpr int kDoubles = 1;
  const std::uint64_t bytes = type == kDoubles ? sizeof(double) : sizeof(float);
  return cublas::added_to(cublas::kHost, beta, bytes, result);
}

}  // namespace simgpu::cudnn
