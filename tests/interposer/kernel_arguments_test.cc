#include "interposer/kernels/kernel_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "interposer/driver/table.h"
#include "interposer/kernels/kernel_handles.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kOurs = 0x700000000000;

bool is_ours(std::uint64_t word) { return word - kOurs < 0x1000000; }

/// What the fake driver knows of one handle.
struct FakeFunction {
  std::string name;
  std::vector<std::size_t> sizes;
  bool is_kernel = false;
};

std::map<const void*, FakeFunction>& functions() {
  static std::map<const void*, FakeFunction> all;
  return all;
}
/// The module or library of each handle of which the fake driver tells it.
std::map<const void*, void*>& owners() {
  static std::map<const void*, void*> all;
  return all;
}
template <typename Handle>
Handle owner(std::uintptr_t number) {
  return reinterpret_cast<Handle>(0x90000 + 16 * number);
}
template <typename Handle>
CUresult find_owner(Handle* found, const void* handle, bool kernel) {
  const auto known = owners().find(handle);
  if (known == owners().end() || functions()[handle].is_kernel != kernel) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *found = static_cast<Handle>(known->second);
  return CUDA_SUCCESS;
}
std::atomic<int> questions{0};

CUresult param_info(const void* handle, bool kernel, std::size_t index, std::size_t* size) {
  ++questions;
  const auto found = functions().find(handle);
  if (found == functions().end() || found->second.is_kernel != kernel) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (index >= found->second.sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *size = found->second.sizes[index];
  return CUDA_SUCCESS;
}

class KernelLayoutCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    functions().clear();
    owners().clear();
    questions = 0;
    driver().cuFuncGetModule = [](CUmodule* module, CUfunction function) {
      return find_owner(module, function, false);
    };
    driver().cuKernelGetLibrary = [](CUlibrary* library, CUkernel kernel) {
      return find_owner(library, kernel, true);
    };
    driver().cuFuncGetParamInfo = [](CUfunction function, std::size_t index, std::size_t*,
                                     std::size_t* size) {
      return param_info(function, false, index, size);
    };
    driver().cuKernelGetParamInfo = [](CUkernel kernel, std::size_t index, std::size_t*,
                                       std::size_t* size) {
      return param_info(kernel, true, index, size);
    };
    driver().cuFuncGetName = [](const char** name, CUfunction function) {
      *name = functions()[function].name.c_str();
      return CUDA_SUCCESS;
    };
    driver().cuKernelGetName = [](const char** name, CUkernel kernel) {
      *name = functions()[kernel].name.c_str();
      return CUDA_SUCCESS;
    };
  }

  static CUfunction handle(std::uintptr_t number) {
    return reinterpret_cast<CUfunction>(0x1000 + 16 * number);
  }

  KernelLayoutCache cache_;
};

TEST_F(KernelLayoutCacheTest, KnowsNothingBeforeItLearns) {
  EXPECT_EQ(cache_.find(handle(1)), nullptr);
}

TEST_F(KernelLayoutCacheTest, AsksTheDriverOnceForAFunction) {
  functions()[handle(1)] = {"gemm", {8, 8, 4}};
  const KernelLayout* const learned = cache_.learn(handle(1));
  ASSERT_NE(learned, nullptr);
  const int asked = questions;
  EXPECT_EQ(cache_.find(handle(1)), learned);
  EXPECT_EQ(questions, asked);
  EXPECT_EQ(learned->parameters, 3U);
}

TEST_F(KernelLayoutCacheTest, AcceptsKernelHandleCastToFunction) {
  functions()[handle(2)] = {"gemm", {8}, /*is_kernel=*/true};
  ASSERT_NE(cache_.learn(handle(2)), nullptr);
  EXPECT_EQ(cache_.find(handle(2))->probes.size(), 1U);
}

