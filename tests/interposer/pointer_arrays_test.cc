#include "interposer/kernels/pointer_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>
#include <vector>

#include "interposer/hooks/launch_words.h"
#include "interposer/kernels/kernel_arguments.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Addresses = std::vector<std::uint64_t>;
using Age = PointerArrays::Age;

/// Where the driver says that allocations begin, by address; others it does not know.
std::map<std::uint64_t, std::uint64_t> allocations;
/// The page-locked host memory that the driver knows; unified memory, if that is so.
std::array<std::uint64_t, 8> host_words{};
bool host_is_unified = false;
bool host_is_concurrent = false;

class PointerArraysTest : public testing::ManagedFixture {
 protected:
  static constexpr std::uint64_t kArray = 0x10000;
  static constexpr std::uint64_t kOther = 0x20000;

  void SetUp() override {
    ManagedFixture::SetUp();
    allocations = {{kArray, kArray}, {kArray + 16, kArray}, {kOther, kOther}};
    host_words = {};
    host_is_unified = host_is_concurrent = false;
    driver().cuDeviceGetAttribute = [](int* value, CUdevice_attribute attribute, CUdevice) {
      *value =
          attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS && !host_is_concurrent ? 0 : 1;
      return CUDA_SUCCESS;
    };
    driver().cuPointerGetAttribute = [](void* data, CUpointer_attribute, CUdeviceptr address) {
      const auto known = allocations.find(address);
      if (known == allocations.end()) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = known->second;
      return CUDA_SUCCESS;
    };
    driver().cuPointerGetAttributes = [](unsigned, CUpointer_attribute*, void** data,
                                         CUdeviceptr address) {
      const auto base = reinterpret_cast<CUdeviceptr>(host_words.data());
      const bool is_host = address - base < sizeof host_words;
      const unsigned type = host_is_unified ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      *static_cast<unsigned*>(data[0]) = is_host ? type : 0;
      *static_cast<void**>(data[1]) =
          is_host && !host_is_unified ? reinterpret_cast<void*>(address) : nullptr;
      *static_cast<CUdeviceptr*>(data[2]) = is_host ? base : 0;
      *static_cast<std::size_t*>(data[3]) = is_host ? sizeof host_words : 0;
      *static_cast<unsigned*>(data[4]) = is_host && host_is_unified ? 1 : 0;
      *static_cast<int*>(data[5]) = 0;
      return CUDA_SUCCESS;
    };
    arrays_.emplace(ContextRegistry::managed()->residency());
  }

  bool note(const Addresses& arrays, const Addresses& named) {
    return arrays_->note_launch(arrays, named);
  }
  [[nodiscard]] Addresses behind(std::uint64_t array, Age age = Age::kNew) const {
    WordList words;
    arrays_->collect(array, age, words);
    return {words.words().begin(), words.words().end()};
  }
  [[nodiscard]] Addresses in_host(std::uint64_t array) const {
    WordList words;
    arrays_->collect_from_host(array, words);
    return {words.words().begin(), words.words().end()};
  }

  std::optional<PointerArrays> arrays_;
};

TEST_F(PointerArraysTest, HasWhatALaunchNamesBehindItsArrays) {
  EXPECT_FALSE(arrays_->any());
  ASSERT_TRUE(note({kArray, kOther}, {buffer_ + 64, other_, buffer_}));
  EXPECT_TRUE(arrays_->any());
  EXPECT_THAT(behind(kArray), UnorderedElementsAre(buffer_, other_));
  EXPECT_THAT(behind(kOther), UnorderedElementsAre(buffer_, other_));
  EXPECT_THAT(behind(kArray + 8), IsEmpty());
}

TEST_F(PointerArraysTest, KnowsNothingOfArraysWithoutBuffers) {
  ASSERT_TRUE(note({kArray}, {}));
  EXPECT_FALSE(arrays_->any());
}

TEST_F(PointerArraysTest, HasWhatIsBehindOneArrayBehindThoseOfTheSameLaunch) {
  ASSERT_TRUE(note({kArray}, {buffer_}));
  ASSERT_TRUE(note({kOther, kArray}, {}));
  EXPECT_THAT(behind(kOther), ElementsAre(buffer_));
}

