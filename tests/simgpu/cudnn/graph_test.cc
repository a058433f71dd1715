// The graph API of simgpu's stand-in for cuDNN: an execution reads what a graph's operations read
// and writes their results, on the handle's stream, and what is not there is refused.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simgpu/cudnn/dnn_fixture.h"

// The binary interface, as far as it is used here; NVIDIA's header is not among the toolkit's.
extern "C" {
int cudnnSetStream(void* handle, cudaStream_t stream);
int cudnnBackendCreateDescriptor(int kind, void** descriptor);
int cudnnBackendDestroyDescriptor(void* descriptor);
int cudnnBackendInitialize(void* descriptor);
int cudnnBackendFinalize(void* descriptor);
int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count,
                             const void* elements);
int cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t room, int64_t* count,
                             void* elements);
int cudnnBackendExecute(void* handle, void* plan, void* pack);
}

namespace cudnn_test {
namespace {

// Of descriptors.
constexpr int kPointwise = 0;
constexpr int kConvolution = 1;
constexpr int kEngine = 2;
constexpr int kEngineConfig = 3;
constexpr int kHeuristic = 4;
constexpr int kPlan = 5;
constexpr int kConvolutionForward = 10;
constexpr int kPointwiseOperation = 13;
constexpr int kOperationGraph = 15;
constexpr int kVariantPack = 16;
constexpr int kTensor = 17;

// Of values.
constexpr int kHandleType = 0;
constexpr int kDataType = 1;
constexpr int kBoolean = 2;
constexpr int kInt64 = 3;
constexpr int kFloat = 4;
constexpr int kPointerType = 6;
constexpr int kConvolutionMode = 7;
constexpr int kHeuristicMode = 8;
constexpr int kPointwiseMode = 14;
constexpr int kDescriptorType = 15;
constexpr int kChar = 24;

// Of attributes.
constexpr int kHeuristicGraph = 201;
constexpr int kHeuristicResults = 202;
constexpr int kConfigEngine = 300;
constexpr int kPlanHandle = 400;
constexpr int kPlanConfig = 401;
constexpr int kPlanWorkspace = 402;
constexpr int kPlanText = 405;
constexpr int kGraphHandle = 800;
constexpr int kGraphOperations = 801;
constexpr int kGraphEngines = 802;
constexpr int kTensorIsVirtual = 907;
constexpr int kTensorIsByValue = 908;
constexpr int kPackNumbers = 1000;
constexpr int kPackPointers = 1001;
constexpr int kPackWorkspace = 1003;
constexpr int kEngineGraph = 1300;
constexpr int kEngineNumber = 1301;

// The numbers of tensors, which the graphs of these tests have in common.
constexpr int64_t kX = 'x';
constexpr int64_t kW = 'w';
constexpr int64_t kY = 'y';
constexpr int64_t kB = 'b';
constexpr int64_t kInner = 'v';

/// A descriptor, destroyed with its last owner here.
using Ref = std::shared_ptr<void>;

Ref create(int kind) {
  void* descriptor = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(kind, &descriptor), kSuccess);
  return {descriptor, [](void* own) { EXPECT_EQ(cudnnBackendDestroyDescriptor(own), kSuccess); }};
}

template <typename Value>
int try_set(const Ref& descriptor, int name, int type, const std::vector<Value>& values) {
  return cudnnBackendSetAttribute(descriptor.get(), name, type, static_cast<int64_t>(values.size()),
                                  values.data());
}

template <typename Value>
void set(const Ref& descriptor, int name, int type, const std::vector<Value>& values) {
  EXPECT_EQ(try_set(descriptor, name, type, values), kSuccess) << name;
}

void set(const Ref& descriptor, int name, const std::vector<Ref>& named) {
  std::vector<void*> pointers;
  pointers.reserve(named.size());
  for (const Ref& one : named) pointers.push_back(one.get());
  set(descriptor, name, kDescriptorType, pointers);
}

Ref finalized(Ref descriptor) {
  EXPECT_EQ(cudnnBackendFinalize(descriptor.get()), kSuccess);
  return descriptor;
}

enum class Place { kOfProgram, kVirtual, kByValue };

Ref tensor(int64_t number, const std::vector<int64_t>& extents = {1, 1, 8, 8},
           Place place = Place::kOfProgram) {
  Ref made = create(kTensor);
  std::vector<int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * extents[i];
  set<int64_t>(made, 900, kInt64, {16});
  set<int32_t>(made, 901, kDataType, {0});
  set(made, 902, kInt64, extents);
  set(made, 903, kInt64, strides);
  set<int64_t>(made, 906, kInt64, {number});
  set<char>(made, kTensorIsVirtual, kBoolean, {place == Place::kVirtual ? char{1} : char{0}});
  set<char>(made, kTensorIsByValue, kBoolean, {place == Place::kByValue ? char{1} : char{0}});
  return finalized(made);
}

/// Y is the convolution of X with W.
Ref convolution(const Ref& x, const Ref& w, const Ref& y) {
  Ref described = create(kConvolution);
  set<int32_t>(described, 100, kDataType, {0});
  set<int32_t>(described, 101, kConvolutionMode, {1});
  set<int64_t>(described, 106, kInt64, {2});
  for (const int name : {102, 103}) set<int64_t>(described, name, kInt64, {1, 1});
  for (const int name : {104, 105}) set<int64_t>(described, name, kInt64, {0, 0});
  Ref operation = create(kConvolutionForward);
  set<float>(operation, 700, kFloat, {1});
  set<float>(operation, 701, kFloat, {0});
  set(operation, 702, {finalized(described)});
  set(operation, 703, {w});
  set(operation, 704, {x});
  set(operation, 705, {y});
  return finalized(operation);
}

/// Y is the sum of X and `factor` times B.
Ref sum(const Ref& x, const Ref& b, const Ref& y, float factor = 1) {
  Ref described = create(kPointwise);
  set<int32_t>(described, 0, kPointwiseMode, {0});
  Ref operation = create(kPointwiseOperation);
  set(operation, 750, {finalized(described)});
  set(operation, 751, {x});
  set(operation, 752, {b});
  set(operation, 753, {y});
  set<float>(operation, 755, kFloat, {factor});
  return finalized(operation);
}

/// The configurations that heuristics have for a graph.
std::vector<Ref> configurations_of(const Ref& graph) {
  Ref heuristic = create(kHeuristic);
  set(heuristic, kHeuristicGraph, {graph});
  set<int32_t>(heuristic, 200, kHeuristicMode, {0});
  heuristic = finalized(heuristic);
  int64_t count = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristic.get(), kHeuristicResults, kDescriptorType, 0, &count,
                                     nullptr),
            kSuccess);
  std::vector<Ref> list;
  std::vector<void*> pointers;
  for (int64_t i = 0; i < count; ++i) {
    list.push_back(create(kEngineConfig));
    pointers.push_back(list.back().get());
  }
  int64_t told = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristic.get(), kHeuristicResults, kDescriptorType, count,
                                     &told, pointers.data()),
            kSuccess);
  EXPECT_EQ(told, count);
  return list;
}

