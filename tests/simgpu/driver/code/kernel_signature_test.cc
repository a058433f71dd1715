#include "tools/simgpu/driver/code/kernel_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KernelSignature, ReadsTheMangledName) {
  const KernelSignature copy = kernel_signature("_Z4copyIdEvPT_PKS0_m");
  EXPECT_EQ(copy.name, "void copy<double>");
  EXPECT_THAT(copy.parameters, ElementsAre("double*", "double const*", "unsigned long"));
  EXPECT_THAT(kernel_signature("_Z5scalePff").parameters, ElementsAre("float*", "float"));
}

// Commas and parentheses of a function type.
TEST(KernelSignature, SplitsNoTypeInTwo) {
  EXPECT_THAT(kernel_signature("_Z5applyPFviPKfEPi").parameters,
              ElementsAre("void (*)(int, float const*)", "int*"));
}

TEST(KernelSignature, IsEmptyWithoutOne) {
  EXPECT_THAT(kernel_signature("add").parameters, IsEmpty());
  EXPECT_THAT(kernel_signature("").parameters, IsEmpty());
  EXPECT_THAT(kernel_signature("_Znonsense").parameters, IsEmpty());
}

TEST(IsPointerToConst, LooksAtWhatThePointerPointsTo) {
  EXPECT_TRUE(is_pointer_to_const("double const*"));
  EXPECT_TRUE(is_pointer_to_const("int const volatile*"));
  EXPECT_TRUE(is_pointer_to_const("float const* __restrict"));
  EXPECT_FALSE(is_pointer_to_const("double*"));
  EXPECT_FALSE(is_pointer_to_const("S<float const*>"));
  EXPECT_FALSE(is_pointer_to_const("float const"));
  EXPECT_TRUE(is_pointer_to_const("float const* const*")) << "a pointer to const pointers";
}

}  // namespace
}  // namespace simgpu
