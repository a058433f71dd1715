// The kernels of kernels.cu on the host, for simgpu.
#include "tools/simgpu/kernel_plugin.h"

#include <cstring>

#include "tests/gpu/kernels.h"

namespace {

using gpu_test::Mix;
using gpu_test::Word;

template <typename T>
T argument(const SimgpuLaunch* launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch->arguments[index], sizeof value);
  return value;
}

void mix_all(const Mix& mix) {
  for (Word i = 0; i < mix.out_words; ++i) mix.out[i] = gpu_test::mixed(mix, i);
}

void mix_struct(const SimgpuLaunch* launch) { mix_all(argument<Mix>(launch, 0)); }

void mix(const SimgpuLaunch* launch) {
  mix_all({argument<Word>(launch, 6), argument<Word>(launch, 3), argument<Word>(launch, 4),
           argument<Word>(launch, 5), argument<Word*>(launch, 0), argument<const Word*>(launch, 1),
           argument<const Word*>(launch, 2)});
}

void nothing(const SimgpuLaunch* /*launch*/) {}

}  // namespace

extern "C" const SimgpuKernel* simgpu_kernels(std::size_t* count) {
  static const SimgpuKernel kKernels[] = {
      {"mix", mix, 0, nullptr},
      {"mix_struct", mix_struct, 0, nullptr},
      {"nothing", nothing, 1, nullptr},
      {"nothing_with_buffers", nothing, 1, nullptr},
  };
  *count = sizeof kKernels / sizeof *kKernels;
  return kKernels;
}
