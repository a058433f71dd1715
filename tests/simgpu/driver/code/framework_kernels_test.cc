// Kernels of frameworks that simgpu computes: each on memory of the host.
#include "tools/simgpu/driver/code/framework_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simgpu/driver/code/host_launch.h"

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
  run_on_host(framework_kernel(name), name, parameters...);
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

struct Begins {
  std::int32_t count;
  std::array<std::int32_t, 8> in_place;
  const std::int32_t* elsewhere;
};

TEST(FrameworkKernel, PutsMatricesOfUnequalWidthSideBySide) {
  const std::string name =
      "_ZN10tensorflow22concat_variable_kernelIfiLb1EEEvNS_20GpuDeviceArrayStructIPKT_Li8EEENS1_"
      "IT0_"
      "Li8EEES6_S6_PS2_";
  const std::array<float, 2> narrow{1, 2};
  const std::array<float, 4> wide{3, 4, 5, 6};
  std::array<float, 7> result{};
  run_kernel(name, List{2, {narrow.data(), wide.data()}, nullptr}, Begins{3, {0, 1, 3}, nullptr}, 2,
             3, result.data());
  EXPECT_THAT(result, ElementsAre(1, 3, 4, 2, 5, 6, 0));

  std::array<const void*, 9> pointers{};
  std::array<std::int32_t, 10> begins{};
  const std::array<float, 9> values{0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    pointers.at(i) = &values.at(i);
    begins.at(i + 1) = static_cast<std::int32_t>(i) + 1;
  }
  std::array<float, 9> many{};
  run_kernel(name, List{9, {}, pointers.data()}, Begins{10, {}, begins.data()}, 1, 9, many.data());
  EXPECT_EQ(many, values);
}

TEST(FrameworkKernel, MultipliesTheExtentsOfATensor) {
  struct Operation {};
  const std::array<std::int32_t, 3> few{3, 5, 7};
  std::int32_t product = 0;
  run_kernel(
      "_ZN10tensorflow7functor17BlockReduceKernelIPiS2_Li256ENS0_4ProdIiEEEEvT_T0_iT2_NSt15iterator"
      "_traitsIS5_E10value_typeE",
      few.data(), &product, 3, Operation{}, 2);
  EXPECT_EQ(product, 210);
  const std::array<std::int64_t, 2> large{std::int64_t{1} << 20, std::int64_t{1} << 20};
  std::int64_t large_product = 0;
  run_kernel(
      "_ZN10tensorflow7functor17BlockReduceKernelIPlS2_Li256ENS0_4ProdIlEEEEvT_T0_iT2_NSt15iterator"
      "_traitsIS5_E10value_typeE",
      large.data(), &large_product, 2, Operation{}, std::int64_t{1});
  EXPECT_EQ(large_product, std::int64_t{1} << 40);
}

/// A sum of CUB's in a version of it, of `types` (mangled).
std::string cub_name(const std::string& kernel, const std::string& types) {
  return "_ZN3cub32CUB_200805_SM___CUDA_ARCH_LIST__" + kernel +
         "INS0_6detail6reduce10policy_hubIijN4cuda3std3__44plusIvEEE10Policy1000E" + types;
}

