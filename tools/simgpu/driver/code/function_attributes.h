// The attributes of a kernel that programs read and set.
#pragma once

#include <array>
#include <atomic>

#include "tools/simgpu/driver/code/module_image.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// Shared memory of a block of a device of compute capability 9.0, in bytes.
inline constexpr int kSharedBytesByDefault = 49152;
inline constexpr int kSharedBytesOptIn = 232448;

/// The attributes of one kernel (CUfunction_attribute). Thread-safe.
class FunctionAttributes {
 public:
  explicit FunctionAttributes(const KernelImage& image);

  /// @return CUDA_ERROR_INVALID_VALUE if there is no such attribute; `*value` is then untouched.
  CUresult get(CUfunction_attribute attribute, int* value) const;

  /// @return CUDA_ERROR_INVALID_VALUE if the attribute cannot be set, or not to `value`.
  CUresult set(CUfunction_attribute attribute, int value);

  /// REQUIRES: `attribute` < CU_FUNC_ATTRIBUTE_MAX.
  [[nodiscard]] int value(CUfunction_attribute attribute) const {
    return values_[attribute].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int>, CU_FUNC_ATTRIBUTE_MAX> values_{};
};

}  // namespace simgpu
