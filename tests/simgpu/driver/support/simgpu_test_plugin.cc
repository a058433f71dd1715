// A plugin for the tests: one kernel that computes, with a time that depends on the launch, and one
// that stores an address.
#include <cstddef>
#include <cstring>

#include "tools/simgpu/kernel_plugin.h"

namespace {

template <typename T>
T argument(const SimgpuLaunch* launch, std::size_t index) {
  T value;
  std::memcpy(&value, launch->arguments[index], sizeof(T));
  return value;
}

// out[i] += in[i] * (i % 8 + 1), for i < n and no more threads than were launched.
void add(const SimgpuLaunch* launch) {
  auto* const out = argument<float*>(launch, 0);
  const auto* const in = argument<const float*>(launch, 1);
  const int n = argument<int>(launch, 2);
  const int threads = static_cast<int>(launch->grid[0] * launch->block[0]);
  for (int i = 0; i < n && i < threads; ++i) out[i] += in[i] * static_cast<float>(i % 8 + 1);
}

double add_us(const SimgpuLaunch* launch) { return 10.0 * argument<int>(launch, 2); }

// out[0] = the address of `target`; out[1] = where this kernel finds it.
void point_at(const SimgpuLaunch* launch) {
  const auto out = argument<const void**>(launch, 0);
  const auto* const target = argument<const void*>(launch, 1);
  out[0] = launch->program_address(launch, target);
  out[1] = target;
}

// A fixed time, and nothing else.
void nothing(const SimgpuLaunch* launch) { (void)launch; }

constexpr SimgpuKernel kKernels[] = {{"add", &add, 0, &add_us},
                                     {"nothing", &nothing, 3000, nullptr},
                                     {"point_at", &point_at, 0, nullptr}};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
