// The program's own physical pages and mappings.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class VirtualMemoryHooksTest : public testing::BudgetFixture {
 protected:
  static CUresult create(std::size_t size, CUmemGenericAllocationHandle* handle, int device = 0) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    return hook::cuMemCreate(handle, size, &properties, 0);
  }
};

TEST_F(VirtualMemoryHooksTest, CountsPagesUntilTheyAreReleased) {
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(create(4 << 20, &handle), CUDA_SUCCESS);
  wait_for_passthrough(4_MiB);
  ASSERT_EQ(hook::cuMemRelease(handle), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
}

TEST_F(VirtualMemoryHooksTest, SeesPagesThatGoWithTheirLastMapping) {
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(create(4 << 20, &handle), CUDA_SUCCESS);
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    testing::change_device_usage(-(4 << 20));
    return CUDA_SUCCESS;
  };
  ASSERT_EQ(hook::cuMemUnmap(0x7700000000, 4 << 20), CUDA_SUCCESS);
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
  wait_for_passthrough(Bytes{});
  testing::change_device_usage(4 << 20);
  ASSERT_EQ(hook::cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemoryHooksTest, DoesNotCountPagesElsewhere) {
  driver().cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t,
                            const CUmemAllocationProp*, unsigned long long) {
    *handle = 1;
    return CUDA_SUCCESS;
  };
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(create(4 << 20, &handle, 1), CUDA_SUCCESS);
  CUmemAllocationProp host{};
  host.location.type = CU_MEM_LOCATION_TYPE_HOST;
  ASSERT_EQ(hook::cuMemCreate(&handle, 4 << 20, &host, 0), CUDA_SUCCESS);
  EXPECT_EQ(passthrough(), Bytes{});
}

TEST_F(VirtualMemoryHooksTest, RefusesToUnmapABufferUnderItself) {
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuMemUnmap(buffer_, 2 << 20), CUDA_ERROR_INVALID_VALUE);
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
}

TEST_F(VirtualMemoryHooksTest, AnswersForBuffersAsADriverDoesForWhatItAllocated) {
  driver().cuMemMap = [](CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle,
                         unsigned long long) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  driver().cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle*, void*) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  const auto set_access = driver().cuMemSetAccess;
  driver().cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
    ADD_FAILURE() << "the driver was asked";
    return CUDA_SUCCESS;
  };
  CUmemGenericAllocationHandle handle = 0;
  CUmemAccessDesc access{};
  EXPECT_EQ(hook::cuMemMap(buffer_, kBytes, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(hook::cuMemSetAccess(buffer_, kBytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(hook::cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(buffer_)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ContextRegistry::managed()->residency().stats().pinned_buffers, 0U);
  driver().cuMemSetAccess = set_access;
}

}  // namespace
}  // namespace superpipe
