#include <atomic>
#include <thread>

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
  static CUmemoryPool default_pool() {
    CUmemoryPool pool = nullptr;
    EXPECT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
  }
  static cuuint64_t bytes(CUmemPool_attribute attribute) {
    cuuint64_t value = ~cuuint64_t{0};
    EXPECT_SUCCESS(cuMemPoolGetAttribute(default_pool(), attribute, &value));
    return value;
  }
  static void set_bytes(CUmemPool_attribute attribute, cuuint64_t value) {
    EXPECT_SUCCESS(cuMemPoolSetAttribute(default_pool(), attribute, &value));
  }
  static void set_policy(CUmemPool_attribute attribute, int value) {
    EXPECT_SUCCESS(cuMemPoolSetAttribute(default_pool(), attribute, &value));
    int now = -1;
    EXPECT_SUCCESS(cuMemPoolGetAttribute(default_pool(), attribute, &now));
    EXPECT_EQ(now, value);
  }
  static void set_policies(int value) {
    set_policy(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, value);
    set_policy(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, value);
    set_policy(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, value);
  }
  static void keep_everything() { set_bytes(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX); }
  static CUmemoryPool make_pool() {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    EXPECT_SUCCESS(cuMemPoolCreate(&pool, &props));
    return pool;
  }
  /// Waits until all of `stream` is done, without a synchronisation.
  static void poll(CUstream stream) {
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  }
  void TearDown() override {
    set_bytes(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
    set_policies(1);
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
  EXPECT_SUCCESS(cuCtxSynchronize());
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(cuMemFreeAsync(allocate(kMiB), stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pool, OwnPoolIsSeparateAndItsMemoryOutlivesIt) {
  const CUmemoryPool pool = make_pool();
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

TEST_F(Pool, RequestsInTurnTakeLittleMoreThanOneOfThem) {
  keep_everything();
  set_bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  const CUstream stream = make_stream();
  for (int request = 0; request < 60; ++request) {
    const CUdeviceptr address = allocate_async(9 * kMiB / 4, stream);
    EXPECT_SUCCESS(cuMemsetD8Async(address, 1, 9 * kMiB / 4, stream));
    EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  }
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4 * kMiB);
}

TEST_F(Pool, GrowingRequestsInTurnDoNotPileUp) {
  keep_everything();
  set_bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  const CUstream stream = make_stream();
  for (std::size_t size = kMiB; size <= 32 * kMiB; size += kMiB) {
    EXPECT_SUCCESS(cuMemFreeAsync(allocate_async(size, stream), stream));
    EXPECT_SUCCESS(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * kMiB);
}

TEST_F(Pool, ManyLiveBlocksOfAnOddSizeShareChunks) {
  const CUstream stream = make_stream();
  for (int block = 0; block < 40; ++block) allocate_async(9 * kMiB / 4, stream);
  EXPECT_LE(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 136 * kMiB) << "90 MiB are in use";
}

TEST_F(Pool, BlocksSplitAndMerge) {
  keep_everything();
  const CUstream stream = make_stream();
  const CUdeviceptr whole = allocate_async(4 * kMiB, stream);
  EXPECT_SUCCESS(cuMemFreeAsync(whole, stream));
  const CUdeviceptr first = allocate_async(kMiB, stream);
  const CUdeviceptr second = allocate_async(3 * kMiB, stream);
  EXPECT_EQ(first, whole);
  EXPECT_EQ(second, whole + kMiB);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));  // nothing else orders the fills behind them
  fill(first, 0x11, kMiB);
  fill(second, 0x22, 3 * kMiB);
  EXPECT_EQ(read(first + kMiB - 1, 1).front(), 0x11);
  EXPECT_EQ(read(second, 1).front(), 0x22);
  EXPECT_SUCCESS(cuMemFreeAsync(second, stream));
  EXPECT_SUCCESS(cuMemFreeAsync(first, stream));
  EXPECT_EQ(allocate_async(4 * kMiB, stream), whole);
  EXPECT_EQ(used(), 4 * kMiB);
}

TEST_F(Pool, SmallBlocksShareAChunkAndCountInSteps) {
  const CUstream stream = make_stream();
  const CUdeviceptr first = allocate_async(100, stream);
  EXPECT_EQ(allocate_async(513, stream), first + 512);
  EXPECT_EQ(allocate_async(1, stream), first + 1536);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 2048U);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), kGranule);
  EXPECT_EQ(used(), kGranule);
}

