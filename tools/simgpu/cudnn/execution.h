// How an execution reaches the device: as launches, one for each result.
#pragma once

#include <vector>

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

}  // namespace simgpu::cudnn
