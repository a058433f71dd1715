// The calls of cuDNN that frameworks make beside its graph API: descriptors of tensors, batch
// normalization, dropout, recurrent networks. Each execution is one launch for each of its results.
#include <algorithm>
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

constexpr int kMostExtents = 8;  // CUDNN_DIM_MAX

/// A descriptor of which nothing is kept.
struct Opaque {};

// The states of dropout are seeds of random numbers, which a launch writes. Workspaces are for
// intermediate results, of which there are none. The reserve is what a forward pass leaves for the
// backward one.
constexpr std::size_t kDropoutStates = std::size_t{1} << 20;
constexpr std::size_t kReserve = 512;

// Source: cuDNN, cudnnRNNDataLayout_t.
constexpr int kPackedSequences = 1;

template <typename Kind>
int create(Kind** descriptor) {
  if (descriptor == nullptr) return kBadParam;
  return guarded([descriptor] {
    *descriptor = new Kind;
    return kSuccess;
  });
}

template <typename Kind>
int destroy(Kind* descriptor) {
  delete descriptor;  // null is allowed
  return kSuccess;
}

int describe(Tensor* tensor, int type, int format, std::span<const int> extents,
             std::span<const int> strides) {
  if (tensor == nullptr) return kBadParam;
  return guarded([&] {
    *tensor = {type, format, {extents.begin(), extents.end()}, {strides.begin(), strides.end()}};
    return kSuccess;
  });
}

/// The strides of a tensor without gaps.
std::vector<int> packed(std::span<const int> extents) {
  std::vector<int> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

int describe_packed(Tensor* tensor, int type, int format, std::span<const int> extents) {
  return guarded([&] { return describe(tensor, type, format, extents, packed(extents)); });
}

/// Tells as many as were asked for, and how many there are.
void tell(const std::vector<int>& values, int room, int* target) {
  if (target == nullptr) return;
  const auto count = std::min(values.size(), static_cast<std::size_t>(std::max(room, 0)));
  std::copy_n(values.begin(), count, target);
}

template <typename Value>
void tell(Value value, Value* target) {
  if (target != nullptr) *target = value;
}

int tell_size(const void* known, std::size_t bytes, std::size_t* target) {
  if (known == nullptr || target == nullptr) return kBadParam;
  *target = bytes;
  return kSuccess;
}

Product numbers_of(const Tensor* tensor) {
  Product work;
  if (tensor == nullptr) return work;
  for (const int extent : tensor->extents) {
    work.m *= static_cast<std::uint64_t>(std::max(extent, 1));
  }
  return work;
}

/// Of a pass of a network over sequences: every weight meets every vector of each step.
Product work_of(const Network& network, const Sequences& sequences) {
  Product work;
  const auto extent = [](int value) { return static_cast<std::uint64_t>(std::max(value, 1)); };
  work.m = extent(sequences.longest) * extent(sequences.batch);
  work.n = extent(network.hidden);
  work.k = std::max<std::uint64_t>(
      weight_bytes(network) / bytes_of(network.type) / extent(network.hidden), 1);
  work.element_bytes = bytes_of(network.type);
  return work;
}

/// What `tensor` describes at `address`.
ProductOperand operand_of(const void* address, const Tensor* tensor) {
  if (tensor == nullptr) return {address, 0};
  return {address, strided_bytes<int>(tensor->extents, tensor->strides, tensor->type)};
}

/// Sequences, none longer than the longest.
ProductOperand operand_of(const void* address, const Sequences* sequences) {
  if (sequences == nullptr) return {address, 0};
  return {address, sequences->vectors * static_cast<std::uint64_t>(sequences->vector) *
                       bytes_of(sequences->type)};
}

/// The lengths of the sequences.
ProductOperand lengths_of(const std::int32_t* lengths, const Sequences& sequences) {
  return {lengths, static_cast<std::uint64_t>(sequences.batch) * sizeof(std::int32_t)};
}

/// `result` as far as it is read.
ProductOperand added_to(const void* beta, const Tensor* tensor, const ProductOperand& result) {
  return cudnn::added_to(beta, tensor == nullptr ? 0 : tensor->type, result);
}

int execute_all(const Handle* handle, const std::vector<ProductOperand>& inputs,
                const std::vector<ProductOperand>& outputs, const Product& work) {
  return handle == nullptr ? kBadParam : execute(*handle, inputs, outputs, work);
}

}  // namespace

