// Driver functions without an effect on a device in software.
#include <cudaProfiler.h>

#include "tools/simgpu/driver/context/context.h"

namespace simgpu {

SIMGPU_EXPORT CUresult cuProfilerStart() {
  SIMGPU_ENTER(cuProfilerStart);
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuProfilerStop() {
  SIMGPU_ENTER(cuProfilerStop);
  SIMGPU_CONTEXT(context);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                                  CUflushGPUDirectRDMAWritesScope scope) {
  SIMGPU_ENTER(cuFlushGPUDirectRDMAWrites);
  SIMGPU_CONTEXT(context);
  const bool known = target == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX &&
                     (scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ||
                      scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// There are no export tables: they are private between NVIDIA's libraries.
SIMGPU_EXPORT CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  SIMGPU_ENTER_WITH(cuGetExportTable, Requires::kNothing);
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace simgpu
