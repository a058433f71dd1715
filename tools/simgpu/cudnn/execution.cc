#include "tools/simgpu/cudnn/execution.h"

#include <cstddef>

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cudnn/status.h"

namespace simgpu::cudnn {
namespace {

bool write_output(CUstream stream, const std::vector<ProductOperand>& inputs,
                  const ProductOperand& output, const Product& work) {
  std::size_t next = 0;
  do {
    cublas::Inputs read{};
    std::size_t used = 0;
    if (next > 0) read[used++] = output;
    for (; used < read.size() && next < inputs.size(); ++next) {
      if (inputs[next].address != nullptr) read[used++] = inputs[next];
    }
    if (cublas::launch(cublas::Routine::kDnn, stream, read, output, work) != cublas::kSuccess) {
      return false;
    }
  } while (next < inputs.size());
  return true;
}

}  // namespace

int execute(const Handle& handle, const std::vector<ProductOperand>& inputs,
            const std::vector<ProductOperand>& outputs, const Product& work) {
  for (const ProductOperand& output : outputs) {
    if (output.address != nullptr && !write_output(handle.stream, inputs, output, work)) {
      return kExecutionFailed;
    }
  }
  return kSuccess;
}

}  // namespace simgpu::cudnn
