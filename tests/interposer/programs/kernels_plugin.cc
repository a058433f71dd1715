// The host's versions of kernels.cu, for simgpu.
#include <cstring>

#include "tools/simgpu/kernel_plugin.h"

namespace {

struct Operands {
  int count;
  float* output;
  const float* input;
};

template <typename T>
T argument(const SimgpuLaunch* launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch->arguments[index], sizeof value);
  return value;
}

void add(float* output, const float* input, float factor, int count) {
  for (int i = 0; i < count; ++i) output[i] += factor * input[i];
}

void accumulate(const SimgpuLaunch* launch) {
  add(argument<float*>(launch, 0), argument<const float*>(launch, 1), argument<float>(launch, 2),
      argument<int>(launch, 3));
}

void accumulate_struct(const SimgpuLaunch* launch) {
  const auto operands = argument<Operands>(launch, 0);
  add(operands.output, operands.input, argument<float>(launch, 1), operands.count);
}

void accumulate_listed(const SimgpuLaunch* launch) {
  float** const outputs = argument<float**>(launch, 0);
  float** const inputs = argument<float**>(launch, 1);
  for (int pair = 0; pair < argument<int>(launch, 2); ++pair) {
    add(outputs[pair], inputs[pair], 1, argument<int>(launch, 3));
  }
}

void hold(const SimgpuLaunch*) {}

/// Long against a call, so that what does not wait for it is seen not to.
constexpr double kHoldUs = 50'000;

}  // namespace

extern "C" const SimgpuKernel* simgpu_kernels(std::size_t* count) {
  static const SimgpuKernel kKernels[] = {
      {"accumulate", accumulate, 0, nullptr},
      {"accumulate_struct", accumulate_struct, 0, nullptr},
      {"accumulate_listed", accumulate_listed, 0, nullptr},
      {"_ZN5model12accumulate_2EPfPKffi", accumulate, 0, nullptr},
      {"hold", hold, kHoldUs, nullptr},
  };
  *count = sizeof kKernels / sizeof *kKernels;
  return kKernels;
}
