// Copies and fills of other shapes than a plain range, and what pointers say of themselves.

#include <algorithm>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using Transfer = ConformanceTest;
using PointerAttributes = ConformanceTest;

constexpr uint32_t kRowWords = 64;
constexpr size_t kRowBytes = kRowWords * sizeof(uint32_t);
constexpr size_t kPitch = 2 * kRowBytes;
constexpr size_t kRows = 32;
constexpr uint32_t kAreaWords = kPitch / sizeof(uint32_t) * kRows;
constexpr size_t kAreaBytes = kAreaWords * sizeof(uint32_t);

/// Whether of each row of `words` the first half is `inside` and the second `beside`.
bool has_rows(const uint32_t* words, uint32_t inside, uint32_t beside) {
  for (uint32_t i = 0; i < kAreaWords; ++i) {
    if (words[i] != (i % (2 * kRowWords) < kRowWords ? inside : beside)) return false;
  }
  return true;
}

CUDA_MEMCPY2D rows(CUmemorytype from_type, CUmemorytype to_type) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  copy.srcPitch = copy.dstPitch = kPitch;
  copy.WidthInBytes = kRowBytes;
  copy.Height = kRows;
  return copy;
}

TEST_F(Transfer, OfRowsLeavesWhatIsBesideThem) {
  const Buffer data(kAreaWords);
  const Stream stream;
  const Pinned source(kAreaWords, 41);
  const Pinned target(kAreaWords, 0);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kAreaWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CUDA_MEMCPY2D in = rows(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
  in.srcHost = source.data();
  in.dstDevice = data.address();
  CU_ASSERT(cu().cuMemcpy2DAsync(&in, stream.get()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(target.data(), data.address(), kAreaBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_TRUE(has_rows(target.data(), 41, 1));
  std::fill_n(target.data(), kAreaWords, 0);
  CUDA_MEMCPY2D out = rows(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
  out.srcDevice = data.address();
  out.dstHost = target.data();
  CU_ASSERT(cu().cuMemcpy2D(&out));
  EXPECT_TRUE(has_rows(target.data(), 41, 0));
}

TEST_F(Transfer, OfABoxIsOneOfItsSlices) {
  const Buffer data(kAreaWords);
  const Stream stream;
  const Pinned source(kAreaWords, 42);
  const Pinned target(kAreaWords, 0);
  CU_ASSERT(cu().cuMemsetD32(data.address(), 1, kAreaWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = source.data();
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = data.address();
  box.srcPitch = box.dstPitch = kPitch;
  box.srcHeight = box.dstHeight = kRows / 2;
  box.WidthInBytes = kRowBytes;
  box.Height = kRows / 2;
  box.Depth = 2;
  CU_ASSERT(cu().cuMemcpy3DAsync(&box, stream.get()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(target.data(), data.address(), kAreaBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_TRUE(has_rows(target.data(), 42, 1));
}

TEST_F(Transfer, BetweenContextsOfOneDeviceIsACopy) {
  CUcontext context = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&context));
  const Buffer from(kAreaWords);
  const Buffer to(kAreaWords);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), from.address(), 43, kAreaWords, long_time()));
  CU_ASSERT(cu().cuMemcpyPeerAsync(to.address(), context, from.address(), context, kAreaBytes,
                                   stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(to.address() + kAreaBytes - 4), 43U);
  const Buffer third(kAreaWords);
  const Buffer fourth(kAreaWords);
  CU_ASSERT(cu().cuMemcpyPeer(third.address(), context, to.address(), context, kAreaBytes));
  CU_ASSERT(cu().cuMemcpyDtoD(fourth.address(), third.address(), kAreaBytes));
  EXPECT_EQ(word_at(fourth.address() + kAreaBytes - 4), 43U);
}

TEST_F(Transfer, OfABatchIsInStreamOrder) {
  const Buffer first(kAreaWords);
  const Buffer second(kAreaWords);
  const Stream stream;
  const Pinned source(2 * kAreaWords, 44);
  const Pinned target(kAreaWords, 0);
  CUdeviceptr targets[] = {first.address(), second.address()};
  CUdeviceptr sources[] = {reinterpret_cast<CUdeviceptr>(source.data()),
                           reinterpret_cast<CUdeviceptr>(source.data() + kAreaWords)};
  size_t sizes[] = {kAreaBytes, kAreaBytes};
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t of_first = 0;
  CU_ASSERT(fill(stream.get(), second.address(), 1, kAreaWords, long_time()));
  CU_ASSERT(
      cu().cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &of_first, 1, stream.get()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(target.data(), second.address(), kAreaBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(target.data()[0], 44U);
  EXPECT_EQ(target.data()[kAreaWords - 1], 44U);
  EXPECT_EQ(word_at(first.address()), 44U);
}

TEST_F(Transfer, OfABatchOfBoxesIsInStreamOrder) {
  constexpr uint32_t kWords = 64;
  const Buffer from(kWords);
  const Buffer to(kWords);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), to.address(), 0, kWords));
  CU_ASSERT(fill(stream.get(), from.address(), 83, kWords, long_time()));
  CUDA_MEMCPY3D_BATCH_OP box{};
  box.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = from.address();
  box.src.op.ptr.rowLength = 128;
  box.dst = box.src;
  box.dst.op.ptr.ptr = to.address();
  box.extent = {4, 2, 1};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CU_ASSERT(cu().cuMemcpy3DBatchAsync(1, &box, 0, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(to.address()), 83U);
  EXPECT_EQ(word_at(to.address() + 4), 0U);
  EXPECT_EQ(word_at(to.address() + 128), 83U);
}

TEST_F(Transfer, FillsOfOtherWidthsAndOfRowsAreInStreamOrder) {
  const Buffer data(kAreaWords);
  const Stream stream;
  const Pinned target(kAreaWords, 0);
  CU_ASSERT(fill(stream.get(), data.address(), 1, kAreaWords, long_time()));
  CU_ASSERT(cu().cuMemsetD8Async(data.address(), 0x56, kAreaBytes, stream.get()));
  CU_ASSERT(cu().cuMemsetD16Async(data.address(), 0x1234, kAreaWords, stream.get()));
  CU_ASSERT(cu().cuMemsetD2D32Async(data.address(), kPitch, 45, kRowWords, kRows, stream.get()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(target.data(), data.address(), kAreaBytes, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  // The two-byte fill ends in the middle.
  EXPECT_EQ(target.data()[0], 45U);
  EXPECT_EQ(target.data()[kRowWords], 0x12341234U);
  EXPECT_EQ(target.data()[kAreaWords - 1], 0x56565656U);
}

TEST_F(Transfer, FindsOutByItselfWhichSideIsTheDevice) {
  const Buffer data(kAreaWords);
  std::vector<uint32_t> host(kAreaWords, 46);
  const auto address = reinterpret_cast<CUdeviceptr>(host.data());
  CU_ASSERT(cu().cuMemcpy(data.address(), address, kAreaBytes));
  std::fill(host.begin(), host.end(), 0);
  CU_ASSERT(cu().cuMemcpy(address, data.address(), kAreaBytes));
  EXPECT_EQ(host.front(), 46U);
  EXPECT_EQ(host.back(), 46U);
}

TEST_F(Transfer, OfRowsFitsAnAllocationThatTheDriverPitched) {
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  CU_ASSERT(cu().cuMemAllocPitch(&memory, &pitch, kRowBytes, kRows, sizeof(uint32_t)));
  EXPECT_GE(pitch, kRowBytes);
  const std::vector<uint32_t> host(kRowWords, 47);
  const CUdeviceptr last = memory + (kRows - 1) * pitch;
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemcpyHtoD(last, host.data(), kRowBytes));
  EXPECT_EQ(word_at(last + kRowBytes - sizeof(uint32_t)), 47U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemFree(memory));
}

TEST_F(PointerAttributes, AreAskedForSeveralAtOnce) {
  const Buffer data(kRowWords);
  unsigned type = 0;
  CUdeviceptr start = 0;
  size_t size = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &start, &size};
  CU_ASSERT(cu().cuPointerGetAttributes(3, names, values, data.address() + 8));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(start, data.address());
  EXPECT_EQ(size, kRowBytes);
}

TEST_F(PointerAttributes, OfUnknownMemoryAreNullAndNoError) {
  uint32_t local = 0;
  unsigned type = 77;
  CUcontext context = reinterpret_cast<CUcontext>(&local);
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* values[] = {&type, &context};
  CU_ASSERT(cu().cuPointerGetAttributes(2, names, values, reinterpret_cast<CUdeviceptr>(&local)));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(context, nullptr);
}

// In a process of its own: superpipe leaves every buffer on the device once a program has done so.
int set_attribute() {
  CUdeviceptr memory = 0;
  const uint32_t on = 1;
  if (cu().cuMemAlloc(&memory, kAreaBytes) != CUDA_SUCCESS) return kSetUpFailed;
  constexpr CUpointer_attribute kSync = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
  const CUresult set = cu().cuPointerSetAttribute(&on, kSync, memory);
  if (set == CUDA_ERROR_NOT_SUPPORTED) return kUnsupported;
  if (set != CUDA_SUCCESS) return kNotAsClaimed;
  const auto host = reinterpret_cast<CUdeviceptr>(&on);
  return cu().cuPointerSetAttribute(&on, kSync, host) != CUDA_SUCCESS ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kSetAttribute("set_attribute", set_attribute);

TEST_F(PointerAttributes, AreSetForAllocationsOnly) {
  const int code = run_in_child("set_attribute");
  if (code == kUnsupported) GTEST_SKIP() << "no cuPointerSetAttribute";
  EXPECT_EQ(code, kAsClaimed);
}

TEST_F(PointerAttributes, OfAMappingLeadToItsPages) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CUmemGenericAllocationHandle retained = 0;
  const CUresult result = cu().cuMemRetainAllocationHandle(
      &retained, reinterpret_cast<void*>(range.address() + kGranule / 2));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
  CU_ASSERT(result);
  EXPECT_EQ(retained, pages.handle());
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemRelease(retained));
}

}  // namespace
}  // namespace conformance