int64_t text_size(const Ref& plan) {
  int64_t size = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(plan.get(), kPlanText, kChar, 0, &size, nullptr), kSuccess);
  return size;
}

/// The text, with its zero, of a plan for which that size was told.
std::string text_of(const Ref& plan, int64_t size) {
  std::string text(static_cast<std::size_t>(size), '#');
  int64_t told = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(plan.get(), kPlanText, kChar, size, &told, text.data()),
            kSuccess);
  EXPECT_EQ(told, size);
  EXPECT_EQ(text.find('\0'), text.size() - 1) << text;
  return text;
}

std::string text_of(const Ref& plan) { return text_of(plan, text_size(plan)); }

/// X, W and B hold 1, 2 and 3, and Y and the inner tensor zeros.
class GraphTest : public DnnFixture {
 protected:
  void SetUp() override {
    DnnFixture::SetUp();
    for (const auto& [number, value] :
         {std::pair{kX, 1.0F}, {kW, 2.0F}, {kY, 0.0F}, {kB, 3.0F}, {kInner, 0.0F}}) {
      add(number, value);
    }
  }

  [[nodiscard]] Ref graph_of(const std::vector<Ref>& operations) const {
    Ref graph = create(kOperationGraph);
    set<void*>(graph, kGraphHandle, kHandleType, {handle_});
    set(graph, kGraphOperations, operations);
    return finalized(graph);
  }
  [[nodiscard]] Ref plan_of(const Ref& configuration) const {
    Ref plan = create(kPlan);
    set<void*>(plan, kPlanHandle, kHandleType, {handle_});
    set(plan, kPlanConfig, {configuration});
    return finalized(plan);
  }
  /// What a program has left that follows the heuristics: the plan alone.
  [[nodiscard]] Ref plan_for(const std::vector<Ref>& operations) const {
    return plan_of(finalized(configurations_of(graph_of(operations)).at(0)));
  }
  [[nodiscard]] Ref convolution_plan() const {
    return plan_for({convolution(tensor(kX), tensor(kW, {1, 1, 1, 1}), tensor(kY))});
  }

