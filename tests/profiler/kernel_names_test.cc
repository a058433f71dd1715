#include "profiler/kernel_names.h"

#include <gtest/gtest.h>

namespace superpipe {
namespace {

TEST(ShortKernelName, LeavesOutLongTemplateArgumentsAndParameters) {
  EXPECT_EQ(
      short_kernel_name("void at::native::elementwise_kernel<128, 4, f<g(int)::{lambda()#1}>, 12>"
                        "(int, f<g(int)::{lambda()#1}> const&)"),
      "void at::native::elementwise_kernel<...>(...)");
}

TEST(ShortKernelName, KeepsWhatIsShort) {
  for (const char* const name :
       {"accumulate", "", "add(float*, int)", "scale<float, 4>(float*)",
        "(anonymous namespace)::touch(int*)", "<CUDA graph of 12 nodes>", "a->b", "broken(int"}) {
    EXPECT_EQ(short_kernel_name(name), name);
  }
}

TEST(ShortKernelName, EndsAfterAHundredCharacters) {
  const std::string name(300, 'k');
  EXPECT_EQ(short_kernel_name(name), std::string(97, 'k') + "...");
}

}  // namespace
}  // namespace superpipe
