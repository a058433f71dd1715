// Copies: who waits for whom, and when host memory is read.

#include <sys/mman.h>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using Copy = ConformanceTest;
using Allocation = ConformanceTest;

constexpr uint32_t kCopyWords = 16 * 1024;
constexpr size_t kCopyBytes = kCopyWords * sizeof(uint32_t);

TEST_F(Copy, FromPageableMemoryHasReadItWhenTheCallReturns) {
  const Buffer data(kCopyWords);
  const Buffer busy(kCopyWords);
  const Stream stream;
  std::vector<uint32_t> pageable(kCopyWords, 1);
  CU_ASSERT(fill(stream.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), pageable.data(), kCopyBytes, stream.get()));
  std::fill(pageable.begin(), pageable.end(), 2);
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(data.address()), 1U);
  EXPECT_EQ(word_at(data.address() + kCopyBytes - 4), 1U);
}

TEST_F(Copy, FromPinnedMemoryReadsItWhenTheCopyRuns) {
  // The known-bad half: pinned memory that is reused too early is seen to be.
  const Buffer data(kCopyWords);
  const Buffer busy(kCopyWords);
  const Stream stream;
  const Pinned pinned(kCopyWords, 1);
  CU_ASSERT(fill(stream.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), pinned.data(), kCopyBytes, stream.get()));
  std::fill_n(pinned.data(), kCopyWords, 2);
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(data.address()), 2U);
}

