// A CUDA program whose kernels use memory in ways that nobody in front of the driver sees, and one
// that hands stale pointers over; on the driver API, it knows nothing of superpipe. Each scenario
// prints what it computed.
//
//     unseen_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

/// More than is searched of a copy for pointers, and less than becomes a buffer.
constexpr std::size_t kListBytes = 512 << 10;

/// Pointers in device memory, which came there in a copy that is too large to be searched.
CUdeviceptr hidden_list(const std::vector<CUdeviceptr>& pointers) {
  std::vector<CUdeviceptr> list(kListBytes / sizeof(CUdeviceptr), 0);
  std::copy(pointers.begin(), pointers.end(), list.begin());
  const CUdeviceptr address = allocate(kListBytes);
  CHECK(cuMemcpyHtoD(address, list.data(), kListBytes));
  return address;
}

/// Uses so many other buffers that nothing else stays.
void use_others() {
  const auto weights = load_layers(12);
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (int pass = 0; pass < 4; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.5f);
  }
  print_buffer("state", state);
}

/// Buffers that the program never names, but in device memory, and that a kernel writes.
void write_fresh() {
  const CUdeviceptr first = allocate();
  const CUdeviceptr second = allocate();
  const CUdeviceptr input = load_layers(1).front();
  programs::accumulate_listed(hidden_list({first, second, input, input}));
  CHECK(cuCtxSynchronize());
  use_others();
  print_buffer("first", first);
  print_buffer("second", second);
}

/// The same when they have long left the device.
void use_absent() {
  const CUdeviceptr first = allocate();
  CHECK(cuMemsetD8(first, 0, kBytes));
  const CUdeviceptr second = allocate();
  CHECK(cuMemsetD8(second, 0, kBytes));
  const CUdeviceptr input = load_layers(1).front();
  const CUdeviceptr list = hidden_list({first, second, input, input});
  use_others();
  programs::accumulate_listed(list);
  CHECK(cuCtxSynchronize());
  print_buffer("first", first);
  print_buffer("second", second);
}

constexpr std::size_t kLargeBytes = 4 * kBytes;

/// A copy of `count` floats by a kernel with the name and the struct of one of PyTorch's: the words
/// that it looks at are the last ones.
void strided_copy(std::uint64_t (&words)[67], int count) {
  void* parameters[] = {&count, words};
  const CUfunction copy = programs::function(
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
      "copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_"
      "EEviT1_");
  const auto blocks = static_cast<unsigned>(count / 256);
  CHECK(cuLaunchKernel(copy, blocks, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
}

/// In words of which the kernel does not look at there are pointers to a large buffer.
void stale_words() {
  const CUdeviceptr input = load_layers(1).front();
  const CUdeviceptr output = allocate();
  const CUdeviceptr large = allocate(kLargeBytes);
  CHECK(cuMemsetD8(large, 7, kLargeBytes));
  std::uint64_t words[67] = {};
  words[6] = words[50] = large;
  words[63] = output;
  words[64] = input;
  for (int pass = 0; pass < 3; ++pass) {
    strided_copy(words, kFloats);
    accumulate(input, output, 0.5f);
    CHECK(cuMemsetD8(large, static_cast<unsigned char>(pass), kLargeBytes));
    accumulate(output, large, 0.5f);
  }
  print_buffer("input", input);
  print_buffer("output", output);
  std::vector<unsigned char> bytes(kLargeBytes);
  CHECK(cuMemcpyDtoH(bytes.data(), large, kLargeBytes));
  std::printf("large %016llx\n",
              static_cast<unsigned long long>(programs::hash_of(bytes.data(), bytes.size())));
}

struct Operands {
  int count;
  CUdeviceptr output;
  CUdeviceptr input;
};

/// Kernels that use all that their structs name, which is much: one of PyTorch's.
void used_words() {
  const CUdeviceptr output = allocate(kLargeBytes);
  CHECK(cuMemsetD8(output, 0, kLargeBytes));
  const CUdeviceptr input = allocate(kLargeBytes);
  CHECK(cuMemsetD8(input, 1, kLargeBytes));
  std::uint64_t words[67] = {};
  words[63] = output;
  words[64] = input;
  strided_copy(words, 4 * kFloats);
  CHECK(cuCtxSynchronize());
  print_buffer("output", output);
}

/// And one of which nothing is known.
void words_of_another() {
  const CUdeviceptr output = allocate(kLargeBytes);
  CHECK(cuMemsetD8(output, 0, kLargeBytes));
  const CUdeviceptr input = allocate(kLargeBytes);
  CHECK(cuMemsetD8(input, 1, kLargeBytes));
  Operands operands{kLargeBytes / sizeof(float), output, input};
  float factor = 1;
  void* parameters[] = {&operands, &factor};
  CHECK(cuLaunchKernel(programs::function("accumulate_struct"), 4 * kFloats / 256, 1, 1, 256, 1, 1,
                       0, nullptr, parameters, nullptr));
  CHECK(cuCtxSynchronize());
  print_buffer("output", output);
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(count, arguments,
                                {{"write_fresh", without_words<write_fresh>},
                                 {"use_absent", without_words<use_absent>},
                                 {"stale_words", without_words<stale_words>},
                                 {"used_words", without_words<used_words>},
                                 {"words_of_another", without_words<words_of_another>}});
}
