// What programs are told of a device's memory in each mode.
#include "interposer/allocators/reported_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace superpipe {
namespace {

constexpr Bytes kDevice = 16_GiB;
constexpr Bytes kHost = 8_GiB;

class ReportedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    configuration_.policy = PolicyKind::kAuto;
    configuration_.headroom = SizeSpec::of_bytes(1_GiB);
  }
  [[nodiscard]] ReportedMemory told(MemoryReport report, Bytes of_host = kHost) const {
    return {configuration_, report, of_host};
  }
  void allow(Bytes budget) { configuration_.gpu_mem = SizeSpec::of_bytes(budget); }

  Configuration configuration_;
};

TEST_F(ReportedMemoryTest, VirtualIsHostMemoryAndThreeQuartersOfTheBudget) {
  EXPECT_EQ(told(MemoryReport::kVirtual).total(kDevice),
            Bytes{(8_GiB).count() + 45 * (1_GiB).count() / 4});
  allow(5_GiB);
  EXPECT_EQ(told(MemoryReport::kVirtual).total(kDevice), 11_GiB);
}

TEST_F(ReportedMemoryTest, VirtualIsNeverLessThanTheDeviceHolds) {
  EXPECT_EQ(told(MemoryReport::kVirtual, Bytes{}).total(kDevice), 15_GiB);
}

TEST_F(ReportedMemoryTest, BudgetIsWhatItLeavesBesideTheHeadroom) {
  EXPECT_EQ(told(MemoryReport::kBudget).total(kDevice), 15_GiB) << "of all of the device";
  allow(5_GiB);
  EXPECT_EQ(told(MemoryReport::kBudget).total(kDevice), 4_GiB);
  configuration_.gpu_mem = SizeSpec::of_percent(50);
  EXPECT_EQ(told(MemoryReport::kBudget).total(kDevice), 7_GiB);
  allow(100_GiB);
  EXPECT_EQ(told(MemoryReport::kBudget).total(kDevice), 15_GiB) << "a device has no more";
}

TEST_F(ReportedMemoryTest, RealIsTheDevice) {
  allow(5_GiB);
  const ReportedMemory real = told(MemoryReport::kReal);
  EXPECT_EQ(real.total(kDevice), kDevice);
  EXPECT_FALSE(real.needs_capacity());
}

// PyTorch ends with an internal error where free memory and its own are more than the total.
TEST_F(ReportedMemoryTest, FreeAndUsedAreNeverMoreThanTheTotal) {
  allow(5_GiB);
  const std::vector<ResidencyManager::Capacity> capacities = {
      {Bytes{}, 11_GiB, 4_GiB, Bytes{}},
      {3_GiB, 8_GiB, 1_GiB, Bytes{}},
      {9_GiB, 2_GiB, Bytes{}, Bytes{}},
      {9_GiB, 20_GiB, 12_GiB, Bytes{}}};  // host memory came free, and the budget was raised
  for (const MemoryReport report : {MemoryReport::kVirtual, MemoryReport::kBudget}) {
    const ReportedMemory memory = told(report);
    for (const ResidencyManager::Capacity& capacity : capacities) {
      const Bytes free = memory.free(capacity, kDevice);
      EXPECT_LE(free, saturating_subtract(memory.total(kDevice), capacity.used));
    }
  }
}

TEST_F(ReportedMemoryTest, FreeIsWhatCanStillBeAllocated) {
  allow(5_GiB);
  const ResidencyManager::Capacity capacity{3_GiB, 6_GiB, Bytes{(1_GiB).count() / 2}, Bytes{}};
  EXPECT_EQ(told(MemoryReport::kVirtual).free(capacity, kDevice), 6_GiB);
  EXPECT_EQ(told(MemoryReport::kBudget).free(capacity, kDevice), capacity.left_on_device);
}

}  // namespace
}  // namespace superpipe