SIMGPU_EXPORT int cudnnCreateTensorDescriptor(Tensor** tensor) { return create(tensor); }
SIMGPU_EXPORT int cudnnDestroyTensorDescriptor(Tensor* tensor) { return destroy(tensor); }

SIMGPU_EXPORT int cudnnSetTensorNdDescriptor(Tensor* tensor, int type, int count,
                                             const int* extents, const int* strides) {
  if (count < 1 || count > kMostExtents || extents == nullptr || strides == nullptr) {
    return kBadParam;
  }
  const auto size = static_cast<std::size_t>(count);
  return describe(tensor, type, 0, {extents, size}, {strides, size});
}
SIMGPU_EXPORT int cudnnSetTensorNdDescriptorEx(Tensor* tensor, int format, int type, int count,
                                               const int* extents) {
  if (count < 1 || count > kMostExtents || extents == nullptr) return kBadParam;
  return describe_packed(tensor, type, format, {extents, static_cast<std::size_t>(count)});
}
SIMGPU_EXPORT int cudnnSetTensor4dDescriptor(Tensor* tensor, int format, int type, int n, int c,
                                             int h, int w) {
  return describe_packed(tensor, type, format, std::array{n, c, h, w});
}
SIMGPU_EXPORT int cudnnSetTensor4dDescriptorEx(Tensor* tensor, int type, int n, int c, int h, int w,
                                               int n_stride, int c_stride, int h_stride,
                                               int w_stride) {
  return describe(tensor, type, 0, std::array{n, c, h, w},
                  std::array{n_stride, c_stride, h_stride, w_stride});
}
SIMGPU_EXPORT int cudnnGetTensorNdDescriptor(const Tensor* tensor, int room, int* type, int* count,
                                             int* extents, int* strides) {
  if (tensor == nullptr) return kBadParam;
  tell(tensor->type, type);
  tell(static_cast<int>(tensor->extents.size()), count);
  tell(tensor->extents, room, extents);
  tell(tensor->strides, room, strides);
  return kSuccess;
}

SIMGPU_EXPORT int cudnnCreateFilterDescriptor(Tensor** filter) { return create(filter); }
SIMGPU_EXPORT int cudnnDestroyFilterDescriptor(Tensor* filter) { return destroy(filter); }
SIMGPU_EXPORT int cudnnSetFilterNdDescriptor(Tensor* filter, int type, int format, int count,
                                             const int* extents) {
  return cudnnSetTensorNdDescriptorEx(filter, format, type, count, extents);
}
SIMGPU_EXPORT int cudnnSetFilter4dDescriptor(Tensor* filter, int type, int format, int k, int c,
                                             int h, int w) {
  return describe_packed(filter, type, format, std::array{k, c, h, w});
}
SIMGPU_EXPORT int cudnnGetFilterNdDescriptor(const Tensor* filter, int room, int* type, int* format,
                                             int* count, int* extents) {
  if (filter == nullptr) return kBadParam;
  tell(filter->type, type);
  tell(filter->format, format);
  tell(static_cast<int>(filter->extents.size()), count);
  tell(filter->extents, room, extents);
  return kSuccess;
}

SIMGPU_EXPORT int cudnnCreateActivationDescriptor(Opaque** activation) {
  return create(activation);
}
SIMGPU_EXPORT int cudnnDestroyActivationDescriptor(Opaque* activation) {
  return destroy(activation);
}
SIMGPU_EXPORT int cudnnSetActivationDescriptor(Opaque* activation, int /*mode*/, int /*nan*/,
                                               double /*coefficient*/) {
  return activation == nullptr ? kBadParam : kSuccess;
}

SIMGPU_EXPORT int cudnnCreateDropoutDescriptor(Opaque** dropout) { return create(dropout); }
SIMGPU_EXPORT int cudnnDestroyDropoutDescriptor(Opaque* dropout) { return destroy(dropout); }
SIMGPU_EXPORT int cudnnDropoutGetStatesSize(const Handle* handle, std::size_t* bytes) {
  return tell_size(handle, kDropoutStates, bytes);
}
/// Writes the states, if there are any.
SIMGPU_EXPORT int cudnnSetDropoutDescriptor(Opaque* dropout, const Handle* handle, float /*share*/,
                                            void* states, std::size_t bytes,
                                            unsigned long long /*seed*/) {
  if (dropout == nullptr || (states != nullptr && bytes < kDropoutStates)) return kBadParam;
  return guarded([&] {
    return execute_all(handle, {}, {{states, kDropoutStates}}, {kDropoutStates, 1, 1, 1, 1});
  });
}
SIMGPU_EXPORT int cudnnRestoreDropoutDescriptor(Opaque* dropout, const Handle* handle,
                                                float /*share*/, void* /*states*/,
                                                std::size_t /*bytes*/,
                                                unsigned long long /*seed*/) {
  return dropout == nullptr || handle == nullptr ? kBadParam : kSuccess;
}

