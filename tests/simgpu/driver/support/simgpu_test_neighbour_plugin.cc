// A plugin that lies beside a library, with a kernel of its own and one that another plugin has
// too.
#include "tools/simgpu/kernel_plugin.h"

namespace {

void nothing(const SimgpuLaunch* /*launch*/) {}

constexpr SimgpuKernel kKernels[] = {{"neighbour", &nothing, 0, nullptr},
                                     {"add", &nothing, 0, nullptr}};

}  // namespace

const SimgpuKernel* simgpu_kernels(size_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