  int execute(const Ref& plan, const std::vector<int64_t>& numbers,
              const std::map<int64_t, void*>& others = {}) {
    std::vector<void*> pointers;
    for (const int64_t number : numbers) {
      const auto other = others.find(number);
      pointers.push_back(other == others.end() ? arrays_.at(number) : other->second);
    }
    const Ref pack = create(kVariantPack);
    set(pack, kPackNumbers, kInt64, numbers);
    set(pack, kPackPointers, kPointerType, pointers);
    set<void*>(pack, kPackWorkspace, kPointerType, {nullptr});
    return cudnnBackendExecute(handle_, plan.get(), finalized(pack).get());
  }
  /// What an execution makes of a Y of zeros.
  Numbers result(const Ref& plan, const std::vector<int64_t>& numbers,
                 const std::map<int64_t, void*>& others = {}) {
    write(kY, 0);
    EXPECT_EQ(execute(plan, numbers, others), kSuccess);
    return read(kY);
  }
};

TEST_F(GraphTest, RefusesWhatIsNoDescriptor) {
  int other = 0;
  void* gone = nullptr;
  ASSERT_EQ(cudnnBackendCreateDescriptor(kTensor, &gone), kSuccess);
  EXPECT_EQ(cudnnBackendInitialize(gone), kSuccess);
  EXPECT_EQ(cudnnBackendDestroyDescriptor(gone), kSuccess);
  const Ref plan = convolution_plan();
  const Ref graph = create(kOperationGraph);
  int64_t value = 0;
  for (void* const wrong : {static_cast<void*>(&other), gone}) {
    EXPECT_EQ(cudnnBackendInitialize(wrong), kBadParam);
    EXPECT_EQ(cudnnBackendFinalize(wrong), kBadParam);
    EXPECT_EQ(cudnnBackendSetAttribute(wrong, 906, kInt64, 1, &value), kBadParam);
    EXPECT_EQ(cudnnBackendGetAttribute(wrong, 906, kInt64, 1, nullptr, &value), kBadParam);
    EXPECT_EQ(cudnnBackendDestroyDescriptor(wrong), kBadParam);
    EXPECT_EQ(cudnnBackendExecute(handle_, wrong, plan.get()), kBadParam);
    EXPECT_EQ(cudnnBackendExecute(handle_, plan.get(), wrong), kBadParam);
    EXPECT_EQ(try_set<void*>(graph, kGraphOperations, kDescriptorType, {wrong}), kBadParam);
  }
  EXPECT_EQ(cudnnBackendFinalize(nullptr), kBadParam);
  EXPECT_EQ(cudnnBackendCreateDescriptor(kTensor, nullptr), kBadParam);
  EXPECT_EQ(cudnnBackendDestroyDescriptor(nullptr), kSuccess);
}

TEST_F(GraphTest, RefusesWrongPlacesForValues) {
  const Ref made = tensor(kX);
  int64_t value = 5;
  EXPECT_EQ(cudnnBackendSetAttribute(made.get(), 906, kInt64, 1, nullptr), kBadParam);
  EXPECT_EQ(cudnnBackendSetAttribute(made.get(), 906, kInt64, -1, &value), kBadParam);
  EXPECT_EQ(cudnnBackendGetAttribute(made.get(), 906, kInt64, -1, nullptr, &value), kBadParam);
  EXPECT_EQ(value, 5);
}

TEST_F(GraphTest, ADescriptorTellsWhatIsSet) {
  const Ref made = tensor(kX, {2, 3, 5, 7});
  std::array<int64_t, 4> extents{9, 9, 9, 9};
  int64_t count = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(made.get(), 902, kInt64, 0, &count, nullptr), kSuccess);
  EXPECT_EQ(count, 4);
  // As many as there is room for, and how many there are.
  EXPECT_EQ(cudnnBackendGetAttribute(made.get(), 902, kInt64, 3, &count, extents.data()), kSuccess);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(extents, (std::array<int64_t, 4>{2, 3, 5, 9}));
  EXPECT_EQ(cudnnBackendGetAttribute(made.get(), 902, kInt64, 4, nullptr, extents.data()),
            kSuccess);
  EXPECT_EQ(extents, (std::array<int64_t, 4>{2, 3, 5, 7}));
  EXPECT_EQ(cudnnBackendGetAttribute(made.get(), 913, kInt64, 4, &count, extents.data()), kSuccess);
  EXPECT_EQ(count, 0);
}

