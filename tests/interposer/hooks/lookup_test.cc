#include "interposer/hooks/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::string symbol_of(const char* name, int version, bool per_thread = false) {
  const std::size_t function = function_of_entry_point(name, version, per_thread);
  return function == kNoFunction ? "none" : kDriverFunctionNames[function];
}

TEST(FunctionMap, FindsTheFunctionAtAnAddress) {
  char bodies[3];
  const void* const real[] = {&bodies[0], nullptr, &bodies[2]};
  const FunctionMap map(real, 3);
  EXPECT_THAT(map.functions_at(&bodies[0]), ElementsAre(0U));
  EXPECT_THAT(map.functions_at(&bodies[2]), ElementsAre(2U));
  EXPECT_THAT(map.functions_at(&bodies[1]), IsEmpty());
  EXPECT_THAT(map.functions_at(nullptr), IsEmpty());
}

TEST(FunctionMap, FindsAllNamesOfASharedBody) {
  char body;
  const void* const real[] = {&body, &body};
  EXPECT_THAT(FunctionMap(real, 2).functions_at(&body), UnorderedElementsAre(0U, 1U));
}

TEST(FunctionOfEntryPoint, TakesTheLatestAbiThatTheVersionAllows) {
  EXPECT_EQ(symbol_of("cuMemAlloc", 2000), "cuMemAlloc");
  EXPECT_EQ(symbol_of("cuMemAlloc", 3020), "cuMemAlloc_v2");
  EXPECT_EQ(symbol_of("cuMemAlloc", 12000), "cuMemAlloc_v2");
  EXPECT_EQ(symbol_of("cuGetProcAddress", 11030), "cuGetProcAddress");
  EXPECT_EQ(symbol_of("cuGetProcAddress", 12000), "cuGetProcAddress_v2");
}

TEST(FunctionOfEntryPoint, TakesThePerThreadVariantWhereThereIsOne) {
  EXPECT_EQ(symbol_of("cuLaunchKernel", 12000, true), "cuLaunchKernel_ptsz");
  EXPECT_EQ(symbol_of("cuMemcpyHtoD", 12000, true), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(symbol_of("cuMemAlloc", 12000, true), "cuMemAlloc_v2");
}

TEST(FunctionOfEntryPoint, HasNoneForUnknownNamesAndTooOldVersions) {
  EXPECT_EQ(symbol_of("cuMakeCoffee", 13000), "none");
  EXPECT_EQ(symbol_of("", 0), "none");
  EXPECT_EQ(symbol_of("cuMemAllocAsync", 5000), "none");
}

}  // namespace
}  // namespace superpipe
