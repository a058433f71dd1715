// A CUDA program that hands its kernels tensor maps instead of pointers, on the driver API; it
// knows nothing of superpipe. Each scenario prints what it computed.
//
//     tensor_map_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::allocate;
using programs::content;
using programs::function;
using programs::kBytes;
using programs::kFloats;
using programs::load_layers;
using programs::print_buffer;

namespace {

constexpr int kPasses = 3;

/// Writes a map of the matrix of kFloats floats at `address`.
void encode(CUtensorMap* map, CUdeviceptr address) {
  const std::array<cuuint64_t, 2> extents{1024, kFloats / 1024};
  const std::array<cuuint64_t, 1> strides{4096};
  const std::array<cuuint32_t, 2> box{32, 8};
  const std::array<cuuint32_t, 2> steps{1, 1};
  CHECK(cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
                               reinterpret_cast<void*>(address), extents.data(), strides.data(),
                               box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                               CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

void launch(const char* kernel, void** parameters) {
  CHECK(cuLaunchKernel(function(kernel), kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters,
                       nullptr));
}

/// Launches with one argument buffer, in which the parameters lie where the driver says.
void launch_packed(const char* kernel,
                   const std::vector<std::pair<const void*, std::size_t>>& values) {
  const CUfunction launched = function(kernel);
  std::vector<char> buffer;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    CHECK(cuFuncGetParamInfo(launched, i, &offset, &size));
    buffer.resize(offset + size);
    std::memcpy(buffer.data() + offset, values[i].first, values[i].second);
  }
  std::size_t size = buffer.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &size, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(launched, kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
}

void accumulate_mapped(CUdeviceptr output, const CUtensorMap& map, float factor) {
  CUtensorMap input = map;
  int count = kFloats;
  void* parameters[] = {&input, &output, &factor, &count};
  launch("accumulate_mapped", parameters);
}

CUdeviceptr zeros() {
  const CUdeviceptr state = allocate();
  CHECK(cuMemsetD8(state, 0, kBytes));
  return state;
}

/// A map for each product, as a library does that keeps none.
void encoded_each_time() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) {
      CUtensorMap map;
      encode(&map, weight);
      accumulate_mapped(state, map, 0.5f);
    }
  }
  print_buffer("state", state);
}

/// One map, turned from one layer to the next.
void replaced() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  CUtensorMap map;
  encode(&map, weights[0]);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) {
      CHECK(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(weight)));
      accumulate_mapped(state, map, 0.5f);
    }
  }
  print_buffer("state", state);
}

/// Maps that are kept, in structs and in an argument buffer.
void kept() {
  struct Mapped {
    int count;
    CUtensorMap input;
  };
  const auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  std::vector<Mapped> operands(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    operands[i].count = kFloats;
    encode(&operands[i].input, weights[i]);
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    for (Mapped& operand : operands) {
      CUdeviceptr output = state;
      float factor = 0.25f;
      void* parameters[] = {&operand, &output, &factor};
      launch("accumulate_mapped_struct", parameters);
    }
    for (const Mapped& operand : operands) {
      const float factor = 0.5f;
      launch_packed("accumulate_mapped", {{&operand.input, sizeof operand.input},
                                          {&state, sizeof state},
                                          {&factor, sizeof factor},
                                          {&kFloats, sizeof kFloats}});
    }
  }
  print_buffer("state", state);
}

/// Memory that is freed and comes again at its address, for which maps from before are good.
void freed_and_back() {
  auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  std::map<CUdeviceptr, CUtensorMap> maps;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (maps.count(weights[i]) == 0) encode(&maps[weights[i]], weights[i]);
      accumulate_mapped(state, maps[weights[i]], 0.5f);
    }
    for (const CUdeviceptr weight : weights) CHECK(cuMemFree(weight));
    weights = load_layers(8);
  }
  print_buffer("state", state);
}

/// Maps of two layers in device memory: nothing about a launch shows which.
void in_device_memory() {
  constexpr std::size_t kFar = 2;
  const auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  std::array<CUtensorMap, kFar> maps;
  for (std::size_t i = 0; i < kFar; ++i) encode(&maps[i], weights[i]);
  const CUdeviceptr far = allocate(4 * sizeof(CUtensorMap));
  CHECK(cuMemcpyHtoD(far, maps.data(), sizeof maps));
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) programs::accumulate(state, weight, 0.125f);
    for (std::size_t i = 0; i < kFar; ++i) {
      CUdeviceptr map = far + i * sizeof(CUtensorMap);
      CUdeviceptr output = state;
      float factor = 0.5f;
      int count = kFloats;
      void* parameters[] = {&map, &output, &factor, &count};
      launch("accumulate_mapped_far", parameters);
    }
  }
  print_buffer("state", state);
}

/// A map that the host writes where the device reads it.
void in_pinned_memory() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = zeros();
  void* pinned = nullptr;
  CHECK(cuMemHostAlloc(&pinned, sizeof(CUtensorMap), CU_MEMHOSTALLOC_DEVICEMAP));
  encode(static_cast<CUtensorMap*>(pinned), weights[0]);
  CUdeviceptr map = 0;
  CHECK(cuMemHostGetDevicePointer(&map, pinned, 0));
  for (int pass = 0; pass < kPasses; ++pass) {
    for (const CUdeviceptr weight : weights) programs::accumulate(state, weight, 0.125f);
    CUdeviceptr output = state;
    float factor = 0.5f;
    int count = kFloats;
    void* parameters[] = {&map, &output, &factor, &count};
    launch("accumulate_mapped_far", parameters);
  }
  print_buffer("state", state);
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(count, arguments,
                                {{"encoded_each_time", without_words<encoded_each_time>},
                                 {"replaced", without_words<replaced>},
                                 {"kept", without_words<kept>},
                                 {"freed_and_back", without_words<freed_and_back>},
                                 {"in_device_memory", without_words<in_device_memory>},
                                 {"in_pinned_memory", without_words<in_pinned_memory>}});
}
