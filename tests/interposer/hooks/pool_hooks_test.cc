// Memory pools as a program uses them, over a driver that gives the same handle again.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

auto* const kHandle = reinterpret_cast<CUmemoryPool>(0x40);
auto* const kImported = reinterpret_cast<CUmemoryPool>(0x50);
constexpr std::size_t kSmallBlock = 64;  // passes through

/// How often the driver was asked about a pool.
int questions = 0;
CUdeviceptr next_address = 0x7700000000;

class PoolHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    questions = 0;
    DriverTable& table = driver();
    table.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) {
      *pool = kHandle;
      return CUDA_SUCCESS;
    };
    table.cuMemPoolImportFromShareableHandle = [](CUmemoryPool* pool, void*,
                                                  CUmemAllocationHandleType, unsigned long long) {
      *pool = kImported;
      return CUDA_SUCCESS;
    };
    table.cuMemPoolDestroy = [](CUmemoryPool) { return CUDA_SUCCESS; };
    table.cuMemPoolGetAttribute = [](CUmemoryPool, CUmemPool_attribute, void* value) {
      ++questions;
      *static_cast<cuuint64_t*>(value) = 0;
      return CUDA_SUCCESS;
    };
    table.cuMemAllocFromPoolAsync = [](CUdeviceptr* address, std::size_t, CUmemoryPool, CUstream) {
      *address = next_address += 4096;
      return CUDA_SUCCESS;
    };
    table.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
    table.cuModuleLoad = [](CUmodule*, const char*) { return CUDA_SUCCESS; };
  }

  static CUmemoryPool make_pool() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(hook::cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    return pool;
  }
  static CUdeviceptr allocate_from(CUmemoryPool pool, std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(hook::cuMemAllocFromPoolAsync(&address, size, pool, nullptr), CUDA_SUCCESS);
    return address;
  }
  static void free_async(CUdeviceptr address) {
    EXPECT_EQ(hook::cuMemFreeAsync(address, nullptr), CUDA_SUCCESS);
  }
  static cuuint64_t used(CUmemoryPool pool) {
    cuuint64_t used = 0;
    EXPECT_EQ(hook::cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
              CUDA_SUCCESS);
    return used;
  }
  static bool is_managed(CUdeviceptr address) {
    return ContextRegistry::managed()->in_arena(address);
  }
};

TEST_F(PoolHooksTest, CountsAPoolApartFromTheNextAtItsHandle) {
  const CUmemoryPool first = make_pool();
  const CUdeviceptr old_large = allocate_from(first, kBytes);
  EXPECT_EQ(used(first), kBytes);
  ASSERT_EQ(hook::cuMemPoolDestroy(first), CUDA_SUCCESS);
  const CUmemoryPool second = make_pool();
  EXPECT_EQ(used(second), 0U);
  free_async(old_large);
  EXPECT_EQ(used(second), 0U);
}

TEST_F(PoolHooksTest, AsksTheDriverNothingAboutAPoolThatTheProgramDoesNotAskAbout) {
  const CUmemoryPool pool = make_pool();
  const CUdeviceptr small = allocate_from(pool, kSmallBlock);
  const CUdeviceptr large = allocate_from(pool, kBytes);
  ASSERT_EQ(hook::cuMemPoolDestroy(pool), CUDA_SUCCESS);
  CUmodule module = nullptr;
  EXPECT_EQ(hook::cuModuleLoad(&module, ""), CUDA_SUCCESS);
  free_async(small);
  free_async(large);
  EXPECT_EQ(questions, 0);
}

TEST_F(PoolHooksTest, CountsWhatThePoolTookForItself) {
  const CUmemoryPool pool = make_pool();
  // A block of 2 MiB, which the pool keeps until it is trimmed.
  driver().cuMemAllocFromPoolAsync = [](CUdeviceptr* address, std::size_t, CUmemoryPool, CUstream) {
    testing::change_device_usage(2 << 20);
    *address = next_address += 4096;
    return CUDA_SUCCESS;
  };
  free_async(allocate_from(pool, kSmallBlock));
  wait_for_passthrough(2_MiB);
  driver().cuMemPoolTrimTo = [](CUmemoryPool, std::size_t) {
    testing::change_device_usage(-(2 << 20));
    return CUDA_SUCCESS;
  };
  ASSERT_EQ(hook::cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
  wait_for_passthrough(Bytes{});
}

TEST_F(PoolHooksTest, GoesOnWithAPoolThatCouldNotBeDestroyed) {
  const CUmemoryPool pool = make_pool();
  const CUdeviceptr large = allocate_from(pool, kBytes);
  driver().cuMemPoolDestroy = [](CUmemoryPool) { return CUDA_ERROR_INVALID_VALUE; };
  EXPECT_EQ(hook::cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(used(pool), kBytes);
  EXPECT_TRUE(is_managed(allocate_from(pool, kBytes)));
  free_async(large);
  EXPECT_EQ(used(pool), kBytes);
}

TEST_F(PoolHooksTest, LeavesWhatIsImportedOrDestroyedOrNoPoolToTheDriver) {
  const CUmemoryPool pool = make_pool();
  EXPECT_TRUE(is_managed(allocate_from(pool, kBytes)));
  ASSERT_EQ(hook::cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_FALSE(is_managed(allocate_from(pool, kBytes)));
  EXPECT_FALSE(is_managed(allocate_from(nullptr, kBytes)));
  CUmemoryPool imported = nullptr;
  ASSERT_EQ(hook::cuMemPoolImportFromShareableHandle(&imported, nullptr,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  EXPECT_FALSE(is_managed(allocate_from(imported, kBytes)));
}

}  // namespace
}  // namespace superpipe
