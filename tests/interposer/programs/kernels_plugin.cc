// The host's versions of kernels.cu, for simgpu.
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/hang_limit.h"
#include "tools/simgpu/kernel_plugin.h"
#include "tools/simgpu/tensor_map.h"

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

// Of a map among the parameters, the first 8 bytes are the tensor's address here.
void accumulate_mapped(const SimgpuLaunch* launch) {
  add(argument<float*>(launch, 1), argument<const float*>(launch, 0), argument<float>(launch, 2),
      argument<int>(launch, 3));
}

// Where kernels.cu has the map in its struct: CUDA 13 aligns it so.
constexpr std::size_t kMapInStruct = 128;

void accumulate_mapped_struct(const SimgpuLaunch* launch) {
  const auto* const operands = static_cast<const char*>(launch->arguments[0]);
  const float* input = nullptr;
  std::memcpy(&input, operands + kMapInStruct, sizeof input);
  add(argument<float*>(launch, 1), input, argument<float>(launch, 2), argument<int>(launch, 0));
}

void accumulate_mapped_far(const SimgpuLaunch* launch) {
  const void* const map = argument<const void*>(launch, 0);
  const auto input = simgpu::address_of_tensor(map);
  add(argument<float*>(launch, 1), reinterpret_cast<const float*>(input),
      argument<float>(launch, 2), argument<int>(launch, 3));
}

void accumulate_listed(const SimgpuLaunch* launch) {
  float** const outputs = argument<float**>(launch, 0);
  float** const inputs = argument<float**>(launch, 1);
  for (int pair = 0; pair < argument<int>(launch, 2); ++pair) {
    add(outputs[pair], inputs[pair], 1, argument<int>(launch, 3));
  }
}

void point_at(const SimgpuLaunch* launch) {
  const void** const array = argument<const void**>(launch, 0);
  for (int i = 0; i < argument<int>(launch, 3); ++i) {
    const float* const target = argument<float*>(launch, 1) + i * argument<long long>(launch, 2);
    array[i] = launch->program_address(launch, target);
  }
}

void displace(const SimgpuLaunch* launch) {
  for (int i = 0; i < argument<int>(launch, 3); ++i) {
    argument<float**>(launch, 0)[i] =
        argument<float**>(launch, 1)[i] + argument<long long>(launch, 2);
  }
}

struct Range {
  unsigned long long start;
  unsigned long long step;
};

// The range may be one of addresses.
void arange(const SimgpuLaunch* launch) {
  const auto range = argument<Range>(launch, 1);
  const auto start = reinterpret_cast<unsigned long long>(
      launch->program_address(launch, reinterpret_cast<const void*>(range.start)));
  for (int i = 0; i < argument<int>(launch, 0); ++i) {
    argument<unsigned long long*>(launch, 2)[i] =
        start + static_cast<unsigned long long>(i) * range.step;
  }
}

struct Grouped {
  float** outputs;
  const float* const* inputs;
  int pairs;
  int count;
};

void accumulate_arrays(const Grouped& operands) {
  for (int pair = 0; pair < operands.pairs; ++pair) {
    add(operands.outputs[pair], operands.inputs[pair], 1, operands.count);
  }
}

void accumulate_batched(const SimgpuLaunch* launch) {
  accumulate_arrays({argument<float**>(launch, 0), argument<const float* const*>(launch, 1),
                     argument<int>(launch, 2), argument<int>(launch, 3)});
}

void accumulate_grouped(const SimgpuLaunch* launch) {
  accumulate_arrays(argument<Grouped>(launch, 0));
}

void strided_copy(const SimgpuLaunch* launch) {
  const auto* const words = static_cast<const char*>(launch->arguments[1]);
  float* output = nullptr;
  const float* input = nullptr;
  std::memcpy(&output, words + 63 * sizeof(void*), sizeof output);
  std::memcpy(&input, words + 64 * sizeof(void*), sizeof input);
  for (int i = 0; i < argument<int>(launch, 0); ++i) output[i] = input[i];
}

// Not for ever: what wrongly waits for the program shall fail, not hang.
void await_word(const SimgpuLaunch* launch) {
  const auto* const word = argument<const volatile unsigned long long*>(launch, 0);
  const superpipe::testing::HangGuard guard;
  while (*word == 0 && !guard.is_over()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
      {"accumulate_mapped", accumulate_mapped, 0, nullptr},
      {"accumulate_mapped_struct", accumulate_mapped_struct, 0, nullptr},
      {"accumulate_mapped_far", accumulate_mapped_far, 0, nullptr},
      {"_ZN5model12accumulate_2EPfPKffi", accumulate, 0, nullptr},
      {"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
       "copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_"
       "EEviT1_",
       strided_copy, 0, nullptr},
      {"_ZN5model8point_atEPPfS0_xi", point_at, 0, nullptr},
      {"_ZN5model8displaceEPPfS1_xi", displace, 0, nullptr},
      {"_ZN5model6arangeEiNS_5RangeEPy", arange, 0, nullptr},
      {"_ZN5model18accumulate_batchedEPPfPKPKfii", accumulate_batched, 0, nullptr},
      {"_ZN5model18accumulate_groupedENS_7GroupedE", accumulate_grouped, 0, nullptr},
      {"await_word", await_word, 0, nullptr},
      {"hold", hold, kHoldUs, nullptr},
  };
  *count = sizeof kKernels / sizeof *kKernels;
  return kKernels;
}
