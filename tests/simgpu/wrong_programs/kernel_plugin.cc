// The kernels of the wrong programs on the host.

#include "tools/simgpu/kernel_plugin.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/hang_limit.h"
#include "tests/simgpu/wrong_programs/kernels.h"

namespace {

using wrong_programs::Request;

template <typename Value>
Value argument(const SimgpuLaunch* launch, size_t index) {
  return *static_cast<const Value*>(launch->arguments[index]);
}

// Gives up after a time that no program takes, so that nothing is left running if one fails.
void wait_for(volatile unsigned* gate) {
  gate[wrong_programs::kStarted] = 1;
  const superpipe::testing::HangGuard guard;
  while (gate[wrong_programs::kOpen] == 0 && !guard.is_over()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void fill(const SimgpuLaunch* launch) {
  std::fill_n(argument<unsigned*>(launch, 0), argument<unsigned>(launch, 2),
              argument<unsigned>(launch, 1));
}

void copy(const SimgpuLaunch* launch) {
  std::copy_n(argument<const unsigned*>(launch, 1), argument<unsigned>(launch, 2),
              argument<unsigned*>(launch, 0));
}

void wait_and_fill(const SimgpuLaunch* launch) {
  wait_for(argument<volatile unsigned*>(launch, 3));
  fill(launch);
}

void fill_and_wait(const SimgpuLaunch* launch) {
  fill(launch);
  wait_for(argument<volatile unsigned*>(launch, 3));
}

void wait_and_copy(const SimgpuLaunch* launch) {
  wait_for(argument<volatile unsigned*>(launch, 3));
  copy(launch);
}

void copy_and_wait(const SimgpuLaunch* launch) {
  copy(launch);
  wait_for(argument<volatile unsigned*>(launch, 3));
}

void copy_as_told(const SimgpuLaunch* launch) {
  const Request& request = *argument<const Request*>(launch, 0);
  std::copy_n(request.in, request.count, request.out);
}

constexpr double kMicroseconds = 5;
constexpr SimgpuKernel kKernels[] = {
    {"fill_words", fill, kMicroseconds, nullptr},
    {"wait_and_fill", wait_and_fill, kMicroseconds, nullptr},
    {"fill_and_wait", fill_and_wait, kMicroseconds, nullptr},
    {"_Z10copy_wordsPjPKjj", copy, kMicroseconds, nullptr},
    {"_Z13wait_and_copyPjPKjjPVj", wait_and_copy, kMicroseconds, nullptr},
    {"wait_and_copy_plain", wait_and_copy, kMicroseconds, nullptr},
    {"_Z13copy_and_waitPjPKjjPVj", copy_and_wait, kMicroseconds, nullptr},
    {"copy_as_told", copy_as_told, kMicroseconds, nullptr},
};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