TEST_F(Copy, ToPageableMemoryIsThereWhenTheCallReturns) {
  const Buffer data(kCopyWords);
  const Stream stream;
  std::vector<uint32_t> pageable(kCopyWords, 0);
  CU_ASSERT(fill(stream.get(), data.address(), 5, kCopyWords, long_time()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(pageable.data(), data.address(), kCopyBytes, stream.get()));
  EXPECT_EQ(pageable.front(), 5U);
  EXPECT_EQ(pageable.back(), 5U);
}

TEST_F(Copy, ToPinnedMemoryDoesNotHoldTheHost) {
  const Buffer data(kCopyWords);
  const Stream stream;
  const Pinned pinned(kCopyWords, 0);
  CU_ASSERT(fill(stream.get(), data.address(), 5, kCopyWords, long_time()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(pinned.data(), data.address(), kCopyBytes, stream.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(pinned.data()[kCopyWords - 1], 5U);
}

TEST_F(Copy, BetweenHostBuffersIsSynchronousForTheHost) {
  const Buffer busy(kCopyWords);
  const Stream stream;
  const std::vector<uint32_t> source(kCopyWords, 8);
  std::vector<uint32_t> destination(kCopyWords, 0);
  CU_ASSERT(fill(stream.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(destination.data()),
                               reinterpret_cast<CUdeviceptr>(source.data()), kCopyBytes,
                               stream.get()));
  EXPECT_EQ(destination.front(), 8U);
  EXPECT_EQ(destination.back(), 8U);
}

TEST_F(Copy, WithoutAStreamWaitsForTheLegacyStream) {
  const Buffer data(kCopyWords);
  CU_ASSERT(fill(CU_STREAM_LEGACY, data.address(), 6, kCopyWords, long_time()));
  EXPECT_EQ(word_at(data.address() + kCopyBytes - 4), 6U);
}

TEST_F(Copy, WithoutAStreamFromPinnedMemoryHasArrivedWhenTheCallReturns) {
  const Buffer data(kCopyWords);
  const Buffer copy(kCopyWords);
  const Stream other;
  const Pinned pinned(kCopyWords, 7);
  CU_ASSERT(cu().cuMemcpyHtoD(data.address(), pinned.data(), kCopyBytes));
  // A non-blocking stream is ordered with it by the host alone.
  CU_ASSERT(copy_words(other.get(), copy.address(), data.address(), kCopyWords));
  CU_ASSERT(cu().cuStreamSynchronize(other.get()));
  EXPECT_EQ(word_at(copy.address()), 7U);
}

TEST_F(Copy, WithoutAStreamFromPageableMemoryHasReadItWhenTheCallReturns) {
  // It may have been staged only: the manual promises the arrival to those who wait for the legacy
  // stream (API synchronization behavior, "Memcpy").
  const Buffer data(kCopyWords);
  const Buffer copy(kCopyWords);
  const Stream other;
  const Event arrived;
  std::vector<uint32_t> pageable(kCopyWords, 7);
  CU_ASSERT(cu().cuMemcpyHtoD(data.address(), pageable.data(), kCopyBytes));
  std::fill(pageable.begin(), pageable.end(), 8);
  CU_ASSERT(cu().cuEventRecord(arrived.get(), CU_STREAM_LEGACY));
  CU_ASSERT(cu().cuStreamWaitEvent(other.get(), arrived.get(), 0));
  CU_ASSERT(copy_words(other.get(), copy.address(), data.address(), kCopyWords));
  CU_ASSERT(cu().cuStreamSynchronize(other.get()));
  EXPECT_EQ(word_at(copy.address()), 7U);
  EXPECT_EQ(word_at(copy.address() + kCopyBytes - 4), 7U);
}

TEST_F(Copy, WorksFromMappedMemoryThatWasRegistered) {
  void* const pages =
      mmap(nullptr, kCopyBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const words = static_cast<uint32_t*>(pages);
  std::fill_n(words, kCopyWords, 11);
  CU_ASSERT(cu().cuMemHostRegister(pages, kCopyBytes, CU_MEMHOSTREGISTER_PORTABLE));
  CU_EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            cu().cuMemHostRegister(pages, kCopyBytes, CU_MEMHOSTREGISTER_PORTABLE));
  const Buffer data(kCopyWords);
  const Buffer busy(kCopyWords);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(data.address(), pages, kCopyBytes, stream.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(data.address() + kCopyBytes - 4), 11U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemHostUnregister(pages));
  CU_EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu().cuMemHostUnregister(pages));
  EXPECT_EQ(munmap(pages, kCopyBytes), 0);
}

TEST_F(Copy, OfAKernelsResultIsNotNeededWhereItWritesToMemoryThatWasRegistered) {
  void* const pages =
      mmap(nullptr, kCopyBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const words = static_cast<uint32_t*>(pages);
  CU_ASSERT(cu().cuMemHostRegister(pages, kCopyBytes, CU_MEMHOSTREGISTER_PORTABLE));
  CUdeviceptr on_device = 0;
  CU_ASSERT(cu().cuMemHostGetDevicePointer(&on_device, words + 16, 0));
  const Stream stream;
  CU_ASSERT(fill(stream.get(), on_device, 9, 32, long_time()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(words[15], 0U);
  EXPECT_EQ(words[16], 9U);
  EXPECT_EQ(words[47], 9U);
  EXPECT_EQ(words[48], 0U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemHostUnregister(pages));
  EXPECT_EQ(munmap(pages, kCopyBytes), 0);
}

TEST_F(Copy, BothWaysAtOnceKeepsBothResults) {
  const Buffer in(kCopyWords);
  const Buffer out(kCopyWords);
  const Stream down;
  const Stream up;
  const Pinned source(kCopyWords, 21);
  const Pinned destination(kCopyWords, 0);
  CU_ASSERT(cu().cuMemsetD32(out.address(), 22, kCopyWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  for (int i = 0; i < 8; ++i) {
    CU_ASSERT(cu().cuMemcpyHtoDAsync(in.address(), source.data(), kCopyBytes, down.get()));
    CU_ASSERT(cu().cuMemcpyDtoHAsync(destination.data(), out.address(), kCopyBytes, up.get()));
  }
  CU_ASSERT(cu().cuCtxSynchronize());
  EXPECT_EQ(word_at(in.address() + kCopyBytes - 4), 21U);
  EXPECT_EQ(destination.data()[kCopyWords - 1], 22U);
}

TEST_F(Allocation, IsFreedOnlyWhenTheWorkThatUsesItIsDone) {
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAlloc(&memory, kCopyBytes));
  const Stream stream;
  CU_ASSERT(fill(stream.get(), memory, 1, kCopyWords, long_time()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuStreamQuery(stream.get()));
  CU_ASSERT(cu().cuMemFree(memory));
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamQuery(stream.get()));
}

TEST_F(Allocation, IsAlignedTo512Bytes) {
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{4097}, size_t{3} << 20}) {
    CUdeviceptr memory = 0;
    CU_ASSERT(cu().cuMemAlloc(&memory, bytes));
    EXPECT_EQ(memory % 512, 0U) << bytes;
    CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
  }
}

TEST_F(Allocation, CannotBeFreedTwice) {
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAlloc(&memory, kCopyBytes));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cu().cuMemFree(memory));
}

TEST_F(Allocation, KnowsItsRangeAndType) {
  const Buffer data(kCopyWords);
  CUdeviceptr base = 0;
  size_t size = 0;
  CU_ASSERT(cu().cuMemGetAddressRange(&base, &size, data.address() + 1000));
  EXPECT_EQ(base, data.address());
  EXPECT_EQ(size, kCopyBytes);
  unsigned type = 0;
  CU_ASSERT(cu().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, data.address()));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  uint32_t local = 0;
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE,
            cu().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       reinterpret_cast<CUdeviceptr>(&local)));
}