SIMGPU_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    const Handle* handle, int /*mode*/, int /*operations*/, const Tensor* /*x*/,
    const Tensor* /*z*/, const Tensor* /*y*/, const Tensor* /*scale*/, const Opaque* /*activation*/,
    std::size_t* bytes) {
  return tell_size(handle, 0, bytes);
}
SIMGPU_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    const Handle* handle, int /*mode*/, int /*operations*/, const Tensor* /*x*/,
    const Tensor* /*y*/, const Tensor* /*dy*/, const Tensor* /*dz*/, const Tensor* /*dx*/,
    const Tensor* /*dscale*/, const Opaque* /*activation*/, std::size_t* bytes) {
  return tell_size(handle, 0, bytes);
}
SIMGPU_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    const Handle* handle, int /*mode*/, int /*operations*/, const Opaque* /*activation*/,
    const Tensor* /*x*/, std::size_t* bytes) {
  return tell_size(handle, 0, bytes);
}

SIMGPU_EXPORT int cudnnBatchNormalizationForwardTrainingEx(
    const Handle* handle, int /*mode*/, int /*operations*/, const void* /*alpha*/, const void* beta,
    const Tensor* x_tensor, const void* x, const Tensor* z_tensor, const void* z,
    const Tensor* y_tensor, void* y, const Tensor* scale_tensor, const void* scale,
    const void* bias, double /*average_factor*/, void* running_mean, void* running_variance,
    double /*epsilon*/, void* saved_mean, void* saved_inverse_variance,
    const Opaque* /*activation*/, void* /*workspace*/, std::size_t /*workspace_bytes*/,
    void* /*reserve*/, std::size_t /*reserve_bytes*/) {
  return guarded([&] {
    const auto weights = [scale_tensor](const void* address) {
      return operand_of(address, scale_tensor);
    };
    return execute_all(
        handle,
        {operand_of(x, x_tensor), operand_of(z, z_tensor), weights(scale), weights(bias),
         weights(running_mean), weights(running_variance),
         added_to(beta, y_tensor, operand_of(y, y_tensor))},
        {operand_of(y, y_tensor), weights(saved_mean), weights(saved_inverse_variance),
         weights(running_mean), weights(running_variance)},
        numbers_of(x_tensor));
  });
}
SIMGPU_EXPORT int cudnnBatchNormalizationForwardInference(
    const Handle* handle, int /*mode*/, const void* /*alpha*/, const void* beta,
    const Tensor* x_tensor, const void* x, const Tensor* y_tensor, void* y,
    const Tensor* scale_tensor, const void* scale, const void* bias, const void* mean,
    const void* variance, double /*epsilon*/) {
  return guarded([&] {
    const auto weights = [scale_tensor](const void* address) {
      return operand_of(address, scale_tensor);
    };
    return execute_all(handle,
                       {operand_of(x, x_tensor), weights(scale), weights(bias), weights(mean),
                        weights(variance), added_to(beta, y_tensor, operand_of(y, y_tensor))},
                       {operand_of(y, y_tensor)}, numbers_of(x_tensor));
  });
}
SIMGPU_EXPORT int cudnnBatchNormalizationBackwardEx(
    const Handle* handle, int /*mode*/, int /*operations*/, const void* /*data_alpha*/,
    const void* data_beta, const void* /*weight_alpha*/, const void* weight_beta,
    const Tensor* x_tensor, const void* x, const Tensor* y_tensor, const void* y,
    const Tensor* dy_tensor, const void* dy, const Tensor* dz_tensor, void* dz,
    const Tensor* dx_tensor, void* dx, const Tensor* dscale_tensor, const void* scale,
    const void* bias, void* dscale, void* dbias, double /*epsilon*/, const void* saved_mean,
    const void* saved_inverse_variance, const Opaque* /*activation*/, void* /*workspace*/,
    std::size_t /*workspace_bytes*/, void* /*reserve*/, std::size_t /*reserve_bytes*/) {
  return guarded([&] {
    const auto weights = [dscale_tensor](const void* address) {
      return operand_of(address, dscale_tensor);
    };
    return execute_all(
        handle,
        {operand_of(x, x_tensor), operand_of(y, y_tensor), operand_of(dy, dy_tensor),
         weights(scale), weights(bias), weights(saved_mean), weights(saved_inverse_variance),
         added_to(data_beta, dx_tensor, operand_of(dx, dx_tensor)),
         added_to(weight_beta, dx_tensor, weights(dscale)),
         added_to(weight_beta, dx_tensor, weights(dbias))},
        {operand_of(dx, dx_tensor), operand_of(dz, dz_tensor), weights(dscale), weights(dbias)},
        numbers_of(x_tensor));
  });
}

