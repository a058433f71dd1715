#include "tools/simgpu/cudnn/graph.h"

#include <algorithm>
#include <array>

#include "tools/simgpu/cudnn/data_type.h"

namespace simgpu::cudnn {
namespace {

// The attributes of operations that name what they write. Source: cuDNN, graph API,
// CUDNN_ATTR_OPERATION_*.
constexpr std::array kWritten = {
    705,  710,  715,                    // convolutions: Y, DX, DW
    753,  756,                          // pointwise: Y, DX
    773,  774,                          // sums of batches
    788,  789,  790,  791,  792,  793,  // batches' statistics
    1522,                               // matmul: C
    1611,                               // reduction: Y
    1626, 1627, 1628, 1629, 1630,       // weights of batch normalization, backward
    1711, 1712, 1720,                   // resampling
    1803,                               // concatenation
    1904,                               // signal
    1951,                               // load from a paged cache
    2003, 2004, 2011, 2012, 2013,       // normalization, forward
    2107, 2108, 2109,                   // normalization, backward
    2201,                               // reshape
    2251, 2271,                         // band matrices
    2310,                               // random numbers
    2501, 2502, 2602,                   // quantization by blocks
    2803, 2804, 2817, 2828, 2829,       // attention, forward
    2859, 2860, 2861, 2864, 2875,       // attention, backward
    2905, 2953,                         // grouped matmul
    3006,                               // mask
    3101, 3102, 3103, 3104,             // softmax
    3201, 3301, 3401, 3411,             // transpose, slice, rotary embedding
};

/// A normalization takes the mean and the variance (2003, 2004) for inference, and gives them for
/// training, which its phase (2001) says.
bool is_written(const Descriptor& operation, int name) {
  constexpr int kPhase = 2001;
  if ((name == 2003 || name == 2004) && operation.value<std::int32_t>(kPhase, 1) == 0) return false;
  return std::ranges::find(kWritten, name) != kWritten.end();
}

/// A factor that is a float or a double; `otherwise` if it is not set.
double factor_of(const Descriptor& operation, int name, float otherwise) {
  return operation.value<double>(name, operation.value<float>(name, otherwise));
}

/// A factor of what an operation has at `tensor`.
struct Factor {
  int tensor;
  int name;
};

/// Whether the operation takes its operand `name` times zero.
bool is_scaled_by_zero(const Descriptor& operation, int name) {
  constexpr std::array kFactors{Factor{kPointwiseX, kPointwiseXFactor},
                                Factor{kPointwiseB, kPointwiseBFactor}};
  return std::ranges::any_of(kFactors, [&](const Factor& factor) {
    return factor.tensor == name && factor_of(operation, factor.name, 1) == 0;
  });
}

/// Whether the operation adds to what its result `name` is.
bool is_added_to(const Descriptor& operation, int name) {
  constexpr std::array kBetas{Factor{kForwardOutput, kForwardBeta},
                              Factor{kDataGradient, kDataBeta}, Factor{kFilterFilter, kFilterBeta}};
  return std::ranges::any_of(kBetas, [&](const Factor& beta) {
    return beta.tensor == name && factor_of(operation, beta.name, 0) != 0;
  });
}

std::uint64_t product_of(const std::vector<std::int64_t>& extents, std::size_t first,
                         std::size_t end) {
  std::uint64_t all = 1;
  for (std::size_t i = first; i < std::min(end, extents.size()); ++i) {
    all *= static_cast<std::uint64_t>(std::max<std::int64_t>(extents[i], 0));
  }
  return all;
}

std::uint64_t steps_of(const Product& product) {
  return product.m * product.n * product.k * product.batches;
}

std::vector<std::int64_t> extents_of(const Descriptor& operation, int name) {
  const DescriptorRef tensor = operation.descriptor(name);
  return tensor == nullptr ? std::vector<std::int64_t>()
                           : tensor->values<std::int64_t>(kTensorExtents);
}

std::uint64_t bytes_of_element(const Descriptor& operation, int name) {
  const DescriptorRef tensor = operation.descriptor(name);
  return tensor == nullptr ? 4 : bytes_of(tensor->value<std::int32_t>(kTensorType, 0));
}

/// Each number of the output, N x K x P x Q, is a sum over a filter's C x R x S numbers.
Product convolution(const Descriptor& operation, int filter_name, int output_name) {
  const std::vector<std::int64_t> filter = extents_of(operation, filter_name);
  const std::vector<std::int64_t> output = extents_of(operation, output_name);
  Product product;
  if (filter.empty() || output.size() < 2) return product;
  product.n = product_of(output, 1, 2);
  product.m = product_of(output, 0, 1) * product_of(output, 2, output.size());
  product.k = product_of(filter, 1, filter.size());
  product.element_bytes = bytes_of_element(operation, filter_name);
  return product;
}

/// C is ... x M x N, and A is ... x M x K.
Product matmul(const Descriptor& operation) {
  const std::vector<std::int64_t> a = extents_of(operation, kMatmulA);
  const std::vector<std::int64_t> c = extents_of(operation, kMatmulC);
  Product product;
  if (a.empty() || c.size() < 2) return product;
  product.batches = product_of(c, 0, c.size() - 2);
  product.m = product_of(c, c.size() - 2, c.size() - 1);
  product.n = product_of(c, c.size() - 1, c.size());
  product.k = product_of(a, a.size() - 1, a.size());
  product.element_bytes = bytes_of_element(operation, kMatmulA);
  return product;
}

/// The bytes of a tensor. Not known where its numbers lie in vectors or in an order of the
/// library's own, or where offsets on the device say how long its rows are.
std::uint64_t bytes_of_tensor(const Descriptor& tensor) {
  const bool is_plain = tensor.value<std::int64_t>(kTensorVector, 1) == 1 &&
                        tensor.value<std::int32_t>(kTensorReordering, 0) == 0 &&
                        tensor.descriptor(kTensorOffsets) == nullptr;
  if (!is_plain) return 0;
  return strided_bytes<std::int64_t>(tensor.values<std::int64_t>(kTensorExtents),
                                     tensor.values<std::int64_t>(kTensorStrides),
                                     tensor.value<std::int32_t>(kTensorType, 0));
}

class Reader {
 public:
  void add_graph(const Descriptor& graph) {
    const Attribute* const operations = graph.find(kGraphOperations);
    if (operations == nullptr) return;
    for (const DescriptorRef& operation : operations->descriptors) add(*operation);
  }

