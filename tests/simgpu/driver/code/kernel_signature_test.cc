#include "tools/simgpu/driver/code/kernel_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ConstPointerParameters, ReadsTheMangledName) {
  // void copy<double>(double*, double const*, unsigned long)
  EXPECT_THAT(const_pointer_parameters("_Z4copyIdEvPT_PKS0_m"), ElementsAre(false, true, false));
  // scale(float*, float)
  EXPECT_THAT(const_pointer_parameters("_Z5scalePff"), ElementsAre(false, false));
  // f(float const* const*, int const volatile*, S<float const*>): the first points to no const
  EXPECT_THAT(const_pointer_parameters("_Z1fPPKfPVKi1SIS0_E"), ElementsAre(false, true, false));
  // apply(void (*)(int, float const*), int*): commas and parentheses of a function type
  EXPECT_THAT(const_pointer_parameters("_Z5applyPFviPKfEPi"), ElementsAre(false, false));
}

TEST(ConstPointerParameters, IsEmptyWithoutASignature) {
  EXPECT_THAT(const_pointer_parameters("add"), IsEmpty());
  EXPECT_THAT(const_pointer_parameters(""), IsEmpty());
  EXPECT_THAT(const_pointer_parameters("_Znonsense"), IsEmpty());
}

}  // namespace
}  // namespace simgpu