SIMGPU_EXPORT int cudnnCreateRNNDescriptor(Network** network) { return create(network); }
SIMGPU_EXPORT int cudnnDestroyRNNDescriptor(Network* network) { return destroy(network); }
SIMGPU_EXPORT int cudnnSetRNNDescriptor_v8(Network* network, int algorithm, int cell, int bias,
                                           int direction, int input_mode, int type, int precision,
                                           int math, std::int32_t input, std::int32_t hidden,
                                           std::int32_t projected, std::int32_t layers,
                                           const Opaque* dropout, std::uint32_t flags) {
  if (network == nullptr || input < 1 || hidden < 1 || layers < 1) return kBadParam;
  if (projected < 0 || projected > hidden) return kBadParam;
  *network = {cell,
              bias,
              direction != 0,
              type,
              input,
              hidden,
              projected == 0 ? hidden : projected,
              layers,
              algorithm,
              input_mode,
              precision,
              math,
              dropout,
              flags};
  return kSuccess;
}
/// Each place may be null.
SIMGPU_EXPORT int cudnnGetRNNDescriptor_v8(const Network* network, int* algorithm, int* cell,
                                           int* bias, int* direction, int* input_mode, int* type,
                                           int* precision, int* math, std::int32_t* input,
                                           std::int32_t* hidden, std::int32_t* projected,
                                           std::int32_t* layers, const void** dropout,
                                           std::uint32_t* flags) {
  if (network == nullptr) return kBadParam;
  tell(network->algorithm, algorithm);
  tell(network->cell, cell);
  tell(network->bias, bias);
  tell(network->is_bidirectional ? 1 : 0, direction);
  tell(network->input_mode, input_mode);
  tell(network->type, type);
  tell(network->precision, precision);
  tell(network->math, math);
  tell(network->input, input);
  tell(network->hidden, hidden);
  tell(network->projected, projected);
  tell(network->layers, layers);
  tell(network->dropout, dropout);
  tell(network->flags, flags);
  return kSuccess;
}

SIMGPU_EXPORT int cudnnCreateRNNDataDescriptor(Sequences** sequences) { return create(sequences); }
SIMGPU_EXPORT int cudnnDestroyRNNDataDescriptor(Sequences* sequences) { return destroy(sequences); }
SIMGPU_EXPORT int cudnnSetRNNDataDescriptor(Sequences* sequences, int type, int layout, int longest,
                                            int batch, int vector, const int* lengths,
                                            void* /*padding*/) {
  if (sequences == nullptr || longest < 1 || batch < 1 || vector < 1) return kBadParam;
  auto vectors = static_cast<std::uint64_t>(longest) * static_cast<std::uint64_t>(batch);
  if (layout == kPackedSequences) {
    if (lengths == nullptr) return kBadParam;
    vectors = 0;
    for (const int length : std::span(lengths, static_cast<std::size_t>(batch))) {
      vectors += static_cast<std::uint64_t>(std::clamp(length, 0, longest));
    }
  }
  *sequences = {type, longest, batch, vector, vectors};
  return kSuccess;
}

