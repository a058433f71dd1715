#include <atomic>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kGranule;
using simgpu_test::kMiB;

class Pool : public simgpu_test::DriverTest {
 protected:
  static CUdeviceptr allocate_async(std::size_t size, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_SUCCESS(cuMemAllocAsync(&address, size, stream));
    return address;
  }
  static void keep_everything() {
    CUmemoryPool pool = nullptr;
    EXPECT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
    cuuint64_t threshold = UINT64_MAX;
    EXPECT_SUCCESS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  }
  void TearDown() override {
    CUmemoryPool pool = nullptr;
    EXPECT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
    cuuint64_t threshold = 0;
    EXPECT_SUCCESS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    DriverTest::TearDown();
  }
  static void CUDA_CB wait_for(void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); }
  static void open(std::atomic<bool>& gate) {
    gate = true;
    gate.notify_all();
  }
};

TEST_F(Pool, WorkOnABlockRunsAfterTheHostGotItBackSmaller) {
  keep_everything();
  const CUstream stream = make_stream();
  const CUdeviceptr copy = allocate(2048);
  fill(copy, 0x11, 2048);
  const CUdeviceptr dirty = allocate_async(2048, stream);
  EXPECT_SUCCESS(cuMemsetD8Async(dirty, 0xAA, 2048, stream));
  EXPECT_SUCCESS(cuMemFreeAsync(dirty, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  std::atomic<bool> gate{false};
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, wait_for, &gate));
  const CUdeviceptr large = allocate_async(2048, stream);
  EXPECT_EQ(large, dirty);
  EXPECT_SUCCESS(cuMemcpyDtoDAsync(copy, large, 2048, stream));
  EXPECT_SUCCESS(cuMemFreeAsync(large, stream));
  const CUdeviceptr small = allocate_async(1024, stream);
  EXPECT_EQ(small, large);
  EXPECT_EQ(cuMemcpyDtoDAsync(copy, small, 2048, stream), CUDA_ERROR_INVALID_VALUE);
  open(gate);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(copy, 2048), std::vector<unsigned char>(2048, 0));
  EXPECT_SUCCESS(cuMemFreeAsync(small, stream));
}

TEST_F(Pool, SynchronisationReturnsFreedMemoryToTheDevice) {
  const CUstream stream = make_stream();
  const CUdeviceptr address = allocate_async(4 * kMiB, stream);
  EXPECT_EQ(used(), 4 * kMiB);
  EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Pool, ThresholdKeepsFreedMemoryUntilTrimmed) {
  keep_everything();
  const CUstream stream = make_stream();
  EXPECT_SUCCESS(cuMemFreeAsync(allocate_async(4 * kMiB, stream), stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(used(), 4 * kMiB);
  CUmemoryPool pool = nullptr;
  EXPECT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t reserved = 0;
  cuuint64_t in_use = 1;
  EXPECT_SUCCESS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_SUCCESS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &in_use));
  EXPECT_EQ(reserved, 4 * kMiB);
  EXPECT_EQ(in_use, 0U);
  EXPECT_SUCCESS(cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Pool, FreedBlockIsReusedAtOnceOnItsOwnStreamAndReadsZero) {
  const CUstream stream = make_stream();
  const CUdeviceptr first = allocate_async(4 * kMiB, stream);
  EXPECT_SUCCESS(cuMemsetD8Async(first, 0xAA, 4 * kMiB, stream));
  EXPECT_SUCCESS(cuMemFreeAsync(first, stream));
  const CUdeviceptr second = allocate_async(4 * kMiB, stream);
  EXPECT_EQ(second, first);
  EXPECT_EQ(used(), 4 * kMiB);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(second, 4 * kMiB), std::vector<unsigned char>(4 * kMiB, 0));
}

TEST_F(Pool, BlockWhoseFreeIsPendingIsNotReusedByAnotherStream) {
  const CUstream first_stream = make_stream();
  const CUstream second_stream = make_stream();
  std::atomic<bool> gate{false};
  const CUdeviceptr first = allocate_async(4 * kMiB, first_stream);
  EXPECT_SUCCESS(cuLaunchHostFunc(first_stream, wait_for, &gate));
  EXPECT_SUCCESS(cuMemFreeAsync(first, first_stream));
  EXPECT_NE(allocate_async(4 * kMiB, second_stream), first);
  open(gate);
  EXPECT_SUCCESS(cuCtxSynchronize());
}

TEST_F(Pool, FullDeviceReusesAPendingBlockBehindItsFree) {
  const CUstream first_stream = make_stream();
  const CUstream second_stream = make_stream();
  std::atomic<bool> gate{false};
  const CUdeviceptr all = allocate_async(available() / kGranule * kGranule, first_stream);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  EXPECT_SUCCESS(cuMemGetAddressRange(&base, &size, all));
  EXPECT_SUCCESS(cuLaunchHostFunc(first_stream, wait_for, &gate));
  EXPECT_SUCCESS(cuMemFreeAsync(all, first_stream));
  EXPECT_EQ(allocate_async(size, second_stream), all);
  EXPECT_EQ(cuStreamQuery(second_stream), CUDA_ERROR_NOT_READY);
  open(gate);
  EXPECT_SUCCESS(cuStreamSynchronize(second_stream));
}

TEST_F(Pool, MemoryFreedInStreamOrderMayNotBeNamedAgain) {
  const CUstream stream = make_stream();
  const CUdeviceptr address = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  EXPECT_EQ(cuMemsetD8Async(address, 1, 64, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pool, WorkBeforeTheFreeStillSeesTheMemory) {
  const CUstream stream = make_stream();
  unsigned char* const seen = allocate_host(kMiB);
  const CUdeviceptr address = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuMemsetD8Async(address, 0x21, kMiB, stream));
  EXPECT_SUCCESS(cuMemcpyDtoHAsync(seen, address, kMiB, stream));
  EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(seen[kMiB - 1], 0x21);
}

TEST_F(Pool, MemFreeTakesPoolMemoryAndFreeAsyncTakesNoOther) {
  const CUstream stream = make_stream();
  const CUdeviceptr pooled = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuMemFree(pooled));
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(cuMemFreeAsync(allocate(kMiB), stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pool, OwnPoolIsSeparateAndItsMemoryOutlivesIt) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  ASSERT_SUCCESS(cuMemPoolCreate(&pool, &props));
  const CUstream stream = make_stream();
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAllocFromPoolAsync(&address, kGranule, pool, stream));
  CUmemoryPool owner = nullptr;
  EXPECT_SUCCESS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
  EXPECT_EQ(owner, pool);
  EXPECT_SUCCESS(cuMemPoolDestroy(pool));
  EXPECT_EQ(cuMemAllocFromPoolAsync(&address, kGranule, pool, stream), CUDA_ERROR_INVALID_VALUE);
  fill(address, 1, kGranule);
  EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Pool, DefaultPoolCannotBeDestroyed) {
  CUmemoryPool pool = nullptr;
  EXPECT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool current = nullptr;
  EXPECT_SUCCESS(cuDeviceGetMemPool(&current, 0));
  EXPECT_EQ(current, pool);
}

TEST_F(Pool, AllocationPastCapacityFails) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAllocAsync(&address, available() + kGranule, make_stream()),
            CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Pool, CachedMemoryIsGivenUpForMemAlloc) {
  keep_everything();
  const CUstream stream = make_stream();
  const std::size_t all = available() / kGranule * kGranule;
  EXPECT_SUCCESS(cuMemFreeAsync(allocate_async(all, stream), stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_NE(allocate(all), 0U);
}

}  // namespace
