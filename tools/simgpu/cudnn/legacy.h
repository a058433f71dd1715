// The descriptors of cuDNN's calls before its graph API, as far as anything is kept of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simgpu::cudnn {

/// A tensor, or a filter: extents, the outermost first, and strides in elements.
struct Tensor {
  int type = 0;    ///< cudnnDataType_t
  int format = 0;  ///< cudnnTensorFormat_t, of filters
  std::vector<int> extents;
  std::vector<int> strides;
};

/// A recurrent network. Fields as cudnnSetRNNDescriptor_v8() has them.
struct Network {
  int cell = 0;  ///< cudnnRNNMode_t
  int bias = 0;  ///< cudnnRNNBiasMode_t
  bool is_bidirectional = false;
  int type = 0;  ///< cudnnDataType_t
  int input = 0;
  int hidden = 0;
  int projected = 0;  ///< as hidden where there is no projection
  int layers = 0;

  /// @name Only told to a program that asks
  /// @{
  int algorithm = 0;
  int input_mode = 0;
  int precision = 0;
  int math = 0;
  const void* dropout = nullptr;
  std::uint32_t flags = 0;
  /// @}
};

/// Sequences.
struct Sequences {
  int type = 0;
  int longest = 0;
  int batch = 0;
  int vector = 0;
  std::uint64_t vectors = 0;  ///< of all sequences, with the padding that lies between them
};

/// Where a matrix or a bias of a network lies within its weights, and its extents. No rows: the
/// network has no such part.
struct WeightPart {
  std::size_t offset = 0;  ///< in bytes
  int rows = 0;
  int columns = 0;
};

/// Bytes of all weights: for each layer and direction the matrices, and behind all the biases.
[[nodiscard]] std::size_t weight_bytes(const Network& network);
/// The matrix, or the bias, `part` of a pseudo layer, which is cuDNN's number of a layer and a
/// direction.
[[nodiscard]] WeightPart matrix_of(const Network& network, int pseudo_layer, int part);
[[nodiscard]] WeightPart bias_of(const Network& network, int pseudo_layer, int part);

}  // namespace simgpu::cudnn
