#include "interposer/kernels/kernel_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParameterTypes, AreThoseOfTheFunctionAndNotOfItsTemplateArguments) {
  // void f<S<int, long>, void (*)(int, char)>(S<int, long>, double const*, void (*)(int, char))
  EXPECT_THAT(parameter_types("_Z1fI1SIilEPFvicEEvT_PKdT0_"),
              ElementsAre("S<int, long>", "double const*", "void (*)(int, char)"));
}

TEST(ParameterTypes, AreUnknownOfNamesThatTellNone) {
  EXPECT_THAT(parameter_types("triton_poi_fused_add_0"), IsEmpty());
  EXPECT_THAT(parameter_types("_Z1"), IsEmpty());
  EXPECT_THAT(parameter_types(""), IsEmpty());
  EXPECT_THAT(parameter_types("_ZN1a1bE"), IsEmpty()) << "a variable";
}

TEST(ParameterTypes, OfACloneAreThoseOfItsOrigin) {
  EXPECT_THAT(parameter_types("_Z1fPKfi.clone.0"), ElementsAre("float const*", "int"));
}

constexpr char kTensorList[] = "at::native::(anonymous namespace)::TensorListMetadata<2>";

TEST(KernelNames, TellWhetherAKernelIsPyTorchs) {
  for (const char* name :
       {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE",
        "_ZN13pytorch_flash16flash_fwd_kernelIE",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(N22PyTorchMemEffAttention15AttentionKernel"}) {
    EXPECT_TRUE(is_of_pytorch(name)) << name;
  }
  for (const char* name : {"_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorE", "saxpy",
                           "_ZN3cub11DeviceReduceE", ""}) {
    EXPECT_FALSE(is_of_pytorch(name)) << name;
  }
}

TEST(KnownStructs, AreKnownByTheirTypeAndSize) {
  const KnownStruct* const known = known_struct(kTensorList, 3144);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->block_to_tensor, 1536U);
  EXPECT_EQ(known_struct(kTensorList, 3136), nullptr);
  EXPECT_EQ(known_struct("apex::TensorListMetadata<2>", 3144), nullptr);
}

TEST(KnownStructs, AreThoseOfVersionsWithLargeArgumentsToo) {
  const KnownStruct* const known = known_struct(kTensorList, 24200);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->block_to_tensor, 10752U);
  EXPECT_EQ(known->index_bytes, 2U);
}

TEST(KnownStructs, AreKnownOfTheVersionsThatWereChecked) {
  for (const char* const version : {"2.9.0", "2.11.0+cu130", "2.15.0", "2.15.0a0+git1234"}) {
    EXPECT_TRUE(has_words_of_version(version)) << version;
  }
  for (const char* const version : {"", "2", "2.", "2.9", "2.8.1", "2.16.0", "3.9.0", "12.9.0"}) {
    EXPECT_FALSE(has_words_of_version(version)) << version;
  }
}

TEST(KnownStructs, HaveListsThatLieInThem) {
  const KnownStruct* const reduction = known_struct("at::native::ReduceOp<float>", 1048);
  ASSERT_NE(reduction, nullptr);
  for (std::size_t i = 0; i < reduction->list_count; ++i) {
    EXPECT_LE(KnownStruct::first_byte(reduction->lists[i], 1048) + 8, 1048U);
  }
  EXPECT_EQ(KnownStruct::first_byte(reduction->lists[2], 1048), 984U);
}

TEST(IsArrayOfPointers, LooksThroughQualifiers) {
  for (const char* const type : {"float**", "float const* const*", "void**", "char* __restrict*",
                                 "double const* const __restrict*", "int***"}) {
    EXPECT_TRUE(is_array_of_pointers(type)) << type;
    EXPECT_TRUE(is_pointer(type)) << type;
  }
}

TEST(IsArrayOfPointers, IsNoOtherPointer) {
  EXPECT_TRUE(is_pointer("float const*"));
  for (const char* const type : {"float*", "float const*", "long", "", "List<float**>", "int*&"}) {
    EXPECT_FALSE(is_array_of_pointers(type)) << type;
  }
  EXPECT_FALSE(is_pointer("List<float*>"));
}

}  // namespace
}  // namespace superpipe
