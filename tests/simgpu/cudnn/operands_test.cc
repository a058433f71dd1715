// What simgpu's cuDNN takes from a graph: what it reads and writes, and how much it computes.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tools/simgpu/cudnn/descriptor.h"
#include "tools/simgpu/cudnn/graph.h"

namespace simgpu::cudnn {
namespace {

// Of descriptors.
constexpr int kConvolutionForward = 10;
constexpr int kConvolutionFilter = 11;
constexpr int kConvolutionData = 12;
constexpr int kPointwiseOperation = 13;
constexpr int kMatmulOperation = 19;
constexpr int kConcatenation = 24;
constexpr int kNormalization = 27;
constexpr int kAttention = 47;

using Set = std::set<std::int64_t>;
using BytesByNumber = std::map<std::int64_t, std::uint64_t>;
using Extents = std::vector<std::int64_t>;
using Named = std::vector<std::pair<int, DescriptorRef>>;

template <typename Value>
Attribute attribute(int type, const std::vector<Value>& values) {
  Attribute made{type, static_cast<std::int64_t>(values.size()), {}, {}};
  made.bytes.resize(values.size() * sizeof(Value));
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

DescriptorRef tensor(std::int64_t number, const Extents& extents = {1, 1, 8, 8},
                     std::int32_t type = 0) {
  auto made = std::make_shared<Descriptor>(kTensor);
  made->set_number(kTensorNumber, number);
  made->set(kTensorType, attribute<std::int32_t>(1, {type}));
  made->set(kTensorExtents, attribute(kInt64, extents));
  return made;
}

DescriptorRef flagged(int flag, const DescriptorRef& descriptor) {
  descriptor->set(flag, attribute<char>(kBoolean, {1}));
  return descriptor;
}

DescriptorRef operation(int kind, const Named& tensors) {
  auto made = std::make_shared<Descriptor>(kind);
  for (const auto& [name, named] : tensors) made->set_descriptor(name, named);
  return made;
}

DescriptorRef graph(const std::vector<DescriptorRef>& operations) {
  auto made = std::make_shared<Descriptor>(kGraph);
  made->set(kGraphOperations,
            Attribute{kDescriptor, static_cast<std::int64_t>(operations.size()), {}, operations});
  return made;
}

Operands operands(const std::vector<DescriptorRef>& operations) {
  return operands_of(*graph(operations));
}

Set numbers(const BytesByNumber& operands) {
  Set list;
  for (const auto& [number, bytes] : operands) list.insert(number);
  return list;
}

void expect_work(const Operands& found, const Product& expected) {
  EXPECT_EQ(words_of(found.work), words_of(expected));
}

TEST(OperandsOf, ForwardConvolutionReadsDataAndFilterAndWritesY) {
  const Operands found =
      operands({operation(kConvolutionForward, {{kForwardFilter, tensor(1, {16, 3, 5, 7}, 2)},
                                                {704, tensor(2, {2, 3, 30, 40}, 2)},
                                                {kForwardOutput, tensor(3, {2, 16, 26, 34}, 2)}})});
  EXPECT_EQ(numbers(found.read), (Set{1, 2}));
  EXPECT_EQ(numbers(found.written), (Set{3}));
  expect_work(found, {2 * 26 * 34, 16, 3 * 5 * 7, 1, 2, false});
}

TEST(OperandsOf, BackwardConvolutionsWriteTheirGradients) {
  const DescriptorRef filter = tensor(1, {16, 3, 5, 7});
  const DescriptorRef output = tensor(3, {2, 16, 26, 34});
  const Operands of_data = operands({operation(
      kConvolutionData,
      {{kDataFilter, filter}, {710, tensor(2, {2, 3, 30, 40})}, {kDataOutput, output}})});
  EXPECT_EQ(numbers(of_data.read), (Set{1, 3}));
  EXPECT_EQ(numbers(of_data.written), (Set{2}));
  expect_work(of_data, {2 * 26 * 34, 16, 3 * 5 * 7, 1, 4, false});
  const Operands of_filter = operands({operation(
      kConvolutionFilter,
      {{kFilterFilter, filter}, {716, tensor(2, {2, 3, 30, 40})}, {kFilterOutput, output}})});
  EXPECT_EQ(numbers(of_filter.read), (Set{2, 3}));
  EXPECT_EQ(numbers(of_filter.written), (Set{1}));
  expect_work(of_filter, {2 * 26 * 34, 16, 3 * 5 * 7, 1, 4, false});
}

/// A convolution, whose tensors are 1 to 3 by the order of their names, with a factor of its
/// result.
template <typename Factor>
Operands convolution_with(int kind, const std::array<int, 3>& names, int beta, Factor value) {
  const DescriptorRef made =
      operation(kind, {{names[0], tensor(1)}, {names[1], tensor(2)}, {names[2], tensor(3)}});
  made->set(beta, attribute<Factor>(sizeof(Factor) == 8 ? int{kDoubleType} : 4, {value}));
  return operands({made});
}

TEST(OperandsOf, ConvolutionReadsAResultThatItAddsTo) {
  constexpr std::array kForward{int{kForwardFilter}, 704, int{kForwardOutput}};
  constexpr std::array kData{int{kDataFilter}, int{kDataGradient}, int{kDataOutput}};
  constexpr std::array kFilter{int{kFilterFilter}, 716, int{kFilterOutput}};
  const auto forward = [&](auto beta) {
    return numbers(convolution_with(kConvolutionForward, kForward, kForwardBeta, beta).read);
  };
  EXPECT_EQ(forward(0.0F), (Set{1, 2}));
  EXPECT_EQ(forward(0.0), (Set{1, 2}));
  EXPECT_EQ(forward(0.5F), (Set{1, 2, 3}));
  EXPECT_EQ(forward(0.5), (Set{1, 2, 3}));
  const Operands data = convolution_with(kConvolutionData, kData, kDataBeta, 1.0F);
  EXPECT_EQ(numbers(data.read), (Set{1, 2, 3}));
  EXPECT_EQ(numbers(data.written), (Set{2}));
  const Operands filter = convolution_with(kConvolutionFilter, kFilter, kFilterBeta, 1.0F);
  EXPECT_EQ(numbers(filter.read), (Set{1, 2, 3}));
  EXPECT_EQ(numbers(filter.written), (Set{1}));
}

TEST(OperandsOf, WhatIsScaledByZeroIsNotRead) {
  const DescriptorRef sum =
      operation(kPointwiseOperation, {{751, tensor(1)}, {752, tensor(2)}, {753, tensor(3)}});
  sum->set(kPointwiseBFactor, attribute<float>(4, {0}));
  EXPECT_EQ(numbers(operands({sum}).read), (Set{1}));
  sum->set(kPointwiseXFactor, attribute<double>(kDoubleType, {0}));
  EXPECT_EQ(numbers(operands({sum}).read), Set{});
  sum->set(kPointwiseXFactor, attribute<double>(kDoubleType, {2}));
  sum->set(kPointwiseBFactor, attribute<double>(kDoubleType, {0.5}));
  EXPECT_EQ(numbers(operands({sum}).read), (Set{1, 2}));
}

TEST(OperandsOf, MatmulHasTheExtentsOfItsMatrices) {
  const Operands found =
      operands({operation(kMatmulOperation, {{kMatmulA, tensor(1, {3, 4, 10, 30}, 9)},
                                             {1521, tensor(2, {3, 4, 30, 20}, 9)},
                                             {kMatmulC, tensor(3, {3, 4, 10, 20}, 9)}})});
  EXPECT_EQ(numbers(found.read), (Set{1, 2}));
  EXPECT_EQ(numbers(found.written), (Set{3}));
  expect_work(found, {10, 20, 30, 12, 2, false});
}

TEST(OperandsOf, TheLargestProductIsTheWork) {
  const auto product = [](std::int64_t extent) {
    return operation(kMatmulOperation, {{kMatmulA, tensor(1, {extent, extent})},
                                        {1521, tensor(2, {extent, extent})},
                                        {kMatmulC, tensor(3, {extent, extent})}});
  };
  expect_work(operands({product(5), product(9), product(7)}), {9, 9, 9, 1, 4, false});
}

TEST(OperandsOf, WithoutAProductTheLargestResultIsTheWork) {
  const Operands found = operands(
      {operation(kPointwiseOperation, {{751, tensor(1, {100, 100})}, {753, tensor(2, {5, 7})}}),
       operation(kPointwiseOperation, {{751, tensor(2, {5, 7})}, {753, tensor(3, {2, 3})}})});
  expect_work(found, {35, 1, 1, 1, 4, false});
  EXPECT_EQ(numbers(found.read), (Set{1, 2}));
  EXPECT_EQ(numbers(found.written), (Set{2, 3}));
}

TEST(OperandsOf, TensorsWithinTheGraphAndByValueAreNone) {
  const DescriptorRef inner = flagged(kTensorIsVirtual, tensor(5));
  const Operands found = operands(
      {operation(kPointwiseOperation,
                 {{751, tensor(1)}, {752, flagged(kTensorIsByValue, tensor(6))}, {753, inner}}),
       operation(kPointwiseOperation, {{751, inner}, {753, tensor(2)}})});
  EXPECT_EQ(numbers(found.read), (Set{1}));
  EXPECT_EQ(numbers(found.written), (Set{2}));
}

TEST(OperandsOf, ListOfInputsIsReadWhole) {
  const DescriptorRef joined = operation(kConcatenation, {{1803, tensor(9)}});
  joined->set(1801, Attribute{kDescriptor, 3, {}, {tensor(1), tensor(2), tensor(3)}});
  const Operands found = operands({joined});
  EXPECT_EQ(numbers(found.read), (Set{1, 2, 3}));
  EXPECT_EQ(numbers(found.written), (Set{9}));
}

TEST(OperandsOf, OffsetsOfATensorAreReadEvenOfAResult) {
  const DescriptorRef result = tensor(2);
  result->set_descriptor(kTensorOffsets, tensor(7));
  const DescriptorRef within = flagged(kTensorIsVirtual, tensor(3));
  within->set_descriptor(kTensorOffsets, tensor(8));
  const Operands found = operands({operation(kPointwiseOperation, {{751, within}, {753, result}})});
  EXPECT_EQ(numbers(found.read), (Set{7, 8}));
  EXPECT_EQ(numbers(found.written), (Set{2}));
}

DescriptorRef strided(std::int64_t number, const Extents& extents, const Extents& strides,
                      std::int32_t type) {
  DescriptorRef made = tensor(number, extents, type);
  made->set(kTensorStrides, attribute(kInt64, strides));
  return made;
}

/// The bytes of a tensor that a graph reads.
std::uint64_t read_bytes(const DescriptorRef& read) {
  return operands({operation(kPointwiseOperation, {{751, read}, {753, tensor(2)}})}).read.at(1);
}

TEST(OperandsOf, BytesOfATensorEndWithItsLastNumber) {
  const Operands found =
      operands({operation(kPointwiseOperation, {{751, strided(1, {2, 3, 4}, {100, 20, 1}, 2)},
                                                {753, strided(2, {4, 3, 2}, {2, 8, 1}, 1)}})});
  EXPECT_EQ(found.read, (BytesByNumber{{1, (100 + 2 * 20 + 3 + 1) * 2}}));
  EXPECT_EQ(found.written, (BytesByNumber{{2, (3 * 2 + 2 * 8 + 1 + 1) * 8}}));
}

TEST(OperandsOf, BytesAreNotKnownWhereStridesDoNotSayThem) {
  EXPECT_EQ(read_bytes(tensor(1, {2, 3})), 0U) << "no strides";
  EXPECT_EQ(read_bytes(strided(1, {2, 3}, {1}, 0)), 0U);
  EXPECT_EQ(read_bytes(strided(1, {2, 3}, {-3, 1}, 0)), 0U);
  constexpr std::int32_t kFloatOf4Bits = 15;
  EXPECT_EQ(read_bytes(strided(1, {2, 3}, {3, 1}, kFloatOf4Bits)), 0U);
  const DescriptorRef in_vectors = strided(1, {2, 3}, {3, 1}, 0);
  in_vectors->set_number(kTensorVector, 4);
  EXPECT_EQ(read_bytes(in_vectors), 0U);
  const DescriptorRef reordered = strided(1, {2, 3}, {3, 1}, 0);
  reordered->set(kTensorReordering, attribute<std::int32_t>(25, {1}));
  EXPECT_EQ(read_bytes(reordered), 0U);
  const DescriptorRef ragged = strided(1, {2, 3}, {3, 1}, 0);
  ragged->set_descriptor(kTensorOffsets, tensor(7));
  EXPECT_EQ(read_bytes(ragged), 0U);
}

TEST(OperandsOf, GraphWithinAnOperationCounts) {
  const DescriptorRef inner = operation(kPointwiseOperation, {{751, tensor(1)}, {753, tensor(2)}});
  const Operands found =
      operands({operation(kAttention, {{2800, tensor(3)}, {2805, graph({inner})}})});
  EXPECT_EQ(numbers(found.read), (Set{1, 3}));
  EXPECT_EQ(numbers(found.written), (Set{2}));
}

/// A normalization whose phase is 0, inference, or 1, training.
Operands normalization(std::int32_t phase) {
  const DescriptorRef made = operation(kNormalization, {{2002, tensor(1)},
                                                        {2003, tensor(2)},
                                                        {2004, tensor(3)},
                                                        {2005, tensor(4)},
                                                        {2006, tensor(5)},
                                                        {2013, tensor(6)}});
  made->set(2001, attribute<std::int32_t>(28, {phase}));
  return operands({made});
}

TEST(OperandsOf, NormalizationInTrainingWritesMeanAndVariance) {
  const Operands found = normalization(1);
  EXPECT_EQ(numbers(found.read), (Set{1, 4, 5}));
  EXPECT_EQ(numbers(found.written), (Set{2, 3, 6}));
}

// Source: cudnn-frontend, batchnorm_inference.h: there they are inputs.
TEST(OperandsOf, NormalizationInInferenceReadsMeanAndVariance) {
  const Operands found = normalization(0);
  EXPECT_EQ(numbers(found.read), (Set{1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(found.written), (Set{6}));
}

TEST(OperandsOf, EmptyGraphHasNone) {
  const Operands found = operands_of(Descriptor(kGraph));
  EXPECT_TRUE(found.read.empty());
  EXPECT_TRUE(found.written.empty());
  expect_work(found, {1, 1, 1, 1, 4, false});
}

TEST(GraphOf, FollowsAPlanToItsGraph) {
  const DescriptorRef made = graph({});
  const DescriptorRef engine = operation(kEngine, {{kEngineGraph, made}});
  const DescriptorRef configuration = operation(kEngineConfig, {{kConfigEngine, engine}});
  const DescriptorRef plan = operation(kPlan, {{kPlanConfig, configuration}});
  for (const DescriptorRef& from : {engine, configuration, plan}) EXPECT_EQ(graph_of(*from), made);
  EXPECT_EQ(graph_of(Descriptor(kPlan)), nullptr);
}

}  // namespace
}  // namespace simgpu::cudnn