SIMGPU_EXPORT int cudnnGetRNNWeightSpaceSize(const Handle* handle, const Network* network,
                                             std::size_t* bytes) {
  if (network == nullptr) return kBadParam;
  return tell_size(handle, weight_bytes(*network), bytes);
}
/// A pass for training leaves something for the backward passes. `mode`: 1 for training.
SIMGPU_EXPORT int cudnnGetRNNTempSpaceSizes(const Handle* handle, const Network* network, int mode,
                                            const Sequences* /*x*/, std::size_t* work,
                                            std::size_t* reserve) {
  if (handle == nullptr || network == nullptr) return kBadParam;
  tell(std::size_t{0}, work);
  tell(mode == 1 ? kReserve : std::size_t{0}, reserve);
  return kSuccess;
}
SIMGPU_EXPORT int cudnnGetRNNWeightParams(const Handle* handle, const Network* network,
                                          std::int32_t pseudo_layer, std::size_t weight_size,
                                          const void* weights, std::int32_t part,
                                          Tensor* matrix_tensor, void** matrix, Tensor* bias_tensor,
                                          void** bias) {
  if (handle == nullptr || network == nullptr || weight_size < weight_bytes(*network)) {
    return kBadParam;
  }
  const auto tell_part = [&](const WeightPart& found, Tensor* tensor, void** address) {
    const auto* const begin = static_cast<const char*>(weights);
    if (address != nullptr) {
      *address = found.rows == 0 ? nullptr : const_cast<char*>(begin + found.offset);
    }
    if (tensor == nullptr) return static_cast<int>(kSuccess);
    if (found.rows == 0) return describe(tensor, network->type, 0, {}, {});
    return describe_packed(tensor, network->type, 0, std::array{1, found.rows, found.columns});
  };
  const int status = tell_part(matrix_of(*network, pseudo_layer, part), matrix_tensor, matrix);
  if (status != kSuccess) return status;
  return tell_part(bias_of(*network, pseudo_layer, part), bias_tensor, bias);
}

SIMGPU_EXPORT int cudnnRNNForward(const Handle* handle, const Network* network, int /*mode*/,
                                  const std::int32_t* lengths, const Sequences* x_sequences,
                                  const void* x, const Sequences* y_sequences, void* y,
                                  const Tensor* h_tensor, const void* hx, void* hy,
                                  const Tensor* c_tensor, const void* cx, void* cy,
                                  std::size_t weight_size, const void* weights,
                                  std::size_t /*work_size*/, void* /*work*/,
                                  std::size_t reserve_size, void* reserve) {
  if (network == nullptr || x_sequences == nullptr) return kBadParam;
  return guarded([&] {
    return execute_all(handle,
                       {operand_of(x, x_sequences),
                        operand_of(hx, h_tensor),
                        operand_of(cx, c_tensor),
                        {weights, weight_size},
                        lengths_of(lengths, *x_sequences)},
                       {operand_of(y, y_sequences),
                        operand_of(hy, h_tensor),
                        operand_of(cy, c_tensor),
                        {reserve, reserve_size}},
                       work_of(*network, *x_sequences));
  });
}
SIMGPU_EXPORT int cudnnRNNBackwardData_v8(const Handle* handle, const Network* network,
                                          const std::int32_t* lengths, const Sequences* y_sequences,
                                          const void* y, const void* dy,
                                          const Sequences* x_sequences, void* dx,
                                          const Tensor* h_tensor, const void* hx, const void* dhy,
                                          void* dhx, const Tensor* c_tensor, const void* cx,
                                          const void* dcy, void* dcx, std::size_t weight_size,
                                          const void* weights, std::size_t /*work_size*/,
                                          void* /*work*/, std::size_t reserve_size, void* reserve) {
  if (network == nullptr || y_sequences == nullptr) return kBadParam;
  return guarded([&] {
    return execute_all(handle,
                       {operand_of(y, y_sequences),
                        operand_of(dy, y_sequences),
                        operand_of(hx, h_tensor),
                        operand_of(dhy, h_tensor),
                        operand_of(cx, c_tensor),
                        operand_of(dcy, c_tensor),
                        {weights, weight_size},
                        lengths_of(lengths, *y_sequences),
                        {reserve, reserve_size}},
                       {operand_of(dx, x_sequences),
                        operand_of(dhx, h_tensor),
                        operand_of(dcx, c_tensor),
                        {reserve, reserve_size}},
                       work_of(*network, *y_sequences));
  });
}
/// The gradients are added to what is there.
SIMGPU_EXPORT int cudnnRNNBackwardWeights_v8(
    const Handle* handle, const Network* network, int /*add*/, const std::int32_t* lengths,
    const Sequences* x_sequences, const void* x, const Tensor* h_tensor, const void* hx,
    const Sequences* y_sequences, const void* y, std::size_t weight_size, void* dweights,
    std::size_t /*work_size*/, void* /*work*/, std::size_t reserve_size, void* reserve) {
  if (network == nullptr || x_sequences == nullptr) return kBadParam;
  return guarded([&] {
    return execute_all(handle,
                       {operand_of(x, x_sequences),
                        operand_of(hx, h_tensor),
                        operand_of(y, y_sequences),
                        lengths_of(lengths, *x_sequences),
                        {reserve, reserve_size},
                        {dweights, weight_size}},
                       {{dweights, weight_size}}, work_of(*network, *x_sequences));
  });
}

}  // namespace simgpu::cudnn
