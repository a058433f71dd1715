// A plugin that is wrong: its second kernel has no name.
#include "tools/simgpu/kernel_plugin.h"

namespace {

void nothing(const SimgpuLaunch* launch) { (void)launch; }

constexpr SimgpuKernel kKernels[] = {{"first", &nothing, 0, nullptr},
                                     {nullptr, &nothing, 0, nullptr}};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = 2;
  return kKernels;
}
