// Three-dimensional copies, from the runtime's description to the driver's.
#pragma once

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

/// The driver's description of a copy between linear memory.
/// @return cudaErrorInvalidValue for null, cudaErrorNotSupported for arrays,
///     cudaErrorInvalidMemcpyDirection.
cudaError_t describe_box(const cudaMemcpy3DParms* parameters, CUDA_MEMCPY3D* out);

}  // namespace simgpu::cudart