  [[nodiscard]] Operands take() {
    if (steps_of(found_.work) <= 1) found_.work.m = std::max<std::uint64_t>(largest_, 1);
    return found_;
  }

 private:
  void add(const Descriptor& operation) {
    for (const auto& [name, attribute] : operation.attributes()) {
      for (const DescriptorRef& named : attribute.descriptors) {
        // An operation may have a graph of its own, as attention has.
        if (named->kind() == kGraph) add_graph(*named);
        if (named->kind() != kTensor || is_scaled_by_zero(operation, name)) continue;
        add_tensor(*named, is_written(operation, name));
        if (is_added_to(operation, name)) add_tensor(*named, false);
      }
    }
    for (const Product& product :
         {convolution(operation, kForwardFilter, kForwardOutput),
          convolution(operation, kDataFilter, kDataOutput),
          convolution(operation, kFilterFilter, kFilterOutput), matmul(operation)}) {
      if (steps_of(product) > steps_of(found_.work)) found_.work = product;
    }
  }

  void add_tensor(const Descriptor& tensor, bool written) {
    if (const DescriptorRef offsets = tensor.descriptor(kTensorOffsets))
      add_tensor(*offsets, false);
    if (tensor.value<char>(kTensorIsVirtual, 0) != 0) return;
    if (tensor.value<char>(kTensorIsByValue, 0) != 0) return;
    if (tensor.find(kTensorConstant) != nullptr) return;
    const auto number = tensor.value<std::int64_t>(kTensorNumber, 0);
    (written ? found_.written : found_.read)[number] = bytes_of_tensor(tensor);
    const std::vector<std::int64_t> extents = tensor.values<std::int64_t>(kTensorExtents);
    if (written) largest_ = std::max(largest_, product_of(extents, 0, extents.size()));
  }

  Operands found_;
  std::uint64_t largest_ = 0;
};

}  // namespace

Operands operands_of(const Descriptor& graph) {
  Reader reader;
  reader.add_graph(graph);
  return reader.take();
}

DescriptorRef graph_of(const Descriptor& descriptor) {
  for (const int name : {kHeuristicGraph, kEngineGraph}) {
    if (DescriptorRef graph = descriptor.descriptor(name)) return graph;
  }
  for (const int name : {kConfigEngine, kPlanConfig}) {
    if (const DescriptorRef inner = descriptor.descriptor(name)) return graph_of(*inner);
  }
  return nullptr;
}

}  // namespace simgpu::cudnn
