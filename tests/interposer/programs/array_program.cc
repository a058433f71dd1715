// A CUDA program that hands its kernels arrays of pointers which other kernels have filled, or the
// host, as batched and grouped products do; on the driver API, it knows nothing of superpipe. Each
// scenario prints what it computed.
//
//     array_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::allocate;
using programs::function;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

/// The matrices of a batch, one behind the other in a buffer.
constexpr int kPairs = 2;
constexpr int kMatrixFloats = kFloats / kPairs;
constexpr std::size_t kMatrixBytes = sizeof(float) * kMatrixFloats;
constexpr std::size_t kArrayBytes = sizeof(CUdeviceptr) * kPairs;

void launch(const char* kernel, int threads, void** parameters) {
  CHECK(cuLaunchKernel(function(kernel), (threads + 255) / 256, 1, 1, threads < 256 ? threads : 256,
                       1, 1, 0, nullptr, parameters, nullptr));
}

/// An array of the addresses of the matrices of `batch`.
CUdeviceptr array_of(CUdeviceptr batch) {
  CUdeviceptr array = allocate(kArrayBytes);
  long long stride = kMatrixFloats;
  int pairs = kPairs;
  void* parameters[] = {&array, &batch, &stride, &pairs};
  launch("_ZN5model8point_atEPPfS0_xi", kPairs, parameters);
  return array;
}

/// The same by a kernel that counts.
CUdeviceptr counted_array_of(CUdeviceptr batch) {
  struct Range {
    std::uint64_t start;
    std::uint64_t step;
  };
  CUdeviceptr array = allocate(kArrayBytes);
  int count = kPairs;
  Range range{batch, kMatrixBytes};
  void* parameters[] = {&count, &range, &array};
  launch("_ZN5model6arangeEiNS_5RangeEPy", kPairs, parameters);
  return array;
}

/// The same in host memory that the device reads.
CUdeviceptr host_array_of(CUdeviceptr batch) {
  void* array = nullptr;
  CHECK(cuMemHostAlloc(&array, kArrayBytes, 0));
  auto* const pointers = static_cast<CUdeviceptr*>(array);
  for (int i = 0; i < kPairs; ++i) pointers[i] = batch + i * kMatrixBytes;
  return reinterpret_cast<CUdeviceptr>(array);
}

/// A copy of `array`, each of whose addresses is increased by nothing.
CUdeviceptr displaced(CUdeviceptr array) {
  CUdeviceptr copy = allocate(kArrayBytes);
  long long by = 0;
  int pairs = kPairs;
  void* parameters[] = {&copy, &array, &by, &pairs};
  launch("_ZN5model8displaceEPPfS1_xi", kPairs, parameters);
  return copy;
}

/// outputs[i] += inputs[i] for two arrays.
void accumulate_batched(CUdeviceptr outputs, CUdeviceptr inputs) {
  int pairs = kPairs;
  int count = kMatrixFloats;
  void* parameters[] = {&outputs, &inputs, &pairs, &count};
  launch("_ZN5model18accumulate_batchedEPPfPKPKfii", kMatrixFloats, parameters);
}

/// The same, by a kernel that has the arrays in a struct.
void accumulate_grouped(CUdeviceptr outputs, CUdeviceptr inputs) {
  struct Grouped {
    CUdeviceptr outputs;
    CUdeviceptr inputs;
    int pairs;
    int count;
  };
  Grouped operands{outputs, inputs, kPairs, kMatrixFloats};
  void* parameters[] = {&operands};
  launch("_ZN5model18accumulate_groupedENS_7GroupedE", kMatrixFloats, parameters);
}

/// Accumulates batches by `accumulate_arrays` through arrays that `make` fills, before and after
/// other buffers had their place on the device.
template <CUdeviceptr (*kMake)(CUdeviceptr), void (*kAccumulate)(CUdeviceptr, CUdeviceptr)>
void batches() {
  constexpr int kBatches = 4;
  const auto inputs = load_layers(kBatches);
  const auto others = load_layers(8);
  std::vector<CUdeviceptr> outputs;
  std::vector<CUdeviceptr> output_arrays;
  std::vector<CUdeviceptr> input_arrays;
  for (const CUdeviceptr input : inputs) {
    outputs.push_back(allocate());
    CHECK(cuMemsetD8(outputs.back(), 0, kBytes));
    output_arrays.push_back(kMake(outputs.back()));
    input_arrays.push_back(kMake(input));
  }
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  for (int pass = 0; pass < 3; ++pass) {
    for (int batch = 0; batch < kBatches; ++batch) {
      kAccumulate(output_arrays[batch], input_arrays[batch]);
      accumulate(state, outputs[batch], 0.5f);
    }
    for (const CUdeviceptr other : others) accumulate(state, other, 0.5f);
  }
  for (const CUdeviceptr output : outputs) print_buffer("output", output);
  print_buffer("state", state);
}

/// Arrays in memory that is freed and allocated again for others: they lead to what they have now.
void freed() {
  const auto inputs = load_layers(8);
  const CUdeviceptr output = allocate();
  CHECK(cuMemsetD8(output, 0, kBytes));
  for (int pass = 0; pass < 3; ++pass) {
    for (const CUdeviceptr input : inputs) {
      const CUdeviceptr outputs = array_of(output);
      const CUdeviceptr array = array_of(input);
      accumulate_grouped(outputs, array);
      CHECK(cuMemFree(outputs));
      CHECK(cuMemFree(array));
    }
  }
  print_buffer("output", output);
}

CUdeviceptr displaced_array_of(CUdeviceptr batch) { return displaced(array_of(batch)); }
CUdeviceptr displaced_host_array_of(CUdeviceptr batch) { return displaced(host_array_of(batch)); }

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(
      count, arguments,
      {{"filled", without_words<batches<array_of, accumulate_batched>>},
       {"filled_grouped", without_words<batches<array_of, accumulate_grouped>>},
       {"counted", without_words<batches<counted_array_of, accumulate_batched>>},
       {"counted_grouped", without_words<batches<counted_array_of, accumulate_grouped>>},
       {"displaced_grouped", without_words<batches<displaced_array_of, accumulate_grouped>>},
       {"host", without_words<batches<host_array_of, accumulate_batched>>},
       {"displaced_host", without_words<batches<displaced_host_array_of, accumulate_grouped>>},
       {"freed", without_words<freed>}});
}
