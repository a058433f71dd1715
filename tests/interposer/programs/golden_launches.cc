// Launches a fixed loop through the hook, for counting its instructions: golden_launches COUNT.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "interposer/contexts/context_registry.h"
#include "interposer/generated/hooks.h"
#include "interposer/process_configuration.h"
#include "tests/interposer/null_driver.h"

int main(int count, char** arguments) {
  constexpr std::size_t kArguments = 8;
  constexpr std::size_t kBuffers = 64;
  constexpr std::size_t kBufferBytes = 4096;
  const long launches = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 0;
  superpipe::testing::install_null_driver(kArguments);
  superpipe::Configuration configuration;
  configuration.min_buffer = superpipe::Bytes{kBufferBytes};
  configuration.shared_folder = std::filesystem::temp_directory_path();
  superpipe::set_process_configuration(configuration);
  std::array<CUdeviceptr, kBuffers> buffers{};
  for (CUdeviceptr& buffer : buffers) {
    if (superpipe::hook::cuMemAlloc_v2(&buffer, kBufferBytes) != CUDA_SUCCESS) return 1;
  }
  std::array<CUdeviceptr, kArguments> values{};
  std::array<void*, kArguments> parameters{};
  for (std::size_t i = 0; i < kArguments; ++i) parameters[i] = &values[i];
  std::size_t next = 0;
  for (long i = 0; i < launches; ++i) {
    for (CUdeviceptr& value : values) value = buffers[next++ % kBuffers];
    if (superpipe::hook::cuLaunchKernel(superpipe::testing::null_kernel(1), 1, 1, 1, 1, 1, 1, 0,
                                        nullptr, parameters.data(), nullptr) != CUDA_SUCCESS) {
      return 1;
    }
  }
  std::printf("%llu\n",
              static_cast<unsigned long long>(superpipe::testing::null_driver_launches()));
  // As at a process's end: no driver call, no destructors.
  superpipe::ContextRegistry::of_process().abandon();
  return 0;
}
