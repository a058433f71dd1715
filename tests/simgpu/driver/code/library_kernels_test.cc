// Kernels of simgpu's own libraries that its driver computes: each on memory of the host.
#include "tools/simgpu/driver/code/library_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tools/simgpu/batched_kernel.h"

namespace simgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;

template <std::size_t kCount>
void run_library_kernel(const char* name, std::array<std::uint64_t, kCount> words) {
  const SimgpuKernel* const kernel = library_kernel(name);
  ASSERT_THAT(kernel, NotNull());
  std::array<void*, kCount> arguments{};
  std::array<std::size_t, kCount> sizes{};
  for (std::size_t i = 0; i < kCount; ++i) arguments[i] = &words[i];
  sizes.fill(sizeof(std::uint64_t));
  SimgpuLaunch launch{};
  launch.arguments = arguments.data();
  launch.argument_sizes = sizes.data();
  launch.argument_count = kCount;
  kernel->function(&launch);
}

using Words = std::vector<std::uint32_t>;

/// What a routine that reads `first` and overwrites `overwritten` makes of the latter.
Words overwrite(Words first, Words overwritten) {
  const std::array<const void*, 1> of_first{first.data()};
  const std::array<const void*, 1> of_overwritten{overwritten.data()};
  run_library_kernel(kBatchedKernel, words_of(Batched{.first = of_first.data(),
                                                      .second = nullptr,
                                                      .overwritten = of_overwritten.data(),
                                                      .written = nullptr,
                                                      .first_bytes = 4 * first.size(),
                                                      .second_bytes = 0,
                                                      .overwritten_bytes = 12,
                                                      .written_bytes = 0,
                                                      .count = 1}));
  return overwritten;
}

TEST(LibraryKernel, WritesWhatFollowsFromAllThatItReads) {
  const Words result = overwrite({1, 2, 3}, {4, 5, 6, 77});
  EXPECT_EQ(overwrite({1, 2, 3}, {4, 5, 6, 77}), result);
  EXPECT_EQ(result[3], 77U) << "behind the matrix";
  EXPECT_NE(overwrite({1, 2, 4}, {4, 5, 6, 77}), result);
  EXPECT_NE(overwrite({1, 2, 3}, {4, 5, 7, 77}), result);
}

TEST(LibraryKernel, ReadsWhatIsSharedForEveryMatrix) {
  const auto write = [](const Words& one, const Words& other) {
    std::array<Words, 2> matrices{Words{7, 7, 7}, Words{7, 7, 7}};
    const std::array<const void*, 2> of_matrices{matrices[0].data(), matrices[1].data()};
    Batched batched;
    batched.written = of_matrices.data();
    batched.written_bytes = 8;
    batched.count = of_matrices.size();
    batched.shared = {ProductOperand{one.data(), 8}, ProductOperand{other.data(), 4}};
    run_library_kernel(kBatchedKernel, words_of(batched));
    return matrices;
  };
  const std::array<Words, 2> first = write({1, 2, 3}, {4, 5});
  EXPECT_EQ(write({1, 2, 9}, {4, 9}), first) << "behind what is shared";
  for (const std::array<Words, 2>& changed : {write({1, 9, 3}, {4, 5}), write({1, 2, 3}, {9, 5})}) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) EXPECT_NE(changed[i], first[i]);
  }
}

TEST(LibraryKernel, LeavesOutAddressesThatAMixerHasMadeUp) {
  const std::array<std::uint64_t, 3> table{17, 0x3f80'0000'3f80'0000, 0};
  run_library_kernel(kBatchedKernel, words_of(Batched{.first = table.data(),
                                                      .second = nullptr,
                                                      .overwritten = nullptr,
                                                      .written = table.data(),
                                                      .first_bytes = 64,
                                                      .second_bytes = 0,
                                                      .overwritten_bytes = 0,
                                                      .written_bytes = 64,
                                                      .count = table.size()}));
  EXPECT_THAT(table, ElementsAre(17, 0x3f80'0000'3f80'0000, 0));
}

TEST(LibraryKernel, NumbersTheRowsOfEachMatrix) {
  std::vector<std::int32_t> pivots(7, -1);
  const auto address = [](const auto& values) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(values.data()));
  };
  run_library_kernel<kPivotsWords>(kPivotsKernel, {address(pivots), 3, 2, 4});
  EXPECT_THAT(pivots, ElementsAre(1, 2, 3, 1, 2, 3, -1));
  std::vector<std::int64_t> long_pivots(3, -1);
  run_library_kernel<kPivotsWords>(kPivotsKernel, {address(long_pivots), 2, 1, 8});
  EXPECT_THAT(long_pivots, ElementsAre(1, 2, -1));
}

TEST(LibraryKernel, IsNoneOfAnotherName) {
  EXPECT_THAT(library_kernel("simgpu_batched"), IsNull());
}

}  // namespace
}  // namespace simgpu
