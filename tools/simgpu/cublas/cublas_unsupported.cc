// Every name that PyTorch's libraries import: refused, unless another file here defines it.
#include "tools/simgpu/cublas/unsupported.h"

namespace simgpu::cublas {
#include "tools/simgpu/cublas/generated/cublas_names.inc"
}  // namespace simgpu::cublas
