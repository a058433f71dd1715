#include "tools/simgpu/cudnn/execution.h"

#include <cstddef>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cudnn/status.h"

namespace simgpu::cudnn {
namespace {

bool write_output(CUstream stream, const std::vector<const void*>& inputs, const void* output,
                  const Product& work) {
  std::size_t next = 0;
  do {
    cublas::Inputs read{};
    std::size_t used = 0;
    if (next > 0) read[used++] = output;
    for (; used < read.size() && next < inputs.size(); ++next) {
      if (inputs[next] != nullptr) read[used++] = inputs[next];
    }
    if (cublas::launch(cublas::Routine::kDnn, stream, read, output, work) != cublas::kSuccess) {
      return false;
    }
  } while (next < inputs.size());
  return true;
}

}  // namespace

int execute(const Handle& handle, const std::vector<const void*>& inputs,
            const std::vector<void*>& outputs, const Product& work) {
  for (void* const output : outputs) {
    if (output != nullptr && !write_output(handle.stream, inputs, output, work)) {
      return kExecutionFailed;
    }
  }
  return kSuccess;
}

}  // namespace simgpu::cudnn
