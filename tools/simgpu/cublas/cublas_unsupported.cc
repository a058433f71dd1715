// Every name that PyTorch's libraries import: refused, unless another file here defines it. They
// take whatever they are given: nothing is read, so no prototype is needed.
#include "tools/simgpu/cublas/unsupported.h"

namespace simgpu::cublas {
#include "tools/simgpu/cublas/generated/cublas_names.inc"
}  // namespace simgpu::cublas
