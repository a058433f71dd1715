// Kernels of the end-to-end tests; kernels_plugin.cc computes the same on the host.
#include <cuda.h>

struct Operands {
  int count;
  float* output;
  const float* input;
};

// output[i] += factor * input[i]
extern "C" __global__ void accumulate(float* output, const float* input, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) output[i] += factor * input[i];
}

// The same, its pointers inside a struct passed by value.
extern "C" __global__ void accumulate_struct(Operands operands, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < operands.count) operands.output[i] += factor * operands.input[i];
}

// The same, the input behind a tensor map among the parameters. What a device computes of it is of
// no interest here: how it is handed over is.
struct Mapped {
  int count;
  CUtensorMap input;
};
extern "C" __global__ void accumulate_mapped(const __grid_constant__ CUtensorMap input,
                                             float* output, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) output[i] += factor * reinterpret_cast<const float*>(&input)[i & 31];
}

// The same, the map deep inside a struct.
extern "C" __global__ void accumulate_mapped_struct(const __grid_constant__ Mapped operands,
                                                    float* output, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < operands.count) {
    output[i] += factor * reinterpret_cast<const float*>(&operands.input)[i & 31];
  }
}

// The same, the map in device memory.
extern "C" __global__ void accumulate_mapped_far(const CUtensorMap* input, float* output,
                                                 float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) output[i] += factor * reinterpret_cast<const float*>(input)[i & 31];
}

// The same for every pair of a list of pointers in device memory.
extern "C" __global__ void accumulate_listed(float** outputs, float** inputs, int pairs,
                                             int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int pair = 0; pair < pairs; ++pair) {
    if (i < count) outputs[pair][i] += inputs[pair][i];
  }
}

// The same under a name that is mangled, and kernels that fill arrays of pointers and read them.
namespace model {
// What PyTorch's kernel counts with.
struct Range {
  unsigned long long start;
  unsigned long long step;
};
// What a grouped product gets: nothing says that it has arrays of pointers.
struct Grouped {
  void* outputs;
  const void* inputs;
  int pairs;
  int count;
};

// array[i] = first + i * stride
__global__ void point_at(float** array, float* first, long long stride, int pairs) {
  const int i = threadIdx.x;
  if (i < pairs) array[i] = first + i * stride;
}
// to[i] = from[i] + by
__global__ void displace(float** to, float** from, long long by, int pairs) {
  const int i = threadIdx.x;
  if (i < pairs) to[i] = from[i] + by;
}
__global__ void arange(int count, Range range, unsigned long long* output) {
  const int i = threadIdx.x;
  if (i < count) output[i] = range.start + i * range.step;
}
__global__ void accumulate_batched(float** outputs, const float* const* inputs, int pairs,
                                   int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int pair = 0; pair < pairs; ++pair) {
    if (i < count) outputs[pair][i] += inputs[pair][i];
  }
}
__global__ void accumulate_grouped(Grouped operands) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto** const outputs = static_cast<float**>(operands.outputs);
  auto* const* const inputs = static_cast<float* const*>(operands.inputs);
  for (int pair = 0; pair < operands.pairs; ++pair) {
    if (i < operands.count) outputs[pair][i] += inputs[pair][i];
  }
}
__global__ void accumulate_2(float* output, const float* input, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) output[i] += factor * input[i];
}
}  // namespace model

// A copy under the name of one of PyTorch's kernels, with a struct of that kernel's size.
struct StridedCopy {
  unsigned long long words[67];
};
extern "C" __global__ void
_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_(
    int count, StridedCopy operands) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto* const output = reinterpret_cast<float*>(operands.words[63]);
  if (i < count) output[i] = reinterpret_cast<const float*>(operands.words[64])[i];
}

// Runs until the program has stored something at `word`.
extern "C" __global__ void await_word(const volatile unsigned long long* word) {
  while (*word == 0) {
  }
}

// Does nothing for as long as the plugin says.
extern "C" __global__ void hold() {}