TEST_F(Allocation, InStreamOrderIsReusedInStreamOrder) {
  const Stream stream;
  const Pinned back(kCopyWords, 0);
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  CU_ASSERT(cu().cuMemAllocAsync(&first, kCopyBytes, stream.get()));
  CU_ASSERT(fill(stream.get(), first, 1, kCopyWords, long_time()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(back.data(), first, kCopyBytes, stream.get()));
  CU_ASSERT(cu().cuMemFreeAsync(first, stream.get()));
  CU_ASSERT(cu().cuMemAllocAsync(&second, kCopyBytes, stream.get()));
  CU_ASSERT(fill(stream.get(), second, 2, kCopyWords));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  RecordProperty("address_reused", first == second ? "yes" : "no");
  EXPECT_EQ(back.data()[0], 1U);
  EXPECT_EQ(word_at(second + kCopyBytes - 4), 2U);
  CU_ASSERT(cu().cuMemFreeAsync(second, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
}

TEST_F(Allocation, InStreamOrderMayBeFreedByCuMemFree) {
  const Stream stream;
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuMemAllocAsync(&memory, kCopyBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
}

TEST_F(Allocation, FromTheDefaultPoolIsCountedByThePool) {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  cuuint64_t before = 0;
  cuuint64_t during = 0;
  CUdeviceptr memory = 0;
  CU_ASSERT(cu().cuDeviceGetDefaultMemPool(&pool, 0));
  CU_ASSERT(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &before));
  CU_ASSERT(cu().cuMemAllocAsync(&memory, kGranule, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  CU_ASSERT(cu().cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &during));
  EXPECT_EQ(during - before, kGranule);
  CU_ASSERT(cu().cuMemFreeAsync(memory, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
}

TEST_F(Allocation, SmallOrLargeIsWithinWhatItsPoolHolds) {
  const Stream stream;
  CUmemoryPool pool = nullptr;
  CU_ASSERT(cu().cuDeviceGetDefaultMemPool(&pool, 0));
  const auto attribute = [pool](CUmemPool_attribute which) {
    cuuint64_t bytes = 0;
    EXPECT_EQ(cu().cuMemPoolGetAttribute(pool, which, &bytes), CUDA_SUCCESS);
    return bytes;
  };
  std::vector<CUdeviceptr> live;
  for (const size_t bytes : {size_t{512}, size_t{700'000}, 3 * kGranule}) {
    CUdeviceptr memory = 0;
    CU_ASSERT(cu().cuMemAllocAsync(&memory, bytes, stream.get()));
    live.push_back(memory);
    // At once: superpipe asks right after the call.
    EXPECT_GE(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
              attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  }
  const cuuint64_t held = attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  EXPECT_GE(held, 3 * kGranule);
  for (const CUdeviceptr memory : live) CU_ASSERT(cu().cuMemFreeAsync(memory, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  CU_ASSERT(cu().cuMemPoolTrimTo(pool, 0));
  EXPECT_LE(attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) + 3 * kGranule, held);
}

}  // namespace
}  // namespace conformance
