// Pooling, by cuDNN's calls before its graph API. An execution is one launch.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/simgpu/cudnn/data_type.h"
#include "tools/simgpu/cudnn/execution.h"
#include "tools/simgpu/cudnn/guarded.h"
#include "tools/simgpu/cudnn/handle.h"
#include "tools/simgpu/cudnn/legacy.h"
#include "tools/simgpu/cudnn/status.h"
#include "tools/simgpu/export.h"

namespace simgpu::cudnn {
namespace {

constexpr int kMostSpatial = 6;  // CUDNN_DIM_MAX less batch and channel

/// A window that moves over the extents of a tensor behind batch and channel.
struct Pooling {
  int mode = 0;  ///< cudnnPoolingMode_t
  int nan = 0;   ///< cudnnNanPropagation_t
  std::vector<int> window;
  std::vector<int> padding;
  std::vector<int> strides;
};

ProductOperand pooled(const void* address, const Tensor* tensor) {
  if (tensor == nullptr) return {address, 0};
  return {address, strided_bytes<int>(tensor->extents, tensor->strides, tensor->type)};
}

/// Each number of `result` is one of the windows.
Product work_of(const Pooling& pooling, const Tensor& result) {
  Product work;
  for (const int extent : result.extents) work.m *= static_cast<std::uint64_t>(extent);
  for (const int extent : pooling.window) work.k *= static_cast<std::uint64_t>(extent);
  work.element_bytes = bytes_of(result.type);
  return work;
}

int set(Pooling* pooling, int mode, int nan, std::span<const int> window,
        std::span<const int> padding, std::span<const int> strides) {
  if (pooling == nullptr) return kBadParam;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (window[i] < 1 || padding[i] < 0 || strides[i] < 1) return kBadParam;
  }
  return guarded([&] {
    *pooling = {mode,
                nan,
                {window.begin(), window.end()},
                {padding.begin(), padding.end()},
                {strides.begin(), strides.end()}};
    return kSuccess;
  });
}

/// Tells what the extents become of a tensor of `input`'s. `targets`: as many as the tensor has.
int tell_result(const Pooling* pooling, const Tensor* input, std::span<int> targets) {
  constexpr std::size_t kBeforeSpatial = 2;
  if (pooling == nullptr || input == nullptr) return kBadParam;
  if (input->extents.size() != pooling->window.size() + kBeforeSpatial ||
      targets.size() != input->extents.size()) {
    return kBadParam;
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i] = input->extents[i];
    if (i < kBeforeSpatial) continue;
    const std::size_t at = i - kBeforeSpatial;
    const int room = input->extents[i] + 2 * pooling->padding[at] - pooling->window[at];
    targets[i] = 1 + room / pooling->strides[at];
  }
  return kSuccess;
}

}  // namespace

SIMGPU_EXPORT int cudnnCreatePoolingDescriptor(Pooling** pooling) {
  if (pooling == nullptr) return kBadParam;
  return guarded([pooling] {
    *pooling = new Pooling;
    return kSuccess;
  });
}
SIMGPU_EXPORT int cudnnDestroyPoolingDescriptor(Pooling* pooling) {
  delete pooling;  // null is allowed
  return kSuccess;
}
SIMGPU_EXPORT int cudnnSetPooling2dDescriptor(Pooling* pooling, int mode, int nan, int height,
                                              int width, int vertical_padding,
                                              int horizontal_padding, int vertical_stride,
                                              int horizontal_stride) {
  return set(pooling, mode, nan, std::array{height, width},
             std::array{vertical_padding, horizontal_padding},
             std::array{vertical_stride, horizontal_stride});
}
SIMGPU_EXPORT int cudnnSetPoolingNdDescriptor(Pooling* pooling, int mode, int nan, int count,
                                              const int* window, const int* padding,
                                              const int* strides) {
  if (count < 1 || count > kMostSpatial || window == nullptr || padding == nullptr ||
      strides == nullptr) {
    return kBadParam;
  }
  const auto size = static_cast<std::size_t>(count);
  return set(pooling, mode, nan, {window, size}, {padding, size}, {strides, size});
}
SIMGPU_EXPORT int cudnnGetPoolingNdForwardOutputDim(const Pooling* pooling, const Tensor* input,
                                                    int count, int* extents) {
  if (count < 1 || extents == nullptr) return kBadParam;
  return tell_result(pooling, input, {extents, static_cast<std::size_t>(count)});
}
SIMGPU_EXPORT int cudnnGetPooling2dForwardOutputDim(const Pooling* pooling, const Tensor* input,
                                                    int* n, int* c, int* h, int* w) {
  std::array<int, 4> extents{};
  if (n == nullptr || c == nullptr || h == nullptr || w == nullptr) return kBadParam;
  const int status = tell_result(pooling, input, extents);
  if (status == kSuccess) {
    *n = extents[0];
    *c = extents[1];
    *h = extents[2];
    *w = extents[3];
  }
  return status;
}

SIMGPU_EXPORT int cudnnPoolingForward(const Handle* handle, const Pooling* pooling,
                                      const void* /*alpha*/, const Tensor* x_tensor, const void* x,
                                      const void* beta, const Tensor* y_tensor, void* y) {
  if (handle == nullptr || pooling == nullptr || y_tensor == nullptr) return kBadParam;
  return guarded([&] {
    const ProductOperand result = pooled(y, y_tensor);
    return execute(*handle, {pooled(x, x_tensor), added_to(beta, y_tensor->type, result)}, {result},
                   work_of(*pooling, *y_tensor));
  });
}
SIMGPU_EXPORT int cudnnPoolingBackward(const Handle* handle, const Pooling* pooling,
                                       const void* /*alpha*/, const Tensor* y_tensor, const void* y,
                                       const Tensor* dy_tensor, const void* dy,
                                       const Tensor* x_tensor, const void* x, const void* beta,
                                       const Tensor* dx_tensor, void* dx) {
  if (handle == nullptr || pooling == nullptr || dx_tensor == nullptr) return kBadParam;
  return guarded([&] {
    const ProductOperand result = pooled(dx, dx_tensor);
    return execute(*handle,
                   {pooled(y, y_tensor), pooled(dy, dy_tensor), pooled(x, x_tensor),
                    added_to(beta, dx_tensor->type, result)},
                   {result}, work_of(*pooling, *dx_tensor));
  });
}

}  // namespace simgpu::cudnn
