// Kernels of frameworks that simgpu computes: each on memory of the host.
#include "tools/simgpu/driver/code/framework_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;

constexpr const char* kRepeat = "_ZN15stream_executor3gpu22RepeatBufferKernelImplEPcll";
constexpr const char* kRedZone = "_ZN15stream_executor3gpu26RedzoneAllocatorKernelImplEPhhmPj";
constexpr const char* kComparison =
    "_ZN15stream_executor3gpu17xla_fp_comparisonIN5Eigen4halfEEEvPT_S5_fmPi";

/// TensorFlow's concat_fixed_kernel of that (mangled) type and extents of `extent`.
std::string concatenation(const std::string& type, const std::string& extent = "i") {
  return "_ZN10tensorflow12_GLOBAL__N_119concat_fixed_kernelI" + type + extent +
         "EEvNS_20GpuDeviceArrayStructIPKT_Li8EEEiiiPS3_";
}

/// Runs the kernel with these parameters.
template <typename... Parameters>
void run_kernel(const std::string& name, Parameters... parameters) {
  const SimgpuKernel* const kernel = framework_kernel(name);
  ASSERT_THAT(kernel, NotNull()) << name;
  const std::array<void*, sizeof...(Parameters)> arguments{&parameters...};
  const std::array<std::size_t, sizeof...(Parameters)> sizes{sizeof(parameters)...};
  SimgpuLaunch launch{};
  launch.name = name.c_str();
  launch.arguments = arguments.data();
  launch.argument_sizes = sizes.data();
  launch.argument_count = arguments.size();
  kernel->function(&launch);
}

TEST(FrameworkKernel, RepeatsTheBeginningOfABuffer) {
  std::vector<char> buffer{'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 'z'};
  run_kernel(kRepeat, buffer.data(), std::int64_t{3}, std::int64_t{10});
  EXPECT_EQ(std::string(buffer.begin(), buffer.end()), "abcabcabcaz");
}

TEST(FrameworkKernel, CountsTheChangedBytesOfARedZone) {
  std::vector<unsigned char> zone(1000, 0xab);
  std::uint32_t count = 0;
  const auto check = [&] {
    run_kernel(kRedZone, zone.data(), static_cast<unsigned char>(0xab), std::uint64_t{zone.size()},
               &count);
  };
  check();
  EXPECT_EQ(count, 0U);
  zone.front() = zone[500] = zone.back() = 0;
  check();
  EXPECT_EQ(count, 3U);
  check();
  EXPECT_EQ(count, 6U) << "zones of one buffer share the count";
}

// What a mixer writes depends on its kernel's name, so that ways to compute differ.
TEST(FrameworkKernel, FindsNoDifferenceOfResults) {
  std::uint32_t one = 1;
  std::uint32_t other = 2;
  std::int32_t count = 0;
  run_kernel(kComparison, &one, &other, 0.1F, std::uint64_t{1}, &count);
  EXPECT_EQ(count, 0);
}

struct List {
  std::int32_t count;
  std::array<const void*, 8> in_place;
  const void* const* elsewhere;
};

TEST(FrameworkKernel, PutsMatricesSideBySide) {
  const std::array<std::int16_t, 4> left{1, 2, 3, 4};
  const std::array<std::int16_t, 4> right{5, 6, 7, 8};
  std::array<std::int16_t, 9> result{};
  run_kernel(concatenation("s"), List{2, {left.data(), right.data()}, nullptr}, 2, 2, 4,
             result.data());
  EXPECT_THAT(result, ElementsAre(1, 2, 5, 6, 3, 4, 7, 8, 0));
}

TEST(FrameworkKernel, PutsManyNumbersSideBySide) {
  std::array<bool, 12> values{};
  values[3] = values[11] = true;
  std::array<const void*, 12> pointers{};
  for (std::size_t i = 0; i < values.size(); ++i) pointers.at(i) = &values.at(i);
  std::array<bool, 12> result{};
  run_kernel(concatenation("b"), List{12, {}, pointers.data()}, 1, 1, 12, result.data());
  EXPECT_EQ(result, values);
}

TEST(FrameworkKernel, IsNoneForOtherNames) {
  for (const std::string& name :
       {std::string("add"), std::string(""), std::string("_ZN15stream_executor3gpu"),
        concatenation("b", "l"), concatenation("N5Eigen4halfE")}) {
    EXPECT_THAT(framework_kernel(name), IsNull()) << name;
  }
}

}  // namespace
}  // namespace simgpu
