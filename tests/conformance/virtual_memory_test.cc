// Virtual memory management: what arena, pages and windows rest on.

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using VirtualMemory = ConformanceTest;

TEST_F(VirtualMemory, ShowsBytesThatWereCopiedThroughAMapping) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  const std::vector<uint32_t> written(kGranuleWords, 0x1234);
  std::vector<uint32_t> read(kGranuleWords);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemcpyHtoD(range.address(), written.data(), kGranule));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemcpyDtoH(read.data(), range.address(), kGranule));
  EXPECT_EQ(read, written);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, HasAGranularityThatDividesTwoMebibytes) {
  const CUmemAllocationProp properties = device_pages();
  size_t granularity = 0;
  CU_ASSERT(cu().cuMemGetAllocationGranularity(&granularity, &properties,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  ASSERT_GT(granularity, 0U);
  EXPECT_EQ(kGranule % granularity, 0U) << granularity;
  CU_ASSERT(cu().cuMemGetAllocationGranularity(&granularity, &properties,
                                               CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(kGranule % granularity, 0U) << granularity;
}

TEST_F(VirtualMemory, ReservesATebibyteWithoutUsingMemory) {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  CU_ASSERT(cu().cuMemGetInfo(&before, &total));
  const Reservation arena(size_t{1} << 40);
  CU_ASSERT(arena.status());
  CU_ASSERT(cu().cuMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_F(VirtualMemory, AlignsAReservationAsAsked) {
  constexpr size_t kAlignment = size_t{64} << 20;
  const Reservation range(kGranule, kAlignment);
  CU_ASSERT(range.status());
  EXPECT_EQ(range.address() % kAlignment, 0U);
}

TEST_F(VirtualMemory, RefusesSizesThatAreNoMultipleOfTheGranularity) {
  const Pages pages(kGranule + 4096);
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, pages.status());
}

TEST_F(VirtualMemory, KeepsAMappingWhoseHandleWasReleased) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_ASSERT(cu().cuMemsetD32(range.address(), 77, kGranuleWords));
  CU_ASSERT(pages.release());
  EXPECT_EQ(word_at(range.address()), 77U);
  CU_ASSERT(cu().cuMemsetD32(range.address(), 78, kGranuleWords));
  EXPECT_EQ(word_at(range.address() + kGranule - 4), 78U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, SharesBytesBetweenAliasesOfOneHandleInStreamOrder) {
  const Reservation first(kGranule);
  const Reservation second(kGranule);
  CU_ASSERT(first.status());
  CU_ASSERT(second.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(first.address(), kGranule, pages.handle()));
  CU_ASSERT(map(second.address(), kGranule, pages.handle()));
  const Stream stream;
  const Pinned written(kGranuleWords, 1);
  const Pinned read(kGranuleWords, 0);
  for (uint32_t round = 1; round <= 20; ++round) {
    // Copy engine through one alias, kernel through the other, copy engine through the first.
    std::fill_n(written.data(), kGranuleWords, round);
    CU_ASSERT(cu().cuMemcpyHtoDAsync(first.address(), written.data(), kGranule, stream.get()));
    CU_ASSERT(copy_words(stream.get(), second.address() + 4096, second.address(), 512));
    CU_ASSERT(fill(stream.get(), second.address(), round + 1000, 64));
    CU_ASSERT(cu().cuMemcpyDtoHAsync(read.data(), first.address(), kGranule, stream.get()));
    CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
    ASSERT_EQ(read.data()[0], round + 1000) << "the copy engine misses what the kernel wrote";
    ASSERT_EQ(read.data()[64], round) << "bytes beside the kernel's are lost";
    ASSERT_EQ(read.data()[1024], round) << "the kernel misses what the copy engine wrote";
  }
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(first.address(), kGranule));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(second.address(), kGranule));
}

TEST_F(VirtualMemory, ShowsTheNewBytesWhenOtherPagesAreMappedAtAnAddress) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages first(kGranule);
  const Pages second(kGranule);
  CU_ASSERT(first.status());
  CU_ASSERT(second.status());
  const Stream stream;
  const Buffer seen(4);
  for (uint32_t round = 0; round < 8; ++round) {
    const Pages& pages = round % 2 == 0 ? first : second;
    CU_ASSERT(map(range.address(), kGranule, pages.handle()));
    if (round >= 2) {
      // What was written two rounds ago through this address, seen by copy engine and kernel.
      EXPECT_EQ(word_at(range.address()), 100 + round - 2);
      CU_ASSERT(copy_words(stream.get(), seen.address(), range.address(), 4));
      CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
      EXPECT_EQ(word_at(seen.address()), 100 + round - 2);
    }
    CU_ASSERT(fill(stream.get(), range.address(), 100 + round, 16));
    CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
    CU_ASSERT(cu().cuMemUnmap(range.address(), kGranule));
  }
}

TEST_F(VirtualMemory, MovesPagesToAnotherAddressWithTheirBytes) {
  const Reservation range(2 * kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_ASSERT(cu().cuMemsetD32(range.address(), 4242, kGranuleWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(cu().cuMemUnmap(range.address(), kGranule));
  CU_ASSERT(map(range.address() + kGranule, kGranule, pages.handle()));
  EXPECT_EQ(word_at(range.address() + kGranule), 4242U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address() + kGranule, kGranule));
}

TEST_F(VirtualMemory, DoesNotUnmapAPartOfAMapping) {
  const Reservation range(2 * kGranule);
  CU_ASSERT(range.status());
  const Pages pages(2 * kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), 2 * kGranule, pages.handle()));
  CU_ASSERT(cu().cuMemsetD32(range.address(), 5, 2 * kGranuleWords));
  CU_EXPECT_REFUSED(cu().cuMemUnmap(range.address(), kGranule));
  CU_EXPECT_REFUSED(cu().cuMemUnmap(range.address() + kGranule, kGranule));
  EXPECT_EQ(word_at(range.address()), 5U);
  EXPECT_EQ(word_at(range.address() + kGranule), 5U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), 2 * kGranule));
}

