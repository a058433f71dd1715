#include "tools/simgpu/driver/memory/mapping_table.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

/// A table of its own with a reservation of eight granules, on the first device.
class MappingTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(table_.reserve(8 * kGranularity, 0, 0, &base_), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(table_.release_reservation(base_, 8 * kGranularity), CUDA_SUCCESS);
  }

  [[nodiscard]] std::uint64_t granule(std::uint64_t index) const {
    return base_ + index * kGranularity;
  }
  /// Maps one granule; the mapping alone keeps its memory.
  void map(std::uint64_t index, CUmemAccess_flags flags) {
    map(index, flags, Physical::create(find_device(0)->small_allocations(), kGranularity));
  }
  void map_on_host(std::uint64_t index) {
    map(index, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, Physical::create_on_host(kGranularity));
  }
  void map(std::uint64_t index, CUmemAccess_flags flags, PhysicalPtr physical) {
    const CUmemGenericAllocationHandle handle = table_.add_handle(std::move(physical), {});
    ASSERT_EQ(table_.map(granule(index), kGranularity, handle), CUDA_SUCCESS);
    ASSERT_EQ(table_.release_handle(handle), CUDA_SUCCESS);
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    access.flags = flags;
    ASSERT_EQ(table_.set_access(granule(index), kGranularity, &access, 1), CUDA_SUCCESS);
  }
  void unmap(std::uint64_t index) {
    EXPECT_EQ(table_.unmap(granule(index), kGranularity), CUDA_SUCCESS);
  }

  MappingTable table_;
  std::uint64_t base_ = 0;
};

TEST_F(MappingTableTest, FindsTheWholeRangeThatIsMappedWithoutAGap) {
  map(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  map(2, CU_MEM_ACCESS_FLAGS_PROT_READ);
  map(4, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const auto found = table_.find(granule(2) + 5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, MemoryKind::kMapped);
  EXPECT_EQ(found->base, granule(1));
  EXPECT_EQ(found->size, 2 * kGranularity);
  EXPECT_FALSE(found->writable) << "a part of it is read-only";
  EXPECT_EQ(table_.find_mapping(granule(2) + 5)->base, granule(2));
  EXPECT_EQ(table_.find(granule(3))->kind, MemoryKind::kReserved);
  EXPECT_FALSE(table_.find(base_ - 1));
  for (const std::uint64_t index : {1, 2, 4}) unmap(index);
}

TEST_F(MappingTableTest, TellsTheBytesThatLieOnTheHostUpToTheFirstGap) {
  map(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  map_on_host(1);
  map_on_host(3);
  EXPECT_EQ(table_.bytes_on_host(granule(0) + 8, 2 * kGranularity), kGranularity);
  EXPECT_EQ(table_.bytes_on_host(granule(1) + 8, 100), 100U);
  EXPECT_EQ(table_.bytes_on_host(granule(1) + 8, 8 * kGranularity), kGranularity - 8);
  EXPECT_EQ(table_.bytes_on_host(granule(0), kGranularity), 0U);
  EXPECT_EQ(table_.bytes_on_host(granule(2), kGranularity), 0U);
  EXPECT_EQ(table_.find_mapping(granule(1))->device, -1);
  for (const std::uint64_t index : {0, 1, 3}) unmap(index);
}

TEST_F(MappingTableTest, ResolvesAcrossMappingsUpToTheFirstThatMayNotBeAccessed) {
  map(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  map(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  const Resolution read = table_.resolve(granule(0) + 1, 2 * kGranularity - 1, false, 0);
  EXPECT_TRUE(read.accessible);
  ASSERT_EQ(read.segments.size(), 2U);
  EXPECT_EQ(read.segments[0].size, kGranularity - 1);
  const Resolution write = table_.resolve(granule(0) + 1, 2 * kGranularity - 1, true, 0);
  EXPECT_FALSE(write.accessible);
  EXPECT_EQ(write.first_bad, granule(1));
  const Resolution beyond = table_.resolve(granule(1), 2 * kGranularity, false, 0);
  EXPECT_FALSE(beyond.accessible);
  EXPECT_EQ(beyond.first_bad, granule(2));
  unmap(0);
  unmap(1);
}

TEST_F(MappingTableTest, MapsOnlyWhatIsReservedAndFree) {
  const CUmemGenericAllocationHandle handle =
      table_.add_handle(Physical::create(find_device(0)->small_allocations(), kGranularity), {});
  EXPECT_EQ(table_.map(granule(8), kGranularity, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.map(granule(0), 2 * kGranularity, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.map(granule(0), kGranularity, handle), CUDA_SUCCESS);
  EXPECT_EQ(table_.map(granule(0), kGranularity, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(table_.release_reservation(base_, 8 * kGranularity), CUDA_ERROR_INVALID_VALUE);
  unmap(0);
  EXPECT_EQ(table_.release_handle(handle), CUDA_SUCCESS);
  EXPECT_EQ(table_.release_handle(handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace simgpu
