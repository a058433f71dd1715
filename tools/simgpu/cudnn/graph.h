// What a graph of cuDNN's operations reads and writes, and how much it computes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/simgpu/cudnn/descriptor.h"
#include "tools/simgpu/product_kernel.h"

namespace simgpu::cudnn {

/// cudnnBackendDescriptorType_t, as far as the kind of a descriptor matters. Source: cuDNN, graph
/// API.
enum Kind : int {
  kEngine = 2,
  kEngineConfig = 3,
  kPlan = 5,
  kGraph = 15,
  kTensor = 17,
};

/// cudnnBackendAttributeName_t, as far as the value is looked at. Source: cuDNN, graph API.
enum Name : int {
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kConfigIntermediates = 301,
  kConfigKnobs = 302,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanText = 405,
  kForwardBeta = 701,
  kForwardFilter = 703,
  kForwardOutput = 705,
  kDataBeta = 707,
  kDataFilter = 709,
  kDataGradient = 710,
  kDataOutput = 711,
  kFilterBeta = 713,
  kFilterFilter = 715,
  kFilterOutput = 717,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseXFactor = 754,
  kPointwiseBFactor = 755,
  kGraphOperations = 801,
  kGraphEngines = 802,
  kTensorType = 901,
  kTensorExtents = 902,
  kTensorStrides = 903,
  kTensorVector = 904,
  kTensorNumber = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kTensorReordering = 909,
  kTensorConstant = 910,
  kTensorOffsets = 913,
  kPackNumbers = 1000,
  kPackPointers = 1001,
  kEngineGraph = 1300,
  kEngineNumber = 1301,
  kEngineKnobs = 1302,
  kEngineNumerics = 1303,
  kEngineLayouts = 1304,
  kEngineBehavior = 1305,
  kMatmulA = 1520,
  kMatmulC = 1522,
};

/// The tensors of a graph by their numbers, without those that are within it (virtual) and those
/// whose value the program gives on the host. For each its bytes, from the first number to the
/// last; 0: not known. What an operation scales by zero it does not read.
struct Operands {
  std::map<std::int64_t, std::uint64_t> read;
  std::map<std::int64_t, std::uint64_t> written;  ///< in `read` as well if they are added to
  /// The largest product among the operations; where there is none, one number for each of the
  /// largest result.
  Product work{};
};

/// The operands of `graph`, which has kGraphOperations.
[[nodiscard]] Operands operands_of(const Descriptor& graph);

/// The graph that a heuristic, an engine, its configuration or a plan is of; null if there is none.
[[nodiscard]] DescriptorRef graph_of(const Descriptor& descriptor);

}  // namespace simgpu::cudnn