TEST_F(GraphTest, ConvolutionWritesItsResultOnlyAndFromBothOperands) {
  const Ref plan = convolution_plan();
  const Numbers first = result(plan, {kX, kW, kY});
  EXPECT_NE(first, all(0));
  EXPECT_EQ(read(kX), all(1));
  EXPECT_EQ(read(kW), all(2));
  EXPECT_EQ(result(plan, {kX, kW, kY}), first) << "the same operands give the same numbers";
  for (const int64_t operand : {kX, kW}) {
    const float before = read(operand).front();
    write(operand, 5);
    EXPECT_NE(result(plan, {kX, kW, kY}), first) << operand;
    write(operand, before);
  }
  EXPECT_EQ(result(plan, {kX, kW, kY}), first);
}

TEST_F(GraphTest, NumberThatIsNotOfTheGraphIsLeftAlone) {
  const Ref plan = convolution_plan();
  const Numbers first = result(plan, {kX, kW, kY});
  EXPECT_EQ(result(plan, {kX, kB, kW, kY}), first);
  EXPECT_EQ(read(kB), all(3));
}

TEST_F(GraphTest, ExecutionNeedsAHandleAndAPointerForEachNumber) {
  const Ref plan = convolution_plan();
  const Ref pack = create(kVariantPack);
  set<int64_t>(pack, kPackNumbers, kInt64, {kX, kW, kY});
  set<void*>(pack, kPackPointers, kPointerType, {arrays_[kX], arrays_[kW]});
  EXPECT_EQ(cudnnBackendExecute(handle_, plan.get(), pack.get()), kBadParam);
  EXPECT_EQ(read(kY), all(0));
  // With the third one only the handle is wrong.
  set<void*>(pack, kPackPointers, kPointerType, {arrays_[kX], arrays_[kW], arrays_[kY]});
  EXPECT_EQ(cudnnBackendExecute(nullptr, plan.get(), pack.get()), kBadParam);
  EXPECT_EQ(read(kY), all(0));
  EXPECT_EQ(cudnnBackendExecute(handle_, plan.get(), pack.get()), kSuccess);
  EXPECT_NE(read(kY), all(0));
}

TEST_F(GraphTest, InputScaledByZeroMayBeNull) {
  const Ref plan = plan_for({sum(tensor(kX), tensor(kB), tensor(kY), 0)});
  const Numbers first = result(plan, {kX, kB, kY}, {{kB, nullptr}});
  EXPECT_NE(first, all(0));
  EXPECT_EQ(result(plan, {kX, kB, kY}), first) << "it is not read";
  write(kX, 5);
  EXPECT_NE(result(plan, {kX, kB, kY}, {{kB, nullptr}}), first);
}

TEST_F(GraphTest, OtherInputsAndResultsMayNotBeNull) {
  const Ref plan = plan_for({sum(tensor(kX), tensor(kB), tensor(kY))});
  for (const int64_t number : {kX, kB, kY}) {
    EXPECT_EQ(execute(plan, {kX, kB, kY}, {{number, nullptr}}), kBadParam) << number;
  }
  EXPECT_EQ(execute(plan, {kX, kY}), kBadParam) << "an input without a pointer";
  EXPECT_EQ(read(kY), all(0));
}

TEST_F(GraphTest, PlanWithoutAGraphIsRefused) {
  EXPECT_EQ(execute(create(kPlan), {kX, kW, kY}), kBadParam);
  EXPECT_EQ(read(kY), all(0));
}

TEST_F(GraphTest, TensorBetweenOperationsNeedsNoMemory) {
  const Ref inner = tensor(kInner, {1, 1, 8, 8}, Place::kVirtual);
  const Ref plan = plan_for({convolution(tensor(kX), tensor(kW, {1, 1, 1, 1}), inner),
                             sum(inner, tensor(kB), tensor(kY))});
  const Numbers first = result(plan, {kX, kW, kB, kY});
  EXPECT_NE(first, all(0));
  for (const int64_t operand : {kX, kW, kB}) {
    const float before = read(operand).front();
    write(operand, 5);
    EXPECT_NE(result(plan, {kX, kW, kB, kY}), first) << operand;
    write(operand, before);
  }
  // And where it has some, that is neither read nor written.
  write(kInner, 6);
  EXPECT_EQ(result(plan, {kX, kW, kB, kInner, kY}), first);
  EXPECT_EQ(read(kInner), all(6));
}

