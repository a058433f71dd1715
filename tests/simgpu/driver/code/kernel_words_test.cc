// Which words of a launch are live, and what the kernel does with them. The names and the sizes of
// parameters are those of PyTorch 2.11's kernels.
#include "tools/simgpu/driver/code/kernel_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Where addresses lie in these tests; everything else is a number.
constexpr std::uint64_t kDevice = std::uint64_t{1} << 40;

bool is_address(std::uint64_t word) { return word >= kDevice && word < 2 * kDevice; }

/// A launch of a kernel whose parameters have the given sizes.
class Launch {
 public:
  Launch(const std::string& mangled, const std::vector<std::size_t>& sizes) {
    std::size_t offset = 0;
    for (const std::size_t size : sizes) {
      const std::size_t alignment = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : 1;
      offset = (offset + alignment - 1) / alignment * alignment;
      layout_.push_back({offset, size});
      offset += size;
    }
    buffer_.resize(offset);
    words_.emplace(mangled, layout_);
  }

  /// Puts an address at `offset` of parameter `index`: kDevice and a number of its own.
  void put(std::size_t index, std::size_t offset, std::uint64_t number) {
    const std::uint64_t address = kDevice + number;
    std::memcpy(buffer_.data() + layout_[index].offset + offset, &address, sizeof(address));
  }
  void put_byte(std::size_t index, std::size_t offset, unsigned char value) {
    buffer_[layout_[index].offset + offset] = std::byte{value};
  }

  /// The numbers of the live words, "w" behind those that are written, "rw" if read as well, "?"
  /// if they are only possible operands.
  [[nodiscard]] std::vector<std::string> live(const std::array<unsigned, 3>& grid = {1, 1,
                                                                                     1}) const {
    std::vector<std::string> found;
    for (const LiveWord& word : words_->live(buffer_, grid, is_address)) {
      constexpr std::array<const char*, 4> kMarks = {"", "w", "rw", "?"};
      found.push_back(std::to_string(word.value - kDevice) +
                      kMarks[static_cast<std::size_t>(word.role)]);
    }
    return found;
  }
  /// The types of what is written, in the order of live().
  [[nodiscard]] std::vector<ResultType> types() const {
    std::vector<ResultType> found;
    for (const LiveWord& word : words_->live(buffer_, {1, 1, 1}, is_address)) {
      found.push_back(word.type);
    }
    return found;
  }

 private:
  std::vector<ParameterLayout> layout_;
  std::vector<std::byte> buffer_;
  std::optional<KernelWords> words_;
};

