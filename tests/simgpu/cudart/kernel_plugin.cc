// The same kernels on the host, for simgpu.

#include "tools/simgpu/kernel_plugin.h"

namespace {

// As in kernels.h, which needs CUDA's headers; the layout is fixed by the test that reads it back.
struct ScaleParameters {
  float factor;
  int count;
  const float* in;
  char tag;
  float* out;
};

template <typename Value>
const Value& argument(const SimgpuLaunch* launch, size_t index) {
  return *static_cast<const Value*>(launch->arguments[index]);
}

int threads(const SimgpuLaunch* launch) {
  return static_cast<int>(launch->grid[0] * launch->block[0]);
}

void vector_add(const SimgpuLaunch* launch) {
  const auto* const a = argument<const float*>(launch, 0);
  const auto* const b = argument<const float*>(launch, 1);
  auto* const out = argument<float*>(launch, 2);
  const int count = argument<int>(launch, 3);
  for (int i = 0; i < threads(launch) && i < count; ++i) out[i] = a[i] + b[i];
}

void scale(const SimgpuLaunch* launch) {
  const auto& parameters = argument<ScaleParameters>(launch, 0);
  const auto bias = static_cast<float>(argument<double>(launch, 1));
  for (int i = 0; i < threads(launch) && i < parameters.count; ++i) {
    parameters.out[i] = parameters.in[i] * parameters.factor + bias;
  }
}

constexpr SimgpuKernel kKernels[] = {
    {"_ZN11cudart_test10vector_addEPKfS1_Pfi", vector_add, 0, nullptr},
    {"_ZN11cudart_test5scaleENS_15ScaleParametersEd", scale, 0, nullptr},
};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