// What a driver answers is not defined.
TEST_F(KernelLayoutCacheTest, AsksNothingOfAFunctionAboutAKernelOfALibrary) {
  functions()[handle(2)] = {"gemm", {8}, /*is_kernel=*/true};
  functions()[handle(3)] = {"barrier", {}, /*is_kernel=*/true};
  for (const std::uintptr_t i : {2, 3}) {
    KernelHandles::of_process().note(reinterpret_cast<CUkernel>(handle(i)), owner<CUlibrary>(1));
  }
  driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
    ADD_FAILURE();
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  driver().cuFuncGetName = [](const char**, CUfunction) {
    ADD_FAILURE();
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  };
  EXPECT_NE(cache_.learn(handle(2)), nullptr);
  ASSERT_NE(cache_.learn(handle(3)), nullptr);
  EXPECT_EQ(cache_.find(handle(3))->parameters, 0U);
  KernelHandles::of_process().forget(owner<CUlibrary>(1));
}

TEST_F(KernelLayoutCacheTest, RefusesHandleThatTheDriverDoesNotKnow) {
  EXPECT_EQ(cache_.learn(handle(3)), nullptr);
  EXPECT_EQ(cache_.learn(nullptr), nullptr);
}

TEST_F(KernelLayoutCacheTest, GivesTheSameKernelTheSameIdInAnotherModule) {
  functions()[handle(1)] = {"gemm", {8}};
  functions()[handle(2)] = {"gemm", {8}};
  functions()[handle(3)] = {"softmax", {8}};
  EXPECT_EQ(cache_.learn(handle(1))->kernel, cache_.learn(handle(2))->kernel);
  EXPECT_NE(cache_.learn(handle(1))->kernel, cache_.learn(handle(3))->kernel);
}

TEST_F(KernelLayoutCacheTest, AsksAgainAfterAnUnloadReusedTheHandle) {
  functions()[handle(1)] = {"before", {8, 8}};
  cache_.learn(handle(1));
  cache_.clear();
  EXPECT_EQ(cache_.find(handle(1)), nullptr);
  functions()[handle(1)] = {"after", {16}};
  ASSERT_NE(cache_.learn(handle(1)), nullptr);
  EXPECT_EQ(cache_.find(handle(1))->parameters, 1U);
}

TEST_F(KernelLayoutCacheTest, ForgetsWhatAModuleTakesAlongAndKeepsTheRest) {
  auto* const module = owner<CUmodule>(1);
  for (std::uintptr_t i = 1; i <= 3; ++i) functions()[handle(i)] = {"function", {8}};
  functions()[handle(4)] = {"kernel", {8}, /*is_kernel=*/true};
  owners()[handle(1)] = module;
  owners()[handle(2)] = owner<CUmodule>(2);
  owners()[handle(4)] = module;  // a library may have a module's number
  for (std::uintptr_t i = 1; i <= 4; ++i) ASSERT_NE(cache_.learn(handle(i)), nullptr);
  cache_.forget_module(module);
  EXPECT_EQ(cache_.find(handle(1)), nullptr);
  EXPECT_NE(cache_.find(handle(2)), nullptr);
  EXPECT_EQ(cache_.find(handle(3)), nullptr) << "nobody tells whose it is";
  EXPECT_NE(cache_.find(handle(4)), nullptr);
}

TEST_F(KernelLayoutCacheTest, ForgetsWhatALibraryMayTakeAlongAndKeepsTheRest) {
  functions()[handle(1)] = {"function", {8}};
  owners()[handle(1)] = owner<CUmodule>(1);
  for (std::uintptr_t i = 2; i <= 4; ++i) functions()[handle(i)] = {"kernel", {8}, true};
  owners()[handle(2)] = owner<CUlibrary>(2);
  owners()[handle(3)] = owner<CUlibrary>(3);
  for (std::uintptr_t i = 1; i <= 4; ++i) ASSERT_NE(cache_.learn(handle(i)), nullptr);
  cache_.forget_library(owner<CUlibrary>(2));
  EXPECT_EQ(cache_.find(handle(1)), nullptr) << "it may have been made from a kernel";
  EXPECT_EQ(cache_.find(handle(2)), nullptr);
  EXPECT_NE(cache_.find(handle(3)), nullptr);
  EXPECT_EQ(cache_.find(handle(4)), nullptr) << "nobody tells whose it is";
}