TEST_F(Pool, HighMarksStayUntilTheyAreReset) {
  set_bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  set_bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  const CUstream stream = make_stream();
  const CUdeviceptr one = allocate_async(6 * kMiB, stream);
  EXPECT_SUCCESS(cuMemFreeAsync(allocate_async(kMiB, stream), stream));
  EXPECT_SUCCESS(cuMemFreeAsync(one, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 7 * kMiB);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 8 * kMiB);
  set_bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  EXPECT_EQ(bytes(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0U);
  cuuint64_t one_byte = 1;
  EXPECT_EQ(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one_byte),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pool, AChunkGoesBackOnlyWhenAllOfItIsFree) {
  const CUstream stream = make_stream();
  const CUdeviceptr kept = allocate_async(kMiB, stream);
  const CUdeviceptr freed = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuMemFreeAsync(freed, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(used(), kGranule);
  EXPECT_SUCCESS(cuMemFreeAsync(kept, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(used(), 0U);
}

TEST_F(Pool, TrimLeavesAtLeastWhatItIsTold) {
  keep_everything();
  const CUstream stream = make_stream();
  const CUdeviceptr first = allocate_async(kGranule, stream);
  EXPECT_SUCCESS(cuMemFreeAsync(allocate_async(kGranule, stream), stream));
  EXPECT_SUCCESS(cuMemFreeAsync(first, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_SUCCESS(cuMemPoolTrimTo(default_pool(), kGranule + 1));
  EXPECT_EQ(used(), 2 * kGranule);
  EXPECT_SUCCESS(cuMemPoolTrimTo(default_pool(), kGranule));
  EXPECT_EQ(used(), kGranule);
}

TEST_F(Pool, EventsMakeAPendingFreeUsableOnAnotherStream) {
  keep_everything();
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUstream third = make_stream();
  for (const bool follow : {true, false}) {
    set_policies(0);
    set_policy(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow ? 1 : 0);
    std::atomic<bool> gate{false};
    const CUdeviceptr freed = allocate_async(kGranule, first);
    const CUevent before = make_event();
    const CUevent after = make_event();
    const CUevent relayed = make_event();
    EXPECT_SUCCESS(cuLaunchHostFunc(first, wait_for, &gate));
    EXPECT_SUCCESS(cuEventRecord(before, first));
    EXPECT_SUCCESS(cuMemFreeAsync(freed, first));
    EXPECT_SUCCESS(cuEventRecord(after, first));
    EXPECT_SUCCESS(cuStreamWaitEvent(second, before, 0));
    EXPECT_NE(allocate_async(kGranule, second), freed) << "the event comes before the free";
    EXPECT_SUCCESS(cuStreamWaitEvent(second, after, 0));
    EXPECT_SUCCESS(cuEventRecord(relayed, second));
    EXPECT_SUCCESS(cuStreamWaitEvent(third, relayed, 0));
    EXPECT_EQ(allocate_async(kGranule, third) == freed, follow);
    open(gate);
    EXPECT_SUCCESS(cuCtxSynchronize());
  }
}

TEST_F(Pool, TheLegacyStreamMakesAPendingFreeUsableOnBlockingStreams) {
  keep_everything();
  set_policies(0);
  set_policy(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
  CUstream first = nullptr;
  CUstream second = nullptr;
  EXPECT_SUCCESS(cuStreamCreate(&first, CU_STREAM_DEFAULT));
  EXPECT_SUCCESS(cuStreamCreate(&second, CU_STREAM_DEFAULT));
  std::atomic<bool> gate{false};
  const CUdeviceptr mark = allocate(512);
  const CUdeviceptr freed = allocate_async(kGranule, first);
  EXPECT_SUCCESS(cuLaunchHostFunc(first, wait_for, &gate));
  EXPECT_SUCCESS(cuMemFreeAsync(freed, first));
  EXPECT_NE(allocate_async(kGranule, second), freed);
  EXPECT_SUCCESS(cuMemsetD8Async(mark, 1, 512, CU_STREAM_LEGACY));
  EXPECT_NE(allocate_async(kGranule, make_stream()), freed)
      << "it does not wait for the legacy one";
  EXPECT_EQ(allocate_async(kGranule, second), freed);
  open(gate);
  EXPECT_SUCCESS(cuCtxSynchronize());
}

TEST_F(Pool, OpportunisticReuseTakesWhatHappensToBeComplete) {
  keep_everything();
  for (const bool opportunistic : {true, false}) {
    set_policies(0);
    set_policy(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic ? 1 : 0);
    const CUstream first = make_stream();
    const CUdeviceptr freed = allocate_async(kGranule, first);
    EXPECT_SUCCESS(cuMemFreeAsync(freed, first));
    poll(first);
    EXPECT_EQ(allocate_async(kGranule, make_stream()) == freed, opportunistic);
    if (opportunistic) continue;
    EXPECT_SUCCESS(cuStreamSynchronize(make_stream()));
    EXPECT_NE(allocate_async(kGranule, make_stream()), freed) << "another stream was waited for";
    EXPECT_SUCCESS(cuStreamSynchronize(first));
    EXPECT_EQ(allocate_async(kGranule, make_stream()), freed);
  }
}

TEST_F(Pool, FullDeviceFailsWhereInternalDependenciesAreForbidden) {
  set_policies(0);
  const CUstream first_stream = make_stream();
  std::atomic<bool> gate{false};
  const std::size_t all = available() / kGranule * kGranule;
  const CUdeviceptr freed = allocate_async(all, first_stream);
  EXPECT_SUCCESS(cuLaunchHostFunc(first_stream, wait_for, &gate));
  EXPECT_SUCCESS(cuMemFreeAsync(freed, first_stream));
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAllocAsync(&address, all, make_stream()), CUDA_ERROR_OUT_OF_MEMORY);
  open(gate);
  EXPECT_SUCCESS(cuCtxSynchronize());
  EXPECT_SUCCESS(cuMemAllocAsync(&address, all, make_stream()));
}

TEST_F(Pool, WorkThatRunsAfterTheFreeFaultsEvenWhereTheMemoryIsUsedAgain) {
  CUcontext breaking = nullptr;
  ASSERT_SUCCESS(cuCtxCreate(&breaking, nullptr, 0, 0));
  keep_everything();
  const CUstream stream = make_stream();
  const CUstream late = make_stream();
  const CUdeviceptr copy = allocate(kMiB);
  const CUdeviceptr stale = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  std::atomic<bool> gate{false};
  EXPECT_SUCCESS(cuLaunchHostFunc(late, wait_for, &gate));
  EXPECT_SUCCESS(cuMemcpyDtoDAsync(copy, stale, kMiB, late));
  EXPECT_SUCCESS(cuMemFreeAsync(stale, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(allocate_async(kMiB, stream), stale);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  open(gate);
  EXPECT_EQ(cuStreamSynchronize(late), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SUCCESS(cuCtxDestroy(breaking));
  EXPECT_SUCCESS(cuCtxSetCurrent(context_));
}

TEST_F(Pool, MemFreeOfPoolMemoryDoesNotWait) {
  const CUstream stream = make_stream();
  const CUdeviceptr address = allocate_async(kMiB, stream);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  std::atomic<bool> gate{false};
  EXPECT_SUCCESS(cuLaunchHostFunc(stream, wait_for, &gate));
  EXPECT_SUCCESS(cuMemFree(address));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(allocate_async(kMiB, make_stream()), address) << "it is free at once";
  open(gate);
  EXPECT_SUCCESS(cuCtxSynchronize());
}

TEST_F(Pool, AHandleComesAgainWhenNothingOfItsPoolIsInUse) {
  const CUmemoryPool first = make_pool();
  EXPECT_SUCCESS(cuMemPoolDestroy(first));
  EXPECT_EQ(cuMemPoolTrimTo(first, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(make_pool(), first);
  const CUstream stream = make_stream();
  CUdeviceptr address = 0;
  EXPECT_SUCCESS(cuMemAllocFromPoolAsync(&address, kMiB, first, stream));
  EXPECT_SUCCESS(cuMemPoolDestroy(first));
  const CUmemoryPool other = make_pool();
  EXPECT_NE(other, first);
  EXPECT_SUCCESS(cuMemFreeAsync(address, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(make_pool(), first);
  EXPECT_SUCCESS(cuMemPoolDestroy(first));
  EXPECT_SUCCESS(cuMemPoolDestroy(other));
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
