// What the test programs share: checked calls, known contents, and launches of kernels.cu.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace programs {

inline constexpr int kFloats = 1 << 19;  // 2 MiB a buffer
inline constexpr std::size_t kBytes = sizeof(float) * kFloats;

/// Ends the program, and says where, unless `result` is success.
inline void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::printf("%s: %s\n", what, name == nullptr ? "unknown" : name);
  std::fflush(stdout);
  std::exit(1);
}
#define CHECK(call) ::programs::check((call), #call)

/// The same numbers in every run, different in every buffer.
inline std::vector<float> content(int seed) {
  std::vector<float> values(kFloats);
  std::uint32_t state = 12345u + 977u * static_cast<std::uint32_t>(seed);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 24) / 256.0f;
  }
  return values;
}

inline std::uint64_t hash_of(const void* data, std::size_t size) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  const auto* const bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001B3ULL;
  return hash;
}

inline CUdeviceptr allocate(std::size_t size = kBytes) {
  CUdeviceptr address = 0;
  CHECK(cuMemAlloc(&address, size));
  return address;
}

inline void print_buffer(const char* name, CUdeviceptr buffer) {
  std::vector<float> values(kFloats);
  CHECK(cuMemcpyDtoH(values.data(), buffer, kBytes));
  std::printf("%s %016llx\n", name,
              static_cast<unsigned long long>(hash_of(values.data(), kBytes)));
}

/// The loaded kernels.fatbin.
inline CUmodule module;

inline CUfunction function(const char* name) {
  CUfunction found = nullptr;
  CHECK(cuModuleGetFunction(&found, module, name));
  return found;
}

/// output += factor * input
inline void accumulate(CUdeviceptr output, CUdeviceptr input, float factor,
                       CUstream stream = nullptr) {
  int count = kFloats;
  void* parameters[] = {&output, &input, &factor, &count};
  CHECK(cuLaunchKernel(function("accumulate"), kFloats / 256, 1, 1, 256, 1, 1, 0, stream,
                       parameters, nullptr));
}

/// Accumulates through pointers that only device memory holds: `lists` has those of two outputs,
/// then those of their inputs.
inline void accumulate_listed(CUdeviceptr lists) {
  CUdeviceptr outputs = lists;
  CUdeviceptr inputs = lists + 2 * sizeof(CUdeviceptr);
  int pairs = 2;
  int count = kFloats;
  void* parameters[] = {&outputs, &inputs, &pairs, &count};
  CHECK(cuLaunchKernel(function("accumulate_listed"), kFloats / 256, 1, 1, 256, 1, 1, 0, nullptr,
                       parameters, nullptr));
}

/// Weights of `layers` layers, loaded from the host.
inline std::vector<CUdeviceptr> load_layers(int layers) {
  std::vector<CUdeviceptr> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(allocate());
    CHECK(cuMemcpyHtoD(weights.back(), content(i).data(), kBytes));
  }
  // A copy from pageable memory returns when it is staged: other streams have to wait for its end.
  CHECK(cuStreamSynchronize(nullptr));
  return weights;
}

/// Passes through all layers into `state`.
inline void run_passes(int passes, CUdeviceptr state, const std::vector<CUdeviceptr>& weights) {
  for (int pass = 0; pass < passes; ++pass) {
    for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.25f);
  }
}

/// Makes the primary context of device 0 current, and loads the kernels there.
inline CUcontext use_primary_context(const char* kernels) {
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoad(&module, kernels));
  return context;
}

/// The words of a command behind the scenario's name: the file of the kernels, and what the
/// scenario takes.
using Words = std::vector<std::string>;

/// What programs do, by name.
using Scenarios = std::map<std::string, void (*)(const Words&)>;

/// A scenario that takes nothing.
template <void (*kScenario)()>
void without_words(const Words& /*words*/) {
  kScenario();
}

/// Runs one of `scenarios`, with the kernels loaded: PROGRAM SCENARIO KERNELS [WORD...].
/// @return the exit code; 2: there is no such scenario.
inline int run_scenario(int count, char** arguments, const Scenarios& scenarios) {
  if (count < 3) return 2;
  const auto found = scenarios.find(arguments[1]);
  if (found == scenarios.end()) return 2;
  CHECK(cuInit(0));
  use_primary_context(arguments[2]);
  found->second({arguments + 2, arguments + count});
  return 0;
}

}  // namespace programs