TEST_F(KernelLayoutCacheTest, KnowsWhoseAHandleIsAfterItHasGrown) {
  constexpr std::uintptr_t kCount = 5000;
  for (std::uintptr_t i = 0; i < kCount; ++i) {
    functions()[handle(i)] = {"function", {8}};
    owners()[handle(i)] = owner<CUmodule>(1 + i % 2);
    ASSERT_NE(cache_.learn(handle(i)), nullptr);
  }
  cache_.forget_module(owner<CUmodule>(1));
  for (std::uintptr_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(cache_.find(handle(i)) == nullptr, i % 2 == 0) << i;
  }
}

TEST_F(KernelLayoutCacheTest, KeepsEveryFunctionWhenItGrows) {
  constexpr std::uintptr_t kCount = 5000;
  for (std::uintptr_t i = 0; i < kCount; ++i) {
    functions()[handle(i)] = {"kernel" + std::to_string(i % 7), {8 * (i % 5)}};
    ASSERT_NE(cache_.learn(handle(i)), nullptr);
  }
  for (std::uintptr_t i = 0; i < kCount; ++i) {
    const KernelLayout* const layout = cache_.find(handle(i));
    ASSERT_NE(layout, nullptr) << i;
    EXPECT_EQ(layout->parameters, 1U);
  }
}

TEST_F(KernelLayoutCacheTest, FindsWhileAnotherThreadLearnsAndClears) {
  for (std::uintptr_t i = 0; i < 64; ++i) functions()[handle(i)] = {"kernel", {8}};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      for (std::uintptr_t i = 0; i < 64; ++i) {
        const KernelLayout* const layout = cache_.find(handle(i));
        if (layout != nullptr) {
          EXPECT_EQ(layout->parameters, 1U);
        }
      }
    }
  });
  for (int round = 0; round < 200; ++round) {
    for (std::uintptr_t i = 0; i < 64; ++i) cache_.learn(handle(i));
    cache_.clear();
  }
  done = true;
  reader.join();
}

std::vector<std::uint64_t> collected(const KernelLayout& layout, std::vector<void*> parameters,
                                     GridSize grid = {1, 1}) {
  WordList words;
  collect_parameters(layout, parameters.data(), grid, is_ours, words);
  const auto found = words.words();
  return {found.begin(), found.end()};
}

KernelLayout layout_of(const std::vector<std::size_t>& sizes) {
  KernelLayout layout{};
  for (const std::size_t size : sizes) append_parameter(layout, size);
  return layout;
}

TEST(CollectParameters, FindsPointersAndLeavesNumbers) {
  std::uint64_t weights = kOurs + 64;
  float scale = 1;
  std::uint64_t foreign = 0x12345678;
  EXPECT_THAT(collected(layout_of({8, 4, 8}), {&weights, &scale, &foreign}),
              ElementsAre(kOurs + 64));
}

TEST(CollectParameters, WordsOfStructsAreLessCertainWhereTheyArePyTorchs) {
  KernelLayout layout{};
  append_parameter(layout, 16);
  EXPECT_EQ(layout.probes.size(), 3U);
  EXPECT_FALSE(layout.has_more);
  append_parameter(layout, 16, nullptr, /*is_pytorchs=*/true);
  EXPECT_EQ(layout.probes.size(), 3U);
  EXPECT_EQ(layout.struct_probes.size(), 3U);
  EXPECT_TRUE(layout.has_more);
  append_parameter(layout, 8, nullptr, /*is_pytorchs=*/true);
  EXPECT_EQ(layout.probes.size(), 4U);
}

TEST(CollectParameters, FindsPointersInsideStructsPassedByValue) {
  struct {
    int count = 3;
    std::uint64_t first = kOurs;
    std::uint64_t null = 0;
    std::uint64_t second = kOurs + 128;
  } tensors;
  EXPECT_THAT(collected(layout_of({sizeof tensors}), {&tensors}), ElementsAre(kOurs, kOurs + 128));
}

