#include "tools/simgpu/cudnn/legacy.h"

#include "tools/simgpu/cudnn/data_type.h"

namespace simgpu::cudnn {
namespace {

// Source: cuDNN, cudnnRNNMode_t, cudnnRNNBiasMode_t.
enum Cell : int { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };
enum Bias : int { kNoBias = 0, kSingleInputBias = 1, kDoubleBias = 2, kSingleRecurrentBias = 3 };

int gates_of(const Network& network) {
  switch (network.cell) {
    case kLstm:
      return 4;
    case kGru:
      return 3;
    default:
      return 1;
  }
}

int directions_of(const Network& network) { return network.is_bidirectional ? 2 : 1; }
int pseudo_layers_of(const Network& network) { return network.layers * directions_of(network); }
bool is_projected(const Network& network) { return network.projected != network.hidden; }
int parts_of(const Network& network) {
  return 2 * gates_of(network) + (is_projected(network) ? 1 : 0);
}

// The first half of the matrices are for the layer's input, the second half for its last output. A
// projection comes behind them.
WeightPart shape_of(const Network& network, int pseudo_layer, int part) {
  const int gates = gates_of(network);
  const bool is_first = pseudo_layer < directions_of(network);
  if (part < gates) {
    const int input = is_first ? network.input : network.projected * directions_of(network);
    return {0, network.hidden, input};
  }
  if (part < 2 * gates) return {0, network.hidden, network.projected};
  return {0, network.projected, network.hidden};
}

bool has_bias(const Network& network, int part) {
  const int gates = gates_of(network);
  if (part >= 2 * gates) return false;
  switch (network.bias) {
    case kDoubleBias:
      return true;
    case kSingleInputBias:
      return part < gates;
    case kSingleRecurrentBias:
      return part >= gates;
    default:
      return false;
  }
}

bool is_there(const Network& network, int pseudo_layer, int part) {
  return pseudo_layer >= 0 && pseudo_layer < pseudo_layers_of(network) && part >= 0 &&
         part < parts_of(network);
}

/// Elements of all matrices before that part.
std::size_t elements_before(const Network& network, int pseudo_layer, int part) {
  std::size_t elements = 0;
  for (int layer = 0; layer <= pseudo_layer; ++layer) {
    const int end = layer < pseudo_layer ? parts_of(network) : part;
    for (int i = 0; i < end; ++i) {
      const WeightPart shape = shape_of(network, layer, i);
      elements += static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.columns);
    }
  }
  return elements;
}

std::size_t biases_before(const Network& network, int pseudo_layer, int part) {
  std::size_t biases = 0;
  for (int layer = 0; layer <= pseudo_layer; ++layer) {
    const int end = layer < pseudo_layer ? parts_of(network) : part;
    for (int i = 0; i < end; ++i) biases += has_bias(network, i) ? 1U : 0U;
  }
  return biases;
}

}  // namespace

std::size_t weight_bytes(const Network& network) {
  const int end = pseudo_layers_of(network);
  if (end == 0) return 0;
  const std::size_t matrices = elements_before(network, end - 1, parts_of(network));
  const std::size_t biases = biases_before(network, end - 1, parts_of(network));
  return (matrices + biases * static_cast<std::size_t>(network.hidden)) * bytes_of(network.type);
}

WeightPart matrix_of(const Network& network, int pseudo_layer, int part) {
  if (!is_there(network, pseudo_layer, part)) return {};
  WeightPart found = shape_of(network, pseudo_layer, part);
  found.offset = elements_before(network, pseudo_layer, part) * bytes_of(network.type);
  return found;
}

WeightPart bias_of(const Network& network, int pseudo_layer, int part) {
  if (!is_there(network, pseudo_layer, part) || !has_bias(network, part)) return {};
  const std::size_t matrices =
      elements_before(network, pseudo_layers_of(network) - 1, parts_of(network));
  const std::size_t before = biases_before(network, pseudo_layer, part);
  return {(matrices + before * static_cast<std::size_t>(network.hidden)) * bytes_of(network.type),
          network.hidden, 1};
}

}  // namespace simgpu::cudnn