TEST_F(GraphTest, TensorByValueIsNoDevicePointer) {
  const Ref plan =
      plan_for({sum(tensor(kX), tensor(kB, {1, 1, 1, 1}, Place::kByValue), tensor(kY))});
  float value = 3;
  const Numbers first = result(plan, {kX, kB, kY}, {{kB, &value}});
  EXPECT_NE(first, all(0));
  EXPECT_EQ(value, 3);
  // Memory of the device shows whether it is read.
  EXPECT_EQ(result(plan, {kX, kB, kY}), first);
  write(kB, 4);
  EXPECT_EQ(result(plan, {kX, kB, kY}), first);
  write(kX, 5);
  EXPECT_NE(result(plan, {kX, kB, kY}), first);
}

TEST_F(GraphTest, GraphKeepsWhatTheProgramDestroys) {
  Ref x = tensor(kX);
  Ref w = tensor(kW, {1, 1, 1, 1});
  Ref y = tensor(kY);
  Ref operation = convolution(x, w, y);
  const Ref graph = graph_of({operation});
  const Ref early = plan_of(configurations_of(graph).at(0));
  const Numbers first = result(early, {kX, kW, kY});
  for (Ref* const part : {&x, &w, &y, &operation}) part->reset();
  // What comes after them has their addresses, as far as these are free.
  std::vector<Ref> others;
  for (int i = 0; i < 16; ++i) others.push_back(tensor(kB));
  EXPECT_EQ(result(early, {kX, kW, kY, kB}), first);
  EXPECT_EQ(result(plan_of(configurations_of(graph).at(0)), {kX, kW, kY, kB}), first);
  EXPECT_EQ(read(kB), all(3));
}

TEST_F(GraphTest, HeuristicsHaveOneConfiguration) {
  const Ref graph = graph_of({convolution(tensor(kX), tensor(kW, {1, 1, 1, 1}), tensor(kY))});
  const std::vector<Ref> configurations = configurations_of(graph);
  ASSERT_EQ(configurations.size(), 1U);
  int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(graph.get(), kGraphEngines, kInt64, 1, nullptr, &count),
            kSuccess);
  EXPECT_EQ(count, 1);
  const Ref engine = create(kEngine);
  void* pointer = engine.get();
  EXPECT_EQ(cudnnBackendGetAttribute(configurations[0].get(), kConfigEngine, kDescriptorType, 1,
                                     &count, &pointer),
            kSuccess);
  EXPECT_EQ(count, 1);
  int64_t number = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(engine.get(), kEngineNumber, kInt64, 1, nullptr, &number),
            kSuccess);
  EXPECT_EQ(number, 0);
}

TEST_F(GraphTest, HeuristicsWithoutAGraphAreRefused) {
  const Ref heuristic = create(kHeuristic);
  int64_t count = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(heuristic.get(), kHeuristicResults, kDescriptorType, 0, &count,
                                     nullptr),
            kBadParam);
}

TEST_F(GraphTest, EngineIsChosenByItsNumberAndThereIsOne) {
  const Ref graph = graph_of({convolution(tensor(kX), tensor(kW, {1, 1, 1, 1}), tensor(kY))});
  const Ref engine = create(kEngine);
  set(engine, kEngineGraph, {graph});
  set<int64_t>(engine, kEngineNumber, kInt64, {1});
  EXPECT_EQ(cudnnBackendFinalize(engine.get()), kNotSupported);
  set<int64_t>(engine, kEngineNumber, kInt64, {0});
  const Ref configuration = create(kEngineConfig);
  set(configuration, kConfigEngine, {finalized(engine)});
  const Ref plan = plan_of(finalized(configuration));
  int64_t workspace = -1;
  EXPECT_EQ(cudnnBackendGetAttribute(plan.get(), kPlanWorkspace, kInt64, 1, nullptr, &workspace),
            kSuccess);
  EXPECT_EQ(workspace, 0);
  EXPECT_EQ(result(plan, {kX, kW, kY}), result(convolution_plan(), {kX, kW, kY}));
}