TEST(AppendParameter, HasPlacesForTensorMapsInStructsThatCanHoldOne) {
  using Probe = KernelLayout::Probe;
  EXPECT_TRUE(layout_of({8, 4, 127}).tensor_maps.empty());
  EXPECT_THAT(layout_of({8, 128}).tensor_maps, ElementsAre(Probe{1, 0}));
  EXPECT_THAT(layout_of({260}).tensor_maps, ElementsAre(Probe{0, 0}, Probe{0, 64}, Probe{0, 128}));
}

TEST(CollectParameters, FindsPointersOfPackedStructs) {
  struct __attribute__((packed)) {
    std::uint32_t tag = 7;
    std::uint64_t pointer = kOurs + 8;
    std::uint32_t tail = 9;
  } packed;
  EXPECT_THAT(collected(layout_of({sizeof packed}), {&packed}), ElementsAre(kOurs + 8));
}

TEST(CollectParameters, SeesPointerThatWasNullAtTheFirstLaunch) {
  const KernelLayout layout = layout_of({8});
  std::uint64_t pointer = 0;
  EXPECT_THAT(collected(layout, {&pointer}), IsEmpty());
  pointer = kOurs;
  EXPECT_THAT(collected(layout, {&pointer}), ElementsAre(kOurs));
}

TEST(CollectParameters, ReadsNoBytesPastASmallParameter) {
  // Four bytes at the end of a page-sized block: the sanitizer would see a wider read.
  auto flag = std::make_unique<std::uint32_t>(1);
  EXPECT_THAT(collected(layout_of({4}), {flag.get()}), IsEmpty());
}

TEST(CollectParameters, FindsMorePointersThanFitInline) {
  std::vector<std::uint64_t> pointers(4 * WordList::kInline);
  for (std::size_t i = 0; i < pointers.size(); ++i) pointers[i] = kOurs + 64 * i;
  const auto found = collected(layout_of({8 * pointers.size()}), {pointers.data()});
  EXPECT_THAT(found, ::testing::IsSupersetOf(pointers));
}

/// A struct of 80 bytes: three pointers in front of anything else, then two lists of three of which
/// a launch says how many count, the last word, and eight bytes for its blocks' tensors.
KnownStruct known_struct_of(KnownStruct::Count count) {
  using Count = KnownStruct::Count;
  return {.type = "Known",
          .smallest = 80,
          .largest = 80,
          .block_to_tensor = 64,
          .index_bytes = 1,
          .list_count = 3,
          .lists = {{{8, count, 0}, {32, count, 0}, {-24, Count::kFixed, 1}}}};
}

/// Such a struct, with a pointer in each word but the blocks'.
struct Filled {
  std::uint64_t words[10];
  unsigned char* tensors = reinterpret_cast<unsigned char*>(&words[8]);

  Filled() {
    for (std::uint64_t i = 0; i < 10; ++i) words[i] = i == 8 ? 0 : kOurs + i;
  }
};

/// The words that a launch of `grid` names, as their indices in the struct.
std::vector<std::uint64_t> known_words(KnownStruct::Count count, GridSize grid,
                                       Filled filled = {}) {
  const KnownStruct known = known_struct_of(count);
  KernelLayout layout{};
  append_parameter(layout, 4);
  append_parameter(layout, sizeof filled.words, &known);
  std::vector<std::uint64_t> words = collected(layout, {nullptr, filled.words}, grid);
  for (std::uint64_t& word : words) word -= kOurs;
  std::sort(words.begin(), words.end());
  return words;
}

using Count = KnownStruct::Count;

TEST(CollectParameters, LooksAtAsManyWordsOfAKnownStructAsTheGridHasBlocks) {
  EXPECT_THAT(known_words(Count::kGridX, {2, 1}), ElementsAre(1, 2, 4, 5, 7));
  EXPECT_THAT(known_words(Count::kGridY, {2, 1}), ElementsAre(1, 4, 7));
  EXPECT_THAT(known_words(Count::kGridX, {0, 9}), ElementsAre(7));
}