TEST(FrameworkKernel, CountsTrueBooleans) {
  struct Operation {};
  constexpr const char* kSingleTile = "28DeviceReduceSingleTileKernel";
  // A mixer writes other bytes than 0 and 1.
  const std::array<std::uint8_t, 9> values{1, 0, 171, 1, 0, 0, 0, 15, 0};
  std::int32_t count = -1;
  run_kernel(cub_name(kSingleTile, "PKbPijS9_iiNS7_10__identityEEEvT0_T1_T2_T3_T4_T6_"),
             values.data(), &count, 9, Operation{}, 0, Operation{});
  EXPECT_EQ(count, 4);

  // By two kernels, the first of them of three blocks.
  std::array<std::int32_t, 4> sums{-1, -1, -1, -1};
  const std::string by_blocks =
      cub_name("18DeviceReduceKernel", "PKbjS9_iNS7_10__identityEEEvT0_PT3_T1_");
  const SimgpuKernel* const kernel = framework_kernel(by_blocks);
  ASSERT_THAT(kernel, NotNull());
  const std::uint8_t* input = values.data();
  std::int32_t* result = sums.data();
  std::uint32_t size = 9;
  const std::array<void*, 3> arguments{&input, &result, &size};
  const std::array<std::size_t, 3> sizes{sizeof(input), sizeof(result), sizeof(size)};
  SimgpuLaunch launch{};
  launch.grid[0] = 3;
  launch.arguments = arguments.data();
  launch.argument_sizes = sizes.data();
  kernel->function(&launch);
  count = -1;
  run_kernel(cub_name(kSingleTile, "PiSC_iS9_iiNS7_10__identityEEEvT0_T1_T2_T3_T4_T6_"),
             sums.data(), &count, 3, Operation{}, 0, Operation{});
  EXPECT_EQ(count, 4);
  EXPECT_EQ(sums[3], -1);
}

// PyTorch's nonzero has an iterator for the booleans, and counts in 64 bits.
TEST(FrameworkKernel, CountsTrueBooleansOfAnIterator) {
  struct Operation {};
  struct Iterator {
    const bool* values;
    Operation operation;
  };
  const std::string name =
      "_ZN14at_cuda_detail3cub6detail6reduce28DeviceReduceSingleTileKernelINS2_10policy_"
      "hubIiyN4cuda"
      "3std3__44plusIvEEE10Policy1000EN6thrust38_V_300200_SM_750_800_860_900_1000_120018transform_"
      "iteratorIN2at6native43_GLOBAL__N__a7e516da_10_Nonzero_cu_cba1aaa09NonZeroOpI";
  const std::string rest = "NSD_11use_defaultESM_EEPiyS9_iiNS7_8identityEEEvT0_T1_T2_T3_T4_T6_";
  const std::array<bool, 4> values{true, false, true, true};
  std::int32_t count = -1;
  run_kernel(name + "bEEPKb" + rest, Iterator{values.data(), {}}, &count, std::uint64_t{4},
             Operation{}, 0, Operation{});
  EXPECT_EQ(count, 3);
  EXPECT_THAT(framework_kernel(name + "fEEPKf" + rest), IsNull()) << "of floats";
}

TEST(FrameworkKernel, IsNoneForOtherNames) {
  for (const std::string& name :
       {std::string("add"), std::string(""), std::string("_ZN15stream_executor3gpu"),
        concatenation("b", "l"), concatenation("N5Eigen4halfE"),
        cub_name("18DeviceReduceKernel", "PKfjS9_fN"),
        cub_name("28DeviceReduceSingleTileKernel", "PlSC_iS9_lliN")}) {
    EXPECT_THAT(framework_kernel(name), IsNull()) << name;
  }
}

TEST(FrameworkKernel, ListsTheMatricesOfABatch) {
  std::vector<std::uint64_t> table(4, 7);
  run_kernel(
      "_ZN3jax4cuda58_GLOBAL__N__2c8c777e_25_make_batch_pointers_cu_cc_40c36aef28"
      "MakeBatchPointersAsyncKernelEPcPPvll",
      std::uint64_t{1000}, table.data(), std::int64_t{3}, std::int64_t{64});
  EXPECT_THAT(table, ElementsAre(9000, 9064, 9128, 7));
  run_kernel(
      "_ZN15stream_executor4cuda70_GLOBAL__N__9aa71532_37_make_batch_pointers_kernel_cuda_cu_cc_"
      "61a0092817MakeBatchPointersEPcmmPPv",
      std::uint64_t{1000}, std::uint64_t{8}, std::uint64_t{2}, table.data());
  EXPECT_THAT(table, ElementsAre(9000, 9008, 9128, 7));
}

}  // namespace
}  // namespace simgpu