TEST_F(GraphTest, TextOfAPlanGivesThePlanBack) {
  Ref plan = convolution_plan();
  const Numbers first = result(plan, {kX, kW, kY});
  const std::string text = text_of(plan);
  Ref other = plan_for({sum(tensor(kX), tensor(kB), tensor(kY))});
  const Numbers of_other = result(other, {kX, kB, kY});
  const std::string other_text = text_of(other);
  EXPECT_NE(first, of_other);
  EXPECT_NE(text, other_text);
  plan.reset();
  other.reset();

  for (const auto& [written, expected] : {std::pair{text, first}, {other_text, of_other}}) {
    const Ref again = create(kPlan);
    set<void*>(again, kPlanHandle, kHandleType, {handle_});
    set<char>(again, kPlanText, kChar, {written.begin(), written.end()});
    EXPECT_EQ(result(finalized(again), {kX, kW, kB, kY}), expected);
  }
}

TEST_F(GraphTest, TextThatIsNoPlansIsRefused) {
  const std::string known = text_of(convolution_plan());
  ASSERT_FALSE(known.empty());
  const Ref plan = create(kPlan);
  for (const std::string& text :
       {std::string(), std::string("{\"engine\": 3}"), std::string("{\"simgpu_plan\": 99999}"),
        std::string("{\"simgpu_plan\": -1}"), std::string("{\"simgpu_plan\": }"), " " + known}) {
    EXPECT_EQ(try_set<char>(plan, kPlanText, kChar, {text.begin(), text.end()}), kNotSupported)
        << text;
  }
  EXPECT_EQ(execute(plan, {kX, kW, kY}), kBadParam);
}

TEST_F(GraphTest, TextHasTheSizeThatWasToldHoweverOftenItIsAskedFor) {
  const Ref plan = convolution_plan();
  const int64_t size = text_size(plan);
  for (int i = 0; i < 120 && !HasFailure(); ++i) text_of(plan, size);
}

TEST_F(GraphTest, EveryOneOfManyInputsIsRead) {
  constexpr int kInputs = 20;
  std::vector<Ref> operations;
  std::vector<int64_t> numbers;
  Ref before = tensor(1000);
  add(1000, 1);
  numbers.push_back(1000);
  for (int i = 1; i < kInputs; ++i) {
    add(1000 + i, 1 + 0.125F * static_cast<float>(i));
    numbers.push_back(1000 + i);
    const bool is_last = i + 1 == kInputs;
    const Ref after = is_last ? tensor(kY) : tensor(2000 + i, {1, 1, 8, 8}, Place::kVirtual);
    operations.push_back(sum(before, tensor(1000 + i), after));
    before = after;
  }
  numbers.push_back(kY);
  const Ref plan = plan_for(operations);
  const Numbers first = result(plan, numbers);
  EXPECT_NE(first, all(0));
  EXPECT_EQ(result(plan, numbers), first);
  for (int i = 0; i < kInputs; ++i) {
    const float value = read(1000 + i).front();
    EXPECT_EQ(value, 1 + 0.125F * static_cast<float>(i)) << "an input is not written";
    write(1000 + i, -value);
    EXPECT_NE(result(plan, numbers), first) << i;
    write(1000 + i, value);
  }
}

TEST_F(GraphTest, EachResultOfAGraphIsWritten) {
  const Ref inner = tensor(kInner);
  const Ref plan = plan_for({convolution(tensor(kX), tensor(kW, {1, 1, 1, 1}), inner),
                             sum(inner, tensor(kB), tensor(kY))});
  EXPECT_NE(result(plan, {kX, kW, kB, kInner, kY}), all(0));
  EXPECT_NE(read(kInner), all(0));
}

TEST_F(GraphTest, WorkGoesToTheHandlesStream) {
  const Ref plan = convolution_plan();
  const Numbers expected = result(plan, {kX, kW, kY});
  write(kY, 0);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudnnSetStream(handle_, stream), kSuccess);
  std::promise<void> end;
  std::future<void> ended = end.get_future();
  ASSERT_EQ(
      cudaLaunchHostFunc(
          stream, [](void* until) { static_cast<std::future<void>*>(until)->wait(); }, &ended),
      cudaSuccess);
  EXPECT_EQ(execute(plan, {kX, kW, kY}), kSuccess);
  // Work of another stream would be done after this.
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(read(kY), all(0));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  end.set_value();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(read(kY), expected);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace cudnn_test
