#include "tools/simgpu/cudnn/execution.h"

#include "tools/simgpu/cublas/launch.h"
#include "tools/simgpu/cudnn/status.h"

namespace simgpu::cudnn {

int execute(const Handle& handle, const std::vector<ProductOperand>& inputs,
            const std::vector<ProductOperand>& outputs, const Product& work) {
  const cublas::Status status =
      cublas::execute(cublas::Routine::kDnn, handle.stream, inputs, outputs, work);
  return status == cublas::kSuccess ? kSuccess : kExecutionFailed;
}

}  // namespace simgpu::cudnn
