#include <atomic>
#include <numeric>
#include <thread>

#include "tests/simgpu/driver/support/driver_fixture.h"

namespace {

using simgpu_test::kGranule;
using simgpu_test::kMiB;

class Copy : public simgpu_test::DriverTest {
 protected:
  static std::vector<unsigned char> pattern(std::size_t size, unsigned seed = 1) {
    std::vector<unsigned char> bytes(size);
    for (std::size_t index = 0; index < size; ++index) {
      seed = seed * 1664525U + 1013904223U;
      bytes[index] = static_cast<unsigned char>(seed >> 24);
    }
    return bytes;
  }
};

TEST_F(Copy, BringsEveryByteThereAndBackForAnySizeAndOffset) {
  const CUdeviceptr device = allocate(kMiB);
  for (const std::size_t size : {1U, 2U, 63U, 4095U, 4096U, 4097U, 8191U, 8192U, 8193U, 500000U}) {
    const std::vector<unsigned char> bytes = pattern(size, static_cast<unsigned>(size));
    EXPECT_SUCCESS(cuMemcpyHtoD(device + 13, bytes.data(), size));
    EXPECT_EQ(read(device + 13, size), bytes) << size;
  }
}

TEST_F(Copy, BetweenDeviceMemoryKeepsBytes) {
  const CUdeviceptr source = allocate(kMiB);
  const CUdeviceptr target = allocate(kMiB);
  const std::vector<unsigned char> bytes = pattern(kMiB);
  EXPECT_SUCCESS(cuMemcpyHtoD(source, bytes.data(), kMiB));
  EXPECT_SUCCESS(cuMemcpyDtoD(target, source, kMiB));
  EXPECT_EQ(read(target, kMiB), bytes);
}

TEST_F(Copy, UnifiedCopyFindsOutTheDirection) {
  const CUdeviceptr device = allocate(kMiB);
  const std::vector<unsigned char> bytes = pattern(kMiB);
  std::vector<unsigned char> back(kMiB);
  EXPECT_SUCCESS(cuMemcpy(device, reinterpret_cast<CUdeviceptr>(bytes.data()), kMiB));
  EXPECT_SUCCESS(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), device, kMiB));
  EXPECT_EQ(back, bytes);
  std::vector<unsigned char> host(kMiB);
  EXPECT_SUCCESS(cuMemcpy(reinterpret_cast<CUdeviceptr>(host.data()),
                          reinterpret_cast<CUdeviceptr>(bytes.data()), kMiB));
  EXPECT_EQ(host, bytes);
}

