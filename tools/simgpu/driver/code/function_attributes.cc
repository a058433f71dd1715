#include "tools/simgpu/driver/code/function_attributes.h"

#include <algorithm>

#include "tools/simgpu/driver/code/fat_binary.h"

namespace simgpu {
namespace {

constexpr int kMaxThreadsPerBlock = 1024;

}  // namespace

FunctionAttributes::FunctionAttributes(const KernelImage& image) {
  const int shared = static_cast<int>(image.static_shared_bytes);
  values_[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] =
      image.max_threads > 0 ? std::min(image.max_threads, kMaxThreadsPerBlock)
                            : kMaxThreadsPerBlock;
  values_[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = shared;
  values_[CU_FUNC_ATTRIBUTE_NUM_REGS] = image.registers;
  values_[CU_FUNC_ATTRIBUTE_PTX_VERSION] = kComputeCapability;
  values_[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = kComputeCapability;
  values_[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
      std::max(kSharedBytesByDefault - shared, 0);
  values_[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
}

CUresult FunctionAttributes::get(CUfunction_attribute attribute, int* value) const {
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX || value == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = values_[attribute].load(std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult FunctionAttributes::set(CUfunction_attribute attribute, int value) {
  bool allowed = false;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      allowed = value >= 0 &&
                value <= kSharedBytesOptIn - this->value(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      allowed = value >= -1 && value <= 100;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      allowed = value >= 0;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      allowed = value == 0 || value == 1;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      allowed = value >= 0 && value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
      break;
    default:
      break;
  }
  if (!allowed) return CUDA_ERROR_INVALID_VALUE;
  values_[attribute].store(value, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
