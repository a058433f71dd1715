// Pages that lie on the host and are mapped at device addresses.

#include <algorithm>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

/// Skips where the device has no such pages, or the driver creates none, as in some containers.
class HostPages : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    int has = 0;
    // A driver that does not know the attribute has none either.
    const CUresult asked = cu().cuDeviceGetAttribute(
        &has, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    if (asked != CUDA_SUCCESS || has == 0) GTEST_SKIP() << "the device has no pages on the host";
    const Pages tried(kGranule, host_pages());
    if (tried.status() != CUDA_SUCCESS) {
      GTEST_SKIP() << "the driver creates no pages on the host: " << describe(tried.status());
    }
  }
};

TEST_F(HostPages, AreReadAndWrittenByKernelsCopiesAndFills) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages pages(kGranule, host_pages());
  CU_ASSERT(pages.status());
  CU_ASSERT(map(range.address(), kGranule, pages.handle()));
  const Stream stream;
  const Buffer seen(64);
  CU_ASSERT(cu().cuMemsetD32Async(range.address(), 5, kGranuleWords, stream.get()));
  CU_ASSERT(fill(stream.get(), range.address(), 6, 32));
  CU_ASSERT(copy_words(stream.get(), seen.address(), range.address() + 31 * 4, 2));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(seen.address()), 6U);
  EXPECT_EQ(word_at(seen.address() + 4), 5U);
  EXPECT_EQ(word_at(range.address() + kGranule - 4), 5U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(range.address(), kGranule));
}

TEST_F(HostPages, TakeTurnsWithPagesOfTheDeviceAtAnAddress) {
  const Reservation range(kGranule);
  CU_ASSERT(range.status());
  const Pages device(kGranule);
  const Pages host(kGranule, host_pages());
  CU_ASSERT(device.status());
  CU_ASSERT(host.status());
  const Stream stream;
  for (uint32_t round = 0; round < 8; ++round) {
    const Pages& pages = round % 2 == 0 ? device : host;
    CU_ASSERT(map(range.address(), kGranule, pages.handle()));
    if (round >= 2) {
      EXPECT_EQ(word_at(range.address()), 100 + round - 2);
    }
    CU_ASSERT(fill(stream.get(), range.address(), 100 + round, 16));
    CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
    CU_ASSERT(cu().cuMemUnmap(range.address(), kGranule));
  }
}

TEST_F(HostPages, AreCopiedToAndFromThroughAWindow) {
  const Reservation window(kGranule);
  const Reservation base(kGranule);
  CU_ASSERT(window.status());
  CU_ASSERT(base.status());
  const Pages host(kGranule, host_pages());
  CU_ASSERT(host.status());
  CU_ASSERT(map(window.address(), kGranule, host.handle()));
  CU_ASSERT(map(base.address(), kGranule, host.handle()));
  const Stream stream;
  const Buffer device(kGranuleWords);
  CU_ASSERT(fill(stream.get(), device.address(), 8, kGranuleWords));
  CU_ASSERT(cu().cuMemcpyDtoDAsync(window.address(), device.address(), kGranule, stream.get()));
  CU_ASSERT(copy_words(stream.get(), device.address(), base.address() + kGranule - 64, 16));
  CU_ASSERT(fill(stream.get(), base.address(), 9, 16));
  CU_ASSERT(cu().cuMemcpyDtoDAsync(device.address(), window.address(), 64, stream.get()));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  EXPECT_EQ(word_at(device.address()), 9U);
  EXPECT_EQ(word_at(base.address() + kGranule - 4), 8U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(window.address(), kGranule));
  CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(base.address(), kGranule));
}

TEST_F(HostPages, TakeNoMemoryOfTheDevice) {
  constexpr size_t kMany = 32 * kGranule;
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  CU_ASSERT(cu().cuMemGetInfo(&before, &total));
  const Pages host(kMany, host_pages());
  CU_ASSERT(host.status());
  CU_ASSERT(cu().cuMemGetInfo(&after, &total));
  EXPECT_LT(before - std::min(before, after), kMany / 2) << "but for page tables";
}

TEST_F(HostPages, HaveAGranularityThatDividesTwoMebibytes) {
  const CUmemAllocationProp properties = host_pages();
  size_t granularity = 0;
  CU_ASSERT(cu().cuMemGetAllocationGranularity(&granularity, &properties,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  ASSERT_GT(granularity, 0U);
  EXPECT_EQ(kGranule % granularity, 0U) << granularity;
}

}  // namespace
}  // namespace conformance
