// What the address space remembers of reservations. Through the driver's calls, linked in.
#include "tools/simgpu/driver/memory/address_space.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

/// A reservation of eight granules, on a device with a primary context.
class AddressSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAddressReserve(&base_, 8 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (base_ != 0) {
      EXPECT_EQ(cuMemAddressFree(base_, 8 * kGranule), CUDA_SUCCESS);
    }
  }

  /// Maps granules [first, first + count) as one handle, and unmaps them.
  void map_and_unmap(std::uint64_t first, std::uint64_t count) const {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(cuMemCreate(&handle, count * kGranule, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(base_ + first * kGranule, count * kGranule, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemUnmap(base_ + first * kGranule, count * kGranule), CUDA_SUCCESS);
    ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  }
  /// One letter per granule: m where something was mapped once, else a dot.
  [[nodiscard]] std::string history() const {
    std::string letters;
    for (std::uint64_t granule = 0; granule < 8; ++granule) {
      const AddressRange first = AddressSpace::instance().find(base_ + granule * kGranule);
      const AddressRange last = AddressSpace::instance().find(base_ + (granule + 1) * kGranule - 1);
      EXPECT_EQ(first.kind, MemoryKind::kReserved);
      EXPECT_EQ(first.once_mapped, last.once_mapped);
      letters += first.once_mapped ? 'm' : '.';
    }
    return letters;
  }

  CUdeviceptr base_ = 0;
};

TEST_F(AddressSpaceTest, RemembersWhereSomethingWasMapped) {
  EXPECT_EQ(history(), "........");
  map_and_unmap(2, 1);
  EXPECT_EQ(history(), "..m.....");
  map_and_unmap(5, 2);
  EXPECT_EQ(history(), "..m..mm.");
  map_and_unmap(1, 3);  // around the first
  EXPECT_EQ(history(), ".mmm.mm.");
  map_and_unmap(3, 3);  // over the ends of both
  EXPECT_EQ(history(), ".mmmmmm.");
  map_and_unmap(2, 1);  // inside
  EXPECT_EQ(history(), ".mmmmmm.");
  map_and_unmap(0, 8);
  EXPECT_EQ(history(), "mmmmmmmm");
}

TEST_F(AddressSpaceTest, ForgetsWithTheReservation) {
  map_and_unmap(0, 8);
  ASSERT_EQ(cuMemAddressFree(base_, 8 * kGranule), CUDA_SUCCESS);
  const CUdeviceptr old = base_;
  ASSERT_EQ(cuMemAddressReserve(&base_, 8 * kGranule, 0, old, 0), CUDA_SUCCESS);
  ASSERT_EQ(base_, old);
  EXPECT_EQ(history(), "........");
}

}  // namespace
}  // namespace simgpu