TEST_F(VirtualMemory, RefusesAMapOffsetOtherThanZero) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(2 * kGranule);
  CU_ASSERT(pages.status());
  CU_EXPECT_REFUSED(cu().cuMemMap(range.address(), kGranule, kGranule, pages.handle(), 0));
}

TEST_F(VirtualMemory, RefusesASecondMappingAtAnAddress) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages first(kGranule);
  const Pages second(kGranule);
  CU_ASSERT(first.status());
  CU_ASSERT(second.status());
  CU_ASSERT(map(range.address(), kGranule, first.handle()));
  CU_ASSERT(cu().cuMemsetD32(range.address(), 6, kGranuleWords));
  CU_EXPECT_REFUSED(cu().cuMemMap(range.address(), kGranule, 0, second.handle(), 0));
  EXPECT_EQ(word_at(range.address()), 6U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, IsUsableAfterASecondUnmap) {
  // Drivers may answer either way (580 takes it), so superpipe must never unmap twice by mistake:
  // simgpu refuses it, and its answer would be seen.
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
  const CUresult second = cu().cuMemUnmap(range.address(), kGranule);
  RecordProperty("second_unmap", second == CUDA_SUCCESS ? "taken" : "refused");
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, SetsAccessOfSeveralMappingsInOneCall) {
  const Reservation range(3 * kGranule);
  CU_ASSERT(range.status());
  const Pages first(kGranule);
  const Pages second(2 * kGranule);
  CU_ASSERT(first.status());
  CU_ASSERT(second.status());
  CU_ASSERT(cu().cuMemMap(range.address(), kGranule, 0, first.handle(), 0));
  CU_ASSERT(cu().cuMemMap(range.address() + kGranule, 2 * kGranule, 0, second.handle(), 0));
  CU_ASSERT(set_access(range.address(), 3 * kGranule));
  // One copy and one kernel across the seam.
  const CUdeviceptr seam = range.address() + kGranule;
  const std::vector<uint32_t> written(2048, 31);
  CU_ASSERT(cu().cuMemcpyHtoD(seam - 4096, written.data(), written.size() * 4));
  CU_ASSERT(fill(nullptr, seam - 64, 32, 32));
  EXPECT_EQ(word_at(seam - 128), 31U);
  EXPECT_EQ(word_at(seam - 4), 32U);
  EXPECT_EQ(word_at(seam), 32U);
  EXPECT_EQ(word_at(seam + 64), 31U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(seam, 2 * kGranule));
}

TEST_F(VirtualMemory, AccountsCreatedHandlesAsUsedUntilTheLastUseIsGone) {
  constexpr size_t kCreated = 16 * kGranule;
  const Reservation range(kCreated);
  CU_ASSERT(range.status());
  size_t before = 0;
  size_t created = 0;
  size_t released = 0;
  size_t unmapped = 0;
  size_t total = 0;
  CU_ASSERT(cu().cuMemGetInfo(&before, &total));
  Pages pages(kCreated);
  CU_ASSERT(pages.status());
  CU_ASSERT(cu().cuMemGetInfo(&created, &total));
  EXPECT_EQ(before - created, kCreated);
  CU_ASSERT(map(range.address(), kCreated, pages.handle()));
  CU_ASSERT(pages.release());
  CU_ASSERT(cu().cuMemGetInfo(&released, &total));
  EXPECT_EQ(released, created) << "a released handle that is still mapped keeps its pages";
  CU_ASSERT(cu().cuMemUnmap(range.address(), kCreated));
  CU_ASSERT(cu().cuMemGetInfo(&unmapped, &total));
  EXPECT_EQ(unmapped, before);
}