TEST(KernelWords, ReadPointersToConstAndWriteOthers) {
  Launch launch("_Z4copyIdEvPT_PKS0_m", {8, 8, 8});  // copy<double>(double*, double const*, size_t)
  launch.put(0, 0, 1);
  launch.put(1, 0, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1rw", "2"));
  EXPECT_EQ(launch.types()[0], ResultType::kDouble);
}

TEST(KernelWords, OfAKernelWithoutASignatureAreAllPossibleAndTheLastIsWritten) {
  Launch launch("triton_poi_fused_add_0", {8, 8, 8, 4});
  launch.put(0, 0, 1);
  launch.put(1, 0, 2);
  launch.put(2, 0, 3);
  EXPECT_THAT(launch.live(), ElementsAre("1?", "2?", "3rw"));
  EXPECT_EQ(launch.types()[2], ResultType::kSmallIntegers);
}

TEST(KernelWords, OfAnUnknownStructAreAllThatLookLikeAddresses) {
  Launch launch("_Z1f1S", {40});  // f(S)
  launch.put(0, 0, 1);
  launch.put(0, 12, 2);  // at no multiple of 8
  launch.put(0, 32, 3);
  EXPECT_THAT(launch.live(), ElementsAre("1rw", "3rw"));
}

TEST(KernelWords, LieInOneParameter) {
  Launch launch("_Z1fii", {4, 4});  // f(int, int)
  launch.put(0, 0, 1);
  EXPECT_THAT(launch.live(), IsEmpty());
}

TEST(KernelWords, OfAnElementwiseKernelAreItsDataAndTheFirstIsWritten) {
  // vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, std::array<char*, 3>>(int, functor,
  // data)
  Launch launch(
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
      "St5arrayIPcLm3EEEEviT0_T1_",
      {4, 4, 24});
  for (std::uint64_t i = 0; i < 3; ++i) launch.put(2, 8 * i, i);
  EXPECT_THAT(launch.live(), ElementsAre("0w", "1", "2"));
  EXPECT_EQ(launch.types()[0], ResultType::kFloat);
}

TEST(KernelWords, OfAStridedElementwiseKernelLieBehindItsOffsetCalculator) {
  // elementwise_kernel<128, 2, gpu_kernel_impl_nocast<direct_copy_kernel_cuda...>>(int, lambda)
  Launch launch(
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
      "copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_"
      "EEviT1_",
      {4, 536});
  launch.put(1, 48, 7);
  launch.put(1, 112, 8);
  launch.put(1, 504, 1);
  launch.put(1, 512, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1w", "2")) << "strides that are not set are no operands";
}

TEST(KernelWords, OfAProgramsFunctorArePossible) {
  // The same kernel with a functor of 24 bytes, which may have captured a pointer.
  Launch launch(
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
      "copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_"
      "EEviT1_",
      {4, 552});
  launch.put(1, 400, 7);
  launch.put(1, 504, 1);
  launch.put(1, 528, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1w", "2?"));
}

TEST(KernelWords, OfAnIndexCopyLieBehindItsOffsetCalculatorAndAPartOfTheFirstIsWritten) {
  Launch launch(
      "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_22index_copy_kernel_implINS0_"
      "10OpaqueTypeILi4EEEEEvRNS_14TensorIteratorElllEUliE_EEvlT1_",
      {8, 648});
  launch.put(1, 416, 7);
  launch.put(1, 608, 1);
  launch.put(1, 616, 2);
  launch.put(1, 624, 3);
  EXPECT_THAT(launch.live(), ElementsAre("1rw", "2", "3"));
}

TEST(KernelWords, OfAReductionAreInItsLast64Bytes) {
  Launch launch(
      "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_"
      "functorIfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4ELi4EEEEEvT1_",
      {1048});
  launch.put(0, 160, 7);
  launch.put(0, 984, 1);
  launch.put(0, 992, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1", "2w"));
}

TEST(KernelWords, OfAConcatenationAreAsManyAsTheGridHasRows) {
  Launch launch(
      "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c30CatArrayBatchedCopy_"
      "vectorizedINS1_10OpaqueTypeILj4EEEjLi3ELi128ELi1ELi16ELi4EEEvPcNS1_"
      "25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_",
      {8, 2720, 32, 4, 4});
  launch.put(0, 0, 1);
  for (std::uint64_t i = 0; i < 4; ++i) launch.put(1, 8 * i, 10 + i);
  EXPECT_THAT(launch.live({2, 3, 1}), ElementsAre("1rw", "10", "11", "12"));
}

TEST(KernelWords, OfAMultiTensorLaunchAreAsManyAsItsBlocksName) {
  // BinaryOpListAlphaFunctor<float, 2, 2, 0>: two lists, of which the first is written.
  Launch launch(
      "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_a"
      "pply_kernelINS1_18TensorListMetadataILi2EEENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0"
      "EEEJSt4plusIfEfEEEvT_T0_DpT1_",
      {3144, 1, 1, 4});
  for (std::uint64_t i = 0; i < 4; ++i) {
    launch.put(0, 8 * i, 10 + i);
    launch.put(0, 512 + 8 * i, 20 + i);
  }
  for (std::size_t block = 0; block < 6; ++block) {
    launch.put_byte(0, 1536 + block, static_cast<unsigned char>(block / 2));
  }
  launch.put_byte(0, 1536 + 6, 3);  // of an earlier launch
  EXPECT_THAT(launch.live({6, 1, 1}), ElementsAre("10rw", "11rw", "12rw", "20", "21", "22"));
}

// From PyTorch 2.12 on: up to 448 tensors of two lists, whose numbers are of two bytes.
TEST(KernelWords, OfALargeMultiTensorLaunchAreAsManyAsItsBlocksName) {
  Launch launch(
      "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_a"
      "pply_kernelINS1_18TensorListMetadataILi2EEENS1_24BinaryOpListAlphaFunctorIfLi2ELi2ELi0"
      "EEEJSt4plusIfEfEEEvT_T0_DpT1_",
      {24200, 1, 1, 4});
  constexpr std::uint64_t kTensors = 300;
  for (std::uint64_t i = 0; i < kTensors; ++i) {
    launch.put(0, 8 * i, 10 + i);
    launch.put(0, 3584 + 8 * i, 1000 + i);
    launch.put_byte(0, 10752 + 2 * i, static_cast<unsigned char>(i % 256));
    launch.put_byte(0, 10752 + 2 * i + 1, static_cast<unsigned char>(i / 256));
  }
  launch.put(0, 8 * kTensors, 7);  // of an earlier launch
  const auto words = launch.live({kTensors, 1, 1});
  ASSERT_EQ(words.size(), 2 * kTensors);
  EXPECT_EQ(words[0], "10rw");
  EXPECT_EQ(words[kTensors - 1], "309rw");
  EXPECT_EQ(words[kTensors], "1000");
  EXPECT_EQ(words.back(), "1299");
}

TEST(KernelWords, OfANormAreReadAndItsResultIsWritten) {
  Launch launch(
      "_ZN2at6native51_GLOBAL__N__d9d46141_18_ForeachReduceOp_cu_b83ec48c25multi_tensor_apply_"
      "kernelINS1_18TensorListMetadataILi1EEENS0_13LpNormFunctorIfLNS0_8NormTypeE1EfLi1ELi1ELi0EEEJ"
      "PfiEEEvT_T0_DpT1_",
      {3368, 1, 8, 4});
  launch.put(0, 0, 1);
  launch.put(2, 0, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1", "2rw"));
}

// Word 56 is a number of 32 bits and, beside it, what the stack had there: half of an address.
TEST(KernelWords, OfAnAttentionLeaveOutTheNumberBetweenOperandsAndResults) {
  Launch launch(
      "_Z39fmha_cutlassF_f32_aligned_64x64_rf_"
      "sm80N22PyTorchMemEffAttention15AttentionKernelIfN7cutl"
      "ass4arch4Sm80ELb1ELi64ELi64ELi64ELb1ELb1EE6ParamsE",
      {272});
  for (std::uint64_t i = 0; i < 3; ++i) launch.put(0, 8 * i, 10 + i);
  launch.put(0, 48, 13);
  launch.put(0, 56, 7);
  launch.put(0, 64, 20);
  EXPECT_THAT(launch.live(), ElementsAre("10", "11", "12", "13", "20w"));
}

// Behind the three operands lie strides and numbers of 32 bits, one of which has padding.
TEST(KernelWords, OfFlashAttentionLeaveOutStridesAndNumbers) {
  Launch launch("_ZN13pytorch_flash16flash_fwd_kernelIiEEvNS_16Flash_fwd_paramsE", {472});
  for (std::uint64_t i = 0; i < 3; ++i) launch.put(0, 8 * i, 10 + i);
  launch.put(0, 24, 7);
  launch.put(0, 104, 7);
  launch.put(0, 112, 20);
  EXPECT_THAT(launch.live(), ElementsAre("10", "11", "12", "20w"));
}

TEST(KernelWords, OfATensorInfoAreOneAndItsTypeTellsTheRole) {
  Launch launch(
      "_ZN2at6native44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb21indexSelectSmallIndexIfljLi2ELi"
      "2ELin2EEEvNS_4cuda6detail10TensorInfoIT_T1_EENS5_IKS6_S7_EENS5_IKT0_S7_EEiiS7_l",
      {216, 216, 216, 4, 4, 4, 8});
  for (std::size_t i = 0; i < 3; ++i) launch.put(i, 0, i);
  launch.put(2, 160, 7);
  EXPECT_THAT(launch.live(), ElementsAre("0rw", "1", "2"));
  EXPECT_THAT(launch.types(),
              ElementsAre(ResultType::kFloat, ResultType::kFloat, ResultType::kSmallIntegers))
      << "values, values and indices";
}

// Another version of the framework has other structs.
TEST(KernelWords, OfAStructOfAnotherSizeAreAllThatLookLikeAddresses) {
  Launch launch(
      "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9896c25multi_tensor_"
      "apply_kernelINS1_18TensorListMetadataILi1EEENS1_21BinaryOpScalarFunctorIfLi1ELi1ELi0EEEJSt4p"
      "lusIfEfEEEvT_T0_DpT1_",
      {8000, 1, 1, 4});
  launch.put(0, 0, 1);
  launch.put(0, 7000, 2);
  EXPECT_THAT(launch.live(), ElementsAre("1rw", "2rw"));
}

}  // namespace
}  // namespace simgpu
