// Every name that NVIDIA's library of CUDA 12 exports: refused, unless another file here defines
// it. They take whatever they are given: nothing is read, so no prototype is needed.
#include "tools/simgpu/cudart/unsupported.h"

namespace simgpu::cudart {
#include "tools/simgpu/cudart/generated/cudart12_names.inc"
}  // namespace simgpu::cudart