// An array that a program keeps is filled for each layer.
TEST_F(PointerArraysTest, TellsWhatAnArrayWasFilledWithLastFromWhatItHadBefore) {
  ASSERT_TRUE(note({kArray}, {buffer_}));
  ASSERT_TRUE(note({kArray}, {other_}));
  EXPECT_THAT(behind(kArray), ElementsAre(other_));
  EXPECT_THAT(behind(kArray, Age::kOld), ElementsAre(buffer_));
  ASSERT_TRUE(note({kOther, kArray}, {}));
  EXPECT_THAT(behind(kOther), ElementsAre(other_)) << "it was read";
  EXPECT_THAT(behind(kOther, Age::kOld), ElementsAre(buffer_));
  ASSERT_TRUE(note({kArray}, {buffer_, other_}));
  EXPECT_THAT(behind(kArray, Age::kOld), IsEmpty());
}

TEST_F(PointerArraysTest, LosesNothingThatTwoThreadsNoteAtOnce) {
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    const auto notes = [&](std::uint64_t named) {
      return std::thread([this, named] { EXPECT_TRUE(note({kArray}, {named})); });
    };
    std::thread first = notes(buffer_);
    std::thread second = notes(other_);
    first.join();
    second.join();
    Addresses all = behind(kArray);
    const Addresses old = behind(kArray, Age::kOld);
    all.insert(all.end(), old.begin(), old.end());
    ASSERT_THAT(all, UnorderedElementsAre(buffer_, other_)) << round;
    arrays_->forget(kArray);
  }
}

TEST_F(PointerArraysTest, TellsWhereAnArrayMayBe) {
  EXPECT_FALSE(arrays_->may_be_at(kArray));
  ASSERT_TRUE(note({kArray, kOther}, {buffer_}));
  EXPECT_TRUE(arrays_->may_be_at(kArray));
  EXPECT_TRUE(arrays_->may_be_at(kOther));
  EXPECT_FALSE(arrays_->may_be_at(kArray - 8));
  EXPECT_FALSE(arrays_->may_be_at(kArray + 24));
}

TEST_F(PointerArraysTest, ForgetsAllArraysOfAnAllocationThatIsFreed) {
  ASSERT_TRUE(note({kArray, kArray + 16}, {buffer_}));
  ASSERT_TRUE(note({kOther}, {other_}));
  arrays_->forget(kArray);
  EXPECT_THAT(behind(kArray), IsEmpty());
  EXPECT_THAT(behind(kArray + 16), IsEmpty());
  EXPECT_THAT(behind(kOther), ElementsAre(other_));
  arrays_->forget(kOther);
  EXPECT_FALSE(arrays_->any());
  EXPECT_FALSE(arrays_->may_be_at(kOther));
}

TEST_F(PointerArraysTest, ForgetsBuffersThatAreFreed) {
  ASSERT_TRUE(note({kArray}, {buffer_, other_}));
  ASSERT_EQ(hook::cuMemFree_v2(other_), CUDA_SUCCESS);
  EXPECT_THAT(behind(kArray), ElementsAre(buffer_));
}

TEST_F(PointerArraysTest, ReadsArraysInHostMemory) {
  host_words[1] = buffer_;
  host_words[3] = other_ + 8;
  host_words[5] = buffer_ - 1;  // not a buffer's
  const auto array = reinterpret_cast<std::uint64_t>(host_words.data());
  EXPECT_THAT(in_host(array), ElementsAre(buffer_, other_ + 8));
  EXPECT_THAT(in_host(array + 16), ElementsAre(other_ + 8));
  EXPECT_THAT(in_host(array + sizeof host_words), IsEmpty());
  EXPECT_THAT(in_host(kArray), IsEmpty());
}

TEST_F(PointerArraysTest, ReadsArraysInUnifiedMemoryThatTheHostCanReadBesideTheDevice) {
  host_words[1] = buffer_;
  host_is_unified = true;
  const auto array = reinterpret_cast<std::uint64_t>(host_words.data());
  EXPECT_THAT(in_host(array), IsEmpty()) << "a kernel that runs may have it";
  host_is_concurrent = true;
  EXPECT_THAT(in_host(array), ElementsAre(buffer_));
}

/// The hooks over two arrays, which are pass-through memory.
class PointerArrayHooksTest : public PointerArraysTest {
 protected:
  void configure(Configuration& configuration) override {
    configuration.policy = PolicyKind::kNaive;
    configuration.gpu_mem = SizeSpec::of_bytes(64_MiB);
    configuration.headroom = SizeSpec::of_bytes(2_MiB);
  }
  void SetUp() override {
    PointerArraysTest::SetUp();
    driver().cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
    driver().cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
  }
  static PointerArrays& arrays() { return ContextRegistry::managed()->pointer_arrays(); }
};