TEST_F(Copy, PastTheEndOfAnAllocationIsRefusedWhole) {
  const CUdeviceptr device = allocate(1000);
  std::vector<unsigned char> bytes(2000, 1);
  EXPECT_EQ(cuMemcpyHtoD(device, bytes.data(), 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(device + 1, bytes.data(), 1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), device, 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(device, 1, 1001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(read(device, 1000), std::vector<unsigned char>(1000, 0));
}

TEST_F(Copy, FreedMemoryIsRefused) {
  const CUdeviceptr device = allocate(kMiB);
  EXPECT_SUCCESS(cuMemFree(device));
  std::vector<unsigned char> bytes(64);
  EXPECT_EQ(cuMemcpyDtoH(bytes.data(), device, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, HostAndDevicePointersAreNotInterchangeable) {
  const CUdeviceptr device = allocate(kMiB);
  std::vector<unsigned char> bytes(64);
  EXPECT_EQ(cuMemcpyHtoD(device, reinterpret_cast<void*>(device + 4096), 64),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(bytes.data()), bytes.data(), 64),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, PageableSourceMayChangeOnceAnAsynchronousCallReturned) {
  const CUdeviceptr device = allocate(kMiB);
  const CUstream stream = make_stream();
  std::vector<unsigned char> bytes(kMiB, 3);
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, bytes.data(), kMiB, stream));
  bytes.assign(kMiB, 9);
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(device, kMiB), std::vector<unsigned char>(kMiB, 3));
}

TEST_F(Copy, PinnedSourceIsReadWhenTheCopyRuns) {
#ifdef SUPERPIPE_SANITIZES_THREAD
  GTEST_SKIP() << "the misuse shown here is a data race, which the thread sanitizer reports";
#endif
  const CUdeviceptr device = allocate(4 * kMiB);
  const CUstream stream = make_stream();
  unsigned char* const bytes = allocate_host(4 * kMiB);
  EXPECT_SUCCESS(cuMemcpyHtoDAsync(device, bytes, 4 * kMiB, stream));  // 16 ms
  bytes[4 * kMiB - 1] = 9;  // wrong use: the copy has not completed
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(device + 4 * kMiB - 1, 1).front(), 9);
}

TEST_F(Copy, DeviceToPageableReturnsWhenTheBytesAreThere) {
  const CUdeviceptr device = allocate(kMiB);
  fill(device, 0x42, kMiB);
  std::vector<unsigned char> bytes(kMiB);
  EXPECT_SUCCESS(cuMemcpyDtoHAsync(bytes.data(), device, kMiB, make_stream()));
  EXPECT_EQ(bytes, std::vector<unsigned char>(kMiB, 0x42));
}

TEST_F(Copy, BatchMovesAllOfItAndRefusesTheLegacyStream) {
  const CUdeviceptr device = allocate(kMiB);
  unsigned char* const host = allocate_host(kMiB);
  std::iota(host, host + kMiB, static_cast<unsigned char>(0));
  CUdeviceptr targets[] = {device, device + 4096};
  CUdeviceptr sources[] = {reinterpret_cast<CUdeviceptr>(host + 100),
                           reinterpret_cast<CUdeviceptr>(host)};
  std::size_t sizes[] = {512, 8192};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t start = 0;
  const CUstream stream = make_stream();
  EXPECT_EQ(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &start, 1, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &start, 1, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(device, 512), std::vector<unsigned char>(host + 100, host + 612));
  EXPECT_EQ(read(device + 4096, 8192), std::vector<unsigned char>(host, host + 8192));
  sizes[1] = 2 * kMiB;
  EXPECT_EQ(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &start, 1, stream),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, BatchReadsASourceDuringTheCallWhereItHasTo) {
  const CUdeviceptr device = allocate(kMiB);
  unsigned char* const host = allocate_host(kMiB);
  std::fill(host, host + kMiB, static_cast<unsigned char>(7));
  CUdeviceptr target = device;
  auto source = reinterpret_cast<CUdeviceptr>(host);
  std::size_t size = kMiB;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  std::size_t start = 0;
  const CUstream stream = make_stream();
  EXPECT_SUCCESS(cuMemcpyBatchAsync(&target, &source, &size, 1, &attributes, &start, 1, stream));
  std::fill(host, host + kMiB, static_cast<unsigned char>(8));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  EXPECT_EQ(read(device, kMiB), std::vector<unsigned char>(kMiB, 7));
}

TEST_F(Copy, BatchOfBoxesMovesRowsAndLayersAndRefusesTheLegacyStream) {
  const CUdeviceptr device = allocate(kMiB);
  std::vector<unsigned char> bytes(4096);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  CUDA_MEMCPY3D_BATCH_OP operation{};
  operation.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  operation.src.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(bytes.data());
  operation.src.op.ptr.rowLength = 64;
  operation.src.op.ptr.layerHeight = 4;
  operation.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  operation.dst.op.ptr.ptr = device;
  operation.extent = {10, 3, 2};
  operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const CUstream stream = make_stream();
  EXPECT_EQ(cuMemcpy3DBatchAsync(1, &operation, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy3DBatchAsync(1, &operation, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemcpy3DBatchAsync(1, &operation, 0, stream));
  EXPECT_SUCCESS(cuStreamSynchronize(stream));
  std::vector<unsigned char> expected;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t row = 0; row < 3; ++row) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(layer * 256 + row * 64);
      expected.insert(expected.end(), begin, begin + 10);
    }
  }
  EXPECT_EQ(read(device, expected.size()), expected);
  operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT_EQ(cuMemcpy3DBatchAsync(1, &operation, 0, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, RowsLandAtTheirPitch) {
  constexpr std::size_t kPitch = 512;
  const CUdeviceptr device = allocate(16 * kPitch);
  const std::vector<unsigned char> bytes = pattern(300);
  CUDA_MEMCPY2D what{};
  what.srcMemoryType = CU_MEMORYTYPE_HOST;
  what.srcHost = bytes.data();
  what.srcPitch = 100;
  what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  what.dstDevice = device;
  what.dstPitch = kPitch;
  what.dstXInBytes = 8;
  what.dstY = 2;
  what.WidthInBytes = 100;
  what.Height = 3;
  EXPECT_SUCCESS(cuMemcpy2D(&what));
  std::vector<unsigned char> expected(16 * kPitch, 0);
  for (std::size_t row = 0; row < 3; ++row) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(row * 100), 100,
                expected.begin() + static_cast<std::ptrdiff_t>((row + 2) * kPitch + 8));
  }
  EXPECT_EQ(read(device, 16 * kPitch), expected);
  what.srcPitch = 99;
  EXPECT_EQ(cuMemcpy2D(&what), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Copy, BoxesComeBackAsTheyWent) {
  const CUdeviceptr device = allocate(kMiB);
  const std::vector<unsigned char> bytes = pattern(std::size_t{4} * 5 * 6);
  std::vector<unsigned char> back(bytes.size());
  CUDA_MEMCPY3D there{};
  there.srcMemoryType = CU_MEMORYTYPE_HOST;
  there.srcHost = bytes.data();
  there.srcPitch = 6;
  there.srcHeight = 5;
  there.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  there.dstDevice = device;
  there.dstPitch = 64;
  there.dstHeight = 9;
  there.WidthInBytes = 6;
  there.Height = 5;
  there.Depth = 4;
  CUDA_MEMCPY3D home{};
  home.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  home.srcDevice = device;
  home.srcPitch = 64;
  home.srcHeight = 9;
  home.dstMemoryType = CU_MEMORYTYPE_HOST;
  home.dstHost = back.data();
  home.dstPitch = 6;
  home.dstHeight = 5;
  home.WidthInBytes = 6;
  home.Height = 5;
  home.Depth = 4;
  EXPECT_SUCCESS(cuMemcpy3D(&there));
  EXPECT_SUCCESS(cuMemcpy3D(&home));
  EXPECT_EQ(back, bytes);
}

TEST_F(Copy, FillsRepeatTheirPattern) {
  const CUdeviceptr device = allocate(kMiB);
  EXPECT_SUCCESS(cuMemsetD32(device, 0x04030201, 5000));
  EXPECT_SUCCESS(cuMemsetD16(device + 20000, 0x0605, 3));
  EXPECT_EQ(cuMemsetD32(device + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  const std::vector<unsigned char> bytes = read(device, 20008);
  for (std::size_t index = 0; index < 20000; ++index) ASSERT_EQ(bytes[index], index % 4 + 1);
  EXPECT_EQ((std::vector<unsigned char>(bytes.begin() + 20000, bytes.end())),
            (std::vector<unsigned char>{5, 6, 5, 6, 5, 6, 0, 0}));
}

TEST_F(Copy, FillOfRowsLeavesTheGapsAlone) {
  const CUdeviceptr device = allocate(64);
  EXPECT_SUCCESS(cuMemsetD2D8(device, 16, 7, 4, 3));
  const std::vector<unsigned char> bytes = read(device, 64);
  for (std::size_t index = 0; index < 64; ++index) {
    EXPECT_EQ(bytes[index], index < 48 && index % 16 < 4 ? 7 : 0) << index;
  }
}

TEST_F(Copy, BetweenDevicesKeepsBytes) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  const CUdeviceptr here = allocate(kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const CUdeviceptr there = allocate(kMiB);
  fill(there, 0x33, kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  EXPECT_SUCCESS(cuMemcpyPeer(here, context_, there, second, kMiB));
  EXPECT_EQ(read(here, kMiB), std::vector<unsigned char>(kMiB, 0x33));
  // The driver knows whose memory cuMemAlloc made.
  fill(here, 0x44, kMiB);
  EXPECT_SUCCESS(cuMemcpyDtoD(there, here, kMiB));
  EXPECT_EQ(read(there, kMiB), std::vector<unsigned char>(kMiB, 0x44));
}

// Streams that wait for nobody else's work; cuMemcpyPeerAsync on them does not, either.
TEST_F(Copy, BetweenContextsWaitsForTheWorkOfBothUnlessItIsAsynchronous) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  const CUdeviceptr here = allocate(kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const CUdeviceptr there = allocate(kMiB);
  CUstream far = nullptr;
  ASSERT_SUCCESS(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
  std::atomic<bool> may_go_on{false};
  const auto hold = [](void* data) {
    while (!static_cast<std::atomic<bool>*>(data)->load()) std::this_thread::yield();
  };
  ASSERT_SUCCESS(cuLaunchHostFunc(far, hold, &may_go_on));
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  EXPECT_SUCCESS(cuMemcpyPeerAsync(here, context_, there, second, kMiB, nullptr));
  EXPECT_SUCCESS(cuStreamSynchronize(nullptr));
  EXPECT_SUCCESS(cuMemcpyPeer(here, context_, there, second, kMiB));
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  may_go_on = true;
  EXPECT_SUCCESS(cuStreamSynchronize(nullptr));
}

TEST_F(Copy, OfMappedMemoryBetweenDevicesNeedsAccessOrNamesTheContexts) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const CUdeviceptr there = allocate(kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  const CUmemGenericAllocationHandle page = create(kGranule);
  const CUdeviceptr here = reserve_and_map(kGranule, page, kGranule);
  fill(here, 0x55, kGranule);
  EXPECT_EQ(cuMemcpyDtoD(there, here, kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpy(here, there, kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_SUCCESS(cuMemcpyPeer(there, second, here, context_, kMiB));
  EXPECT_EQ(read(there, kMiB), std::vector<unsigned char>(kMiB, 0x55));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_SUCCESS(cuMemSetAccess(here, kGranule, &access, 1));
  EXPECT_SUCCESS(cuMemcpyDtoD(there, here, kMiB));
  EXPECT_SUCCESS(cuCtxSynchronize());  // the copy does not
  EXPECT_SUCCESS(cuMemUnmap(here, kGranule));
  EXPECT_SUCCESS(cuMemRelease(page));
  EXPECT_SUCCESS(cuMemAddressFree(here, kGranule));
}

TEST_F(Copy, OfPoolMemoryBetweenDevicesNeedsAccess) {
  CUcontext second = nullptr;
  ASSERT_SUCCESS(cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_SUCCESS(cuCtxSetCurrent(second));
  const CUdeviceptr there = allocate(kMiB);
  ASSERT_SUCCESS(cuCtxSetCurrent(context_));
  CUdeviceptr here = 0;
  ASSERT_SUCCESS(cuMemAllocAsync(&here, kMiB, nullptr));
  fill(here, 0x66, kMiB);
  EXPECT_EQ(cuMemcpyDtoD(there, here, kMiB), CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool pool = nullptr;
  ASSERT_SUCCESS(cuDeviceGetDefaultMemPool(&pool, 0));
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 1;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  EXPECT_EQ(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_SUCCESS(cuMemPoolSetAccess(pool, &access, 1));
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_SUCCESS(cuMemPoolGetAccess(&flags, pool, &access.location));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_SUCCESS(cuMemcpyDtoD(there, here, kMiB));
  EXPECT_EQ(read(there, kMiB), std::vector<unsigned char>(kMiB, 0x66));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_SUCCESS(cuMemPoolSetAccess(pool, &access, 1));
  EXPECT_SUCCESS(cuMemFreeAsync(here, nullptr));
}

}  // namespace