TEST(CollectParameters, LooksAtNoWordsBehindAListHoweverLargeTheGrid) {
  EXPECT_THAT(known_words(Count::kGridX, {1000, 1}), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(known_words(Count::kGridX, GridSize::unknown()), ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(CollectParameters, LooksAtTheTensorsThatTheBlocksOfTheLaunchName) {
  Filled filled;
  filled.tensors[0] = 1;
  filled.tensors[1] = 0;
  filled.tensors[2] = 2;  // of an earlier launch, which had three blocks
  EXPECT_THAT(known_words(Count::kTensors, {2, 1}, filled), ElementsAre(1, 2, 4, 5, 7));
  EXPECT_THAT(known_words(Count::kTensors, {3, 1}, filled), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(known_words(Count::kTensors, GridSize::unknown(), filled),
              ElementsAre(1, 2, 3, 4, 5, 6, 7));
}

TEST(CollectParameters, LooksAtTensorsOfWhichThereAreMoreThanAByteCounts) {
  constexpr std::size_t kTensors = 400;
  constexpr std::size_t kBlocks = 16;
  constexpr std::size_t kFirstBlock = kTensors * 8;
  const KnownStruct known{.type = "Large",
                          .smallest = 0,
                          .largest = 1 << 20,
                          .block_to_tensor = kFirstBlock,
                          .index_bytes = 2,
                          .list_count = 1,
                          .lists = {{{0, Count::kTensors, 0}}}};
  std::vector<std::uint64_t> words(kTensors + kBlocks * 2 / 8, 0);
  for (std::size_t i = 0; i < kTensors; ++i) words[i] = kOurs + 64 * i;
  const std::uint16_t tensor = 299;
  std::memcpy(reinterpret_cast<char*>(words.data()) + kFirstBlock + 2, &tensor, sizeof tensor);
  KernelLayout layout{};
  append_parameter(layout, 8 * words.size(), &known);
  EXPECT_EQ(collected(layout, {words.data()}, {1, 1}).size(), 1U);
  EXPECT_EQ(collected(layout, {words.data()}, {2, 1}).size(), 300U);
  EXPECT_EQ(collected(layout, {words.data()}, {4096, 1}).size(), 300U);
}

TEST(CollectParameters, ReadsNoBlocksBehindAKnownStruct) {
  const KnownStruct known = known_struct_of(Count::kTensors);
  KernelLayout layout{};
  append_parameter(layout, 80, &known);
  // Exactly the struct: the sanitizer would see a read behind it.
  const std::vector<std::uint64_t> words(10, 0);
  EXPECT_THAT(collected(layout, {const_cast<std::uint64_t*>(words.data())}, {4096, 1}), IsEmpty());
}

// Sizes and strides that a launch of fewer dimensions leaves as they were on the stack.
constexpr char kStridedCopy[] =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
    "copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_"
    "EEviT1_";

struct StridedCopy {
  std::uint64_t words[67] = {};

  StridedCopy() {
    words[6] = words[50] = kOurs + 1;  // leftovers
    words[63] = kOurs + 2;
    words[64] = kOurs + 3;
  }
};

TEST_F(KernelLayoutCacheTest, LeavesOutTheWordsThatAKernelOfPyTorchsDoesNotUse) {
  functions()[handle(1)] = {kStridedCopy, {4, 536}};
  StridedCopy copy;
  EXPECT_THAT(collected(*cache_.learn(handle(1)), {nullptr, copy.words}),
              ElementsAre(kOurs + 2, kOurs + 3));
}

// How many operands a kernel has does not follow from the size of its struct, for the functor in it
// may have any: the first pointer of a kernel with one operand lies at 408.
TEST_F(KernelLayoutCacheTest, LooksWhereverAKernelOfAnyNumberOfOperandsMayHavePointers) {
  functions()[handle(1)] = {kStridedCopy, {4, 672}};
  std::uint64_t words[84] = {};
  for (const std::size_t at : {50U, 51U, 62U, 80U, 83U}) words[at] = kOurs + at;
  EXPECT_THAT(collected(*cache_.learn(handle(1)), {nullptr, words}),
              ElementsAre(kOurs + 51, kOurs + 62, kOurs + 80, kOurs + 83));
}

TEST_F(KernelLayoutCacheTest, LooksAtAllWordsOfAStructOfAnotherSize) {
  functions()[handle(1)] = {kStridedCopy, {4, 424}};
  StridedCopy copy;
  EXPECT_THAT(collected(*cache_.learn(handle(1)), {nullptr, copy.words}),
              ElementsAre(kOurs + 1, kOurs + 1));
}

TEST_F(KernelLayoutCacheTest, LooksAtAllWordsOfAKernelWithAnotherNumberOfParameters) {
  functions()[handle(1)] = {kStridedCopy, {4, 536, 4}};
  StridedCopy copy;
  EXPECT_THAT(collected(*cache_.learn(handle(1)), {nullptr, copy.words, nullptr}),
              ElementsAre(kOurs + 1, kOurs + 1, kOurs + 2, kOurs + 3));
}

TEST_F(KernelLayoutCacheTest, TellsWhichParametersAreArraysOfPointers) {
  functions()[handle(1)] = {"_ZN5model18accumulate_batchedEPPfPKPKfii", {8, 8, 4, 4}};
  functions()[handle(2)] = {"accumulate_listed", {8, 8, 4, 4}};
  EXPECT_THAT(cache_.learn(handle(1))->arrays, ElementsAre(0, 1));
  EXPECT_TRUE(cache_.learn(handle(1))->has_more);
  EXPECT_THAT(cache_.learn(handle(2))->arrays, IsEmpty());
  EXPECT_FALSE(cache_.learn(handle(2))->has_more);
  EXPECT_FALSE(cache_.learn(handle(2))->any_array);
}

TEST_F(KernelLayoutCacheTest, TakesWhatAKernelCountsForAnArrayOfPointers) {
  functions()[handle(1)] = {"_ZN5model6arangeEiNS_5RangeEPy", {4, 16, 8}};
  functions()[handle(2)] = {"cupy_arange__int64_int64_uint64", {8, 8, 24, 8}};
  functions()[handle(3)] = {"_ZN5model8rearangeEPf", {8}};
  EXPECT_THAT(cache_.learn(handle(1))->arrays, ElementsAre(2));
  EXPECT_FALSE(cache_.learn(handle(1))->any_array);
  EXPECT_THAT(cache_.learn(handle(2))->arrays, IsEmpty());
  EXPECT_TRUE(cache_.learn(handle(2))->any_array);
  EXPECT_TRUE(cache_.learn(handle(2))->has_more);
  EXPECT_THAT(cache_.learn(handle(3))->arrays, IsEmpty());
}

TEST_F(KernelLayoutCacheTest, LooksAtAllWordsIfItIsToldTo) {
  functions()[handle(1)] = {kStridedCopy, {4, 536}};
  KernelLayoutCache all(KernelLayoutCache::StructWords::kAll);
  StridedCopy copy;
  EXPECT_THAT(collected(*all.learn(handle(1)), {nullptr, copy.words}),
              ElementsAre(kOurs + 1, kOurs + 1, kOurs + 2, kOurs + 3));
}

TEST(ArgumentBufferOf, ReadsPointerAndSizeInAnyOrder) {
  std::uint64_t arguments[2] = {kOurs, 5};
  std::size_t size = sizeof arguments;
  void* forward[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
  EXPECT_EQ(argument_buffer_of(forward).data, arguments);
  EXPECT_EQ(argument_buffer_of(forward).size, sizeof arguments);
  void* backward[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, arguments,
                      CU_LAUNCH_PARAM_END};
  EXPECT_EQ(argument_buffer_of(backward).size, sizeof arguments);
}

TEST(ArgumentBufferOf, IsEmptyWithoutAPointer) {
  std::size_t size = 8;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  EXPECT_EQ(argument_buffer_of(extra).size, 0U);
  EXPECT_EQ(argument_buffer_of(nullptr).size, 0U);
}

}  // namespace
}  // namespace superpipe