TEST_F(PointerArrayHooksTest, ForgetWithTheMemoryOfAnArray) {
  for (const bool in_order : {false, true}) {
    const std::array<std::uint64_t, 1> one{kArray};
    const std::array<std::uint64_t, 1> named{buffer_};
    ASSERT_TRUE(arrays().note_launch(one, named));
    ASSERT_TRUE(arrays().any());
    EXPECT_EQ(in_order ? hook::cuMemFreeAsync(kArray, nullptr) : hook::cuMemFree_v2(kArray),
              CUDA_SUCCESS);
    EXPECT_FALSE(arrays().any()) << in_order;
  }
}

// Were null an array, all that was ever behind one would be behind each kernel's that lacks one.
TEST_F(PointerArrayHooksTest, KnowNoArrayAtNull) {
  KernelLayout layout{};
  for (int i = 0; i < 2; ++i) append_parameter(layout, sizeof(CUdeviceptr));
  layout.arrays = {0};
  layout.has_more = true;
  CUdeviceptr array = 0;
  CUdeviceptr named = buffer_;
  void* parameters[] = {&array, &named};
  WordList words;
  (void)add_launch_words(*ContextRegistry::managed(), &layout, parameters, nullptr, {1, 1}, words);
  EXPECT_FALSE(arrays().any());
  array = kArray;
  (void)add_launch_words(*ContextRegistry::managed(), &layout, parameters, nullptr, {1, 1}, words);
  EXPECT_TRUE(arrays().any());
}

// Host memory is read at each launch, and nobody says when it is freed.
TEST_F(PointerArrayHooksTest, KeepNoArrayInHostMemory) {
  KernelLayout layout{};
  for (int i = 0; i < 2; ++i) append_parameter(layout, sizeof(CUdeviceptr));
  layout.arrays = {0};
  layout.has_more = true;
  host_words[0] = other_;
  auto array = reinterpret_cast<CUdeviceptr>(host_words.data());
  CUdeviceptr named = buffer_;
  void* parameters[] = {&array, &named};
  WordList words;
  const std::size_t certain =
      add_launch_words(*ContextRegistry::managed(), &layout, parameters, nullptr, {1, 1}, words);
  EXPECT_THAT(words.words(), ElementsAre(buffer_, other_));
  EXPECT_EQ(certain, 2U);
  EXPECT_FALSE(arrays().any());
}

// A launch that needs too much of it is refused, as if it had named it.
TEST_F(PointerArrayHooksTest, NameForCertainWhatIsBehindAParameter) {
  const std::array<std::uint64_t, 1> one{kArray};
  const std::array<std::uint64_t, 1> before{buffer_};
  const std::array<std::uint64_t, 1> last{other_};
  ASSERT_TRUE(arrays().note_launch(one, before));
  ASSERT_TRUE(arrays().note_launch(one, last));
  KernelLayout layout{};
  append_parameter(layout, sizeof(CUdeviceptr));
  append_parameter(layout, 2 * sizeof(CUdeviceptr), nullptr, /*is_pytorchs=*/true);
  CUdeviceptr array = kArray;
  CUdeviceptr in_struct[] = {0, 0};
  void* parameters[] = {&array, in_struct};
  WordList words;
  EXPECT_EQ(add_words_and_arrays(*ContextRegistry::managed(), &layout, parameters, nullptr, {1, 1},
                                 words),
            1U);
  EXPECT_THAT(words.words(), ElementsAre(other_, buffer_));
  array = 0;
  in_struct[1] = kArray;
  WordList uncertain;
  EXPECT_EQ(add_words_and_arrays(*ContextRegistry::managed(), &layout, parameters, nullptr, {1, 1},
                                 uncertain),
            0U);
  EXPECT_THAT(uncertain.words(), ElementsAre(other_, buffer_));
}

TEST_F(PointerArrayHooksTest, ForgetWithAManagedBufferThatHoldsAnArray) {
  const CUdeviceptr holder = allocate();
  const std::array<std::uint64_t, 1> one{holder + 64};
  const std::array<std::uint64_t, 1> named{buffer_};
  ASSERT_TRUE(arrays().note_launch(one, named));
  EXPECT_EQ(hook::cuMemFree_v2(holder), CUDA_SUCCESS);
  EXPECT_FALSE(arrays().any());
}

}  // namespace
}  // namespace superpipe