TEST_F(VirtualMemory, StaysUsableWhenCreateIsOutOfMemory) {
  size_t free = 0;
  size_t total = 0;
  CU_ASSERT(cu().cuMemGetInfo(&free, &total));
  const CUmemAllocationProp properties = device_pages();
  CUmemGenericAllocationHandle handle = 0x5a5a;
  CU_EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
            cu().cuMemCreate(&handle, (total / kGranule + 1) * kGranule, &properties, 0));
  EXPECT_EQ(handle, 0x5a5aU) << "a failed call wrote its output";
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_ASSERT(fill(nullptr, range.address(), 9, 4));
  EXPECT_EQ(word_at(range.address()), 9U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, MapsAndUnmapsWhileKernelsUseOtherAddresses) {
  const Reservation range(2 * kGranule);
  CU_ASSERT(range.status());
  const Pages used(kGranule);
  const Pages moved(kGranule);
  CU_ASSERT(used.status());
  CU_ASSERT(moved.status());
  CU_ASSERT(map(range.address(), kGranule, used.handle()));
  CU_ASSERT(cu().cuMemsetD32(range.address(), 0, kGranuleWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  const Stream stream;
  CU_ASSERT(fill(stream.get(), range.address(), 3, kGranuleWords, long_time()));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    CU_ASSERT(map(range.address() + kGranule, kGranule, moved.handle()));
    CU_ASSERT(cu().cuMemUnmap(range.address() + kGranule, kGranule));
  }
  const auto took = std::chrono::steady_clock::now() - start;
  // Whether the driver waited for the kernel is not ours to demand; it is written down.
  RecordProperty(
      "four_maps_under_load_us",
      static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  RecordProperty("kernel_still_ran",
                 cu().cuStreamQuery(stream.get()) == CUDA_ERROR_NOT_READY ? "yes" : "no");
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(range.address() + kGranule - 4), 3U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, CannotBeSharedAsWhatCuMemAllocMadeCan) {
  const Buffer ordinary(256);
  CUipcMemHandle handle{};
  CU_ASSERT(cu().cuIpcGetMemHandle(&handle, ordinary.address()));
  const Reservation range(kGranule);
  const Pages pages(kGranule);
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cu().cuIpcGetMemHandle(&handle, range.address()));
  CU_ASSERT(cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(VirtualMemory, RefusesToFreeAPartOfAReservation) {
  const Reservation range(4 * kGranule);
  CU_ASSERT(range.status());
  CU_EXPECT_REFUSED(cu().cuMemAddressFree(range.address(), kGranule));
}

TEST_F(VirtualMemory, HasHostLocatedPagesWhereTheAttributeSaysSo) {
  int supported = 0;
  const CUresult asked = cu().cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
  if (asked != CUDA_SUCCESS) GTEST_SKIP() << "the driver does not know the attribute";
  if (supported != 0) {
    // Some drivers crash here, so a child asks.
    const int code = run_in_child("host_located_pages");
    EXPECT_EQ(code, kAsClaimed);
    return;
  }
  CUmemAllocationProp properties = device_pages();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle handle = 0;
  CU_EXPECT_REFUSED(cu().cuMemCreate(&handle, kGranule, &properties, 0));
}

int host_located_pages() {
  CUmemAllocationProp properties = device_pages();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  if (cu().cuMemCreate(&handle, kGranule, &properties, 0) != CUDA_SUCCESS) return kNotAsClaimed;
  if (cu().cuMemAddressReserve(&address, kGranule, 0, 0, 0) != CUDA_SUCCESS) return kSetUpFailed;
  if (map(address, kGranule, handle) != CUDA_SUCCESS) return kNotAsClaimed;
  if (fill(nullptr, address, 7, 16) != CUDA_SUCCESS) return kNotAsClaimed;
  uint32_t word = 0;
  if (cu().cuMemcpyDtoH(&word, address, sizeof(word)) != CUDA_SUCCESS) return kNotAsClaimed;
  return word == 7 ? kAsClaimed : kNotAsClaimed;
}
const ScenarioRegistration kHostLocatedPages("host_located_pages", host_located_pages);

}  // namespace
}  // namespace conformance
