// The suite's kernels on the host, for simgpu. fill_after really waits, so that a missing wait
// shows whatever the simulated time does.

#include "tools/simgpu/kernel_plugin.h"

#include <chrono>
#include <thread>

#include "tests/conformance/kernels.h"

namespace {

template <typename Value>
Value argument(const SimgpuLaunch* launch, size_t index) {
  return *static_cast<const Value*>(launch->arguments[index]);
}

void fill_after(const SimgpuLaunch* launch) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(argument<unsigned long long>(launch, 3)));
  auto* const out = argument<unsigned*>(launch, 0);
  const auto value = argument<unsigned>(launch, 1);
  const auto count = argument<unsigned>(launch, 2);
  for (unsigned i = 0; i < count; ++i) out[i] = value;
}

double fill_after_us(const SimgpuLaunch* launch) {
  return static_cast<double>(argument<unsigned long long>(launch, 3)) / 1000.0 + 1.0;
}

void copy_words(const SimgpuLaunch* launch) {
  auto* const out = argument<unsigned*>(launch, 0);
  const auto* const in = argument<const unsigned*>(launch, 1);
  const auto count = argument<unsigned>(launch, 2);
  for (unsigned i = 0; i < count; ++i) out[i] = in[i];
}

void combine(const SimgpuLaunch* launch) {
  const auto operands = argument<conformance::Operands>(launch, 0);
  const auto addend = argument<unsigned>(launch, 1);
  const auto count = argument<unsigned short>(launch, 2);
  for (unsigned i = 0; i < count; ++i) operands.out[i] = operands.in[i] * operands.factor + addend;
}

constexpr SimgpuKernel kKernels[] = {
    {"fill_after", fill_after, 0, fill_after_us},
    {"copy_words", copy_words, 5, nullptr},
    {"combine", combine, 5, nullptr},
};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
