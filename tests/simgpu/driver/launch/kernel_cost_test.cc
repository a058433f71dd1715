#include "tools/simgpu/driver/launch/kernel_cost.h"

#include <gtest/gtest.h>

#include <vector>

namespace simgpu {
namespace {

constexpr double kMega = 1e6;

/// 100 GB/s, 10 TFLOP/s in 16 bits, 1 in 32, launches of 5 us.
Card small_card() {
  Card card;
  card.memory_gbps = 100;
  card.half_flops = 10e3;
  card.single_flops = 1e3;
  card.launch_ns = 5e3;
  return card;
}

double cost(const std::vector<std::uint64_t>& operands, double threads,
            std::optional<Product> product = std::nullopt) {
  return kernel_ns(small_card(), {operands, threads, product});
}

TEST(KernelCost, HasAFloor) {
  EXPECT_DOUBLE_EQ(cost({}, 1), 5e3);
  EXPECT_DOUBLE_EQ(cost({1000}, 1), 5e3);
}

TEST(KernelCost, CountsEachOperandOverTheBandwidthOfMemory) {
  const double enough = 100 * kMega / kBytesPerThread;
  EXPECT_DOUBLE_EQ(cost({100'000'000}, enough), 1 * kMega);
  EXPECT_DOUBLE_EQ(cost({100'000'000, 50'000'000, 50'000'000}, enough), 2 * kMega);
}

TEST(KernelCost, TakesNoMoreOfAnOperandThanItsThreadsCanTouch) {
  const double threads = 1e6;
  EXPECT_DOUBLE_EQ(cost({std::uint64_t{1} << 40}, threads), threads * kBytesPerThread / 100);
}

TEST(KernelCost, CountsTheArithmeticOfManyThreadsOnLittleMemory) {
  EXPECT_DOUBLE_EQ(cost({64}, 1e9), 1e9 * kFlopsPerThread / 1e3);
}

TEST(LinkTimes, AreThoseOfCopiesAndWhatWasMeasuredMore) {
  Card card = small_card();
  card.h2d_gbps = 55.5;
  card.d2h_gbps = 27.75;
  const LinkTimes times = link_times(card, {.read = 51.2e6, .written = 52.5e6});
  EXPECT_DOUBLE_EQ(times.read, 1e6);
  EXPECT_DOUBLE_EQ(times.written, 2e6);
}

TEST(TouchedBytes, AreThoseOfTheOperandUpToWhatItsThreadsReach) {
  EXPECT_EQ(touched_bytes(1000, 1e6), 1000U);
  EXPECT_EQ(touched_bytes(1000, 2), 2 * kBytesPerThread);
}

TEST(KernelCost, OfAProductFollowsFromItsExtents) {
  const std::vector<std::uint64_t> plenty(3, std::uint64_t{1} << 40);
  // 2 m n k over the arithmetic of 16 bits, and of 32.
  EXPECT_DOUBLE_EQ(cost(plenty, 1, Product{1000, 1000, 1000, 1, 2, false}), 2e9 / 10e3);
  EXPECT_DOUBLE_EQ(cost(plenty, 1, Product{1000, 1000, 1000, 1, 4, false}), 2e9 / 1e3);
  EXPECT_DOUBLE_EQ(cost(plenty, 1, Product{1000, 1000, 1000, 3, 4, false}), 6e9 / 1e3);
  EXPECT_DOUBLE_EQ(cost(plenty, 1, Product{1000, 1000, 1000, 1, 8, true}), 8e9 / 1e3);
}

TEST(KernelCost, OfANarrowProductIsThatOfItsMatrix) {
  const std::vector<std::uint64_t> plenty(3, std::uint64_t{1} << 40);
  // A decode step: one row times a matrix of 4096 x 4096 in 16 bits, 33.6 MB.
  const double bytes = 2.0 * (4096.0 * 4096 + 2 * 4096);
  EXPECT_DOUBLE_EQ(cost(plenty, 128, Product{4096, 1, 4096, 1, 2, false}), bytes / 100);
  EXPECT_DOUBLE_EQ(cost({4'000'000}, 128, Product{4096, 1, 4096, 1, 2, false}), 4e6 / 100)
      << "no more than its operands have";
}

TEST(ProductKernel, IsKnownByItsNameAndCarriesItsExtents) {
  EXPECT_TRUE(is_product_kernel(product_kernel_name("gemm")));
  EXPECT_TRUE(is_product_kernel(product_kernel_name("gemm_strided_batched")));
  for (const char* other : {"", "_Z", "_Z12", "_Z4gemmPKv", "simgpu_cublas_gemm", "add"}) {
    EXPECT_FALSE(is_product_kernel(other)) << other;
  }
  std::array<std::uint64_t, kProductWords> buffer{};
  const auto extents = words_of({7, 8, 9, 2, 16, true});
  std::copy(extents.begin(), extents.end(), buffer.begin() + kProductAddresses);
  const auto found = product_in(std::as_bytes(std::span{buffer}));
  ASSERT_TRUE(found);
  EXPECT_EQ(words_of(*found), extents);
  EXPECT_FALSE(product_in(std::as_bytes(std::span{buffer}).first(64)));
}

TEST(ProductKernel, CarriesTheBytesOfEachOperand) {
  std::array<std::uint64_t, kProductWords> buffer{};
  for (std::size_t i = 0; i < kProductAddresses; ++i) buffer.at(kProductWords - 1 - i) = 100 + i;
  const auto bytes = std::as_bytes(std::span{buffer});
  for (std::size_t i = 0; i < kProductAddresses; ++i) {
    EXPECT_EQ(operand_bytes_in(bytes, i), 100 + kProductAddresses - 1 - i) << i;
  }
  EXPECT_EQ(operand_bytes_in(bytes, kProductAddresses), 0U) << "no address";
  EXPECT_EQ(operand_bytes_in(bytes.first(bytes.size() - 8), 0), 0U);
}

TEST(MatrixBytes, EndWithTheLastNumber) {
  EXPECT_EQ(matrix_bytes(10, 3, 16, 4), (2U * 16 + 10) * 4);
  EXPECT_EQ(matrix_bytes(1, 5, -3, 8), (4U * 3 + 1) * 8) << "backwards, but from the first byte";
  for (const auto& [rows, columns] : {std::pair{0, 3}, {3, 0}, {-1, 3}}) {
    EXPECT_EQ(matrix_bytes(rows, columns, 4, 4), 0U);
  }
  EXPECT_EQ(matrix_bytes(3, 3, 3, 0), 0U) << "of numbers of unknown size";
}

TEST(BatchBytes, EndWithTheLastMatrix) {
  EXPECT_EQ(batch_bytes(100, 1, -5), 100U);
  EXPECT_EQ(batch_bytes(100, 3, 250), 600U);
  EXPECT_EQ(batch_bytes(100, 3, 0), 100U) << "the same matrix for all";
  EXPECT_EQ(batch_bytes(100, 3, -250), 0U) << "they lie before the address";
  EXPECT_EQ(batch_bytes(0, 3, 250), 0U);
}

}  // namespace
}  // namespace simgpu
