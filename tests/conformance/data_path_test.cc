// The way that superpipe moves buffers: pages are filled and saved through a window, a second
// address that the program never sees, while the buffer's own address is mapped and unmapped.

#include <algorithm>
#include <array>
#include <string>

#include "tests/conformance/fixture.h"
#include "tests/hang_limit.h"

namespace conformance {
namespace {

using DataPath = ConformanceTest;

/// A page with its window, and the addresses of two buffers that it can be mapped at in turn.
class MovedPage {
 public:
  MovedPage() : pages_(kGranule), window_(kGranule), bases_(2 * kGranule) {
    if (window_.status() != CUDA_SUCCESS || bases_.status() != CUDA_SUCCESS) return;
    if (pages_.status() != CUDA_SUCCESS) return;
    status_ = conformance::map(window_.address(), kGranule, pages_.handle());
  }
  ~MovedPage() {
    if (mapped_) CU_EXPECT(CUDA_SUCCESS, unmap());
    if (status_ == CUDA_SUCCESS) {
      CU_EXPECT(CUDA_SUCCESS, cu().cuMemUnmap(window_.address(), kGranule));
    }
  }
  MovedPage(const MovedPage&) = delete;
  MovedPage& operator=(const MovedPage&) = delete;

  [[nodiscard]] CUresult status() const { return status_; }
  [[nodiscard]] CUdeviceptr window() const { return window_.address(); }
  /// Where the page is mapped, or was last.
  [[nodiscard]] CUdeviceptr base() const { return bases_.address() + offset_; }
  CUresult map(bool at_second = false) {
    offset_ = at_second ? kGranule : 0;
    const CUresult result = conformance::map(base(), kGranule, pages_.handle());
    mapped_ = result == CUDA_SUCCESS;
    return result;
  }
  CUresult unmap() {
    mapped_ = false;
    return cu().cuMemUnmap(base(), kGranule);
  }

 private:
  const Pages pages_;
  const Reservation window_;
  const Reservation bases_;
  size_t offset_ = 0;
  CUresult status_ = CUDA_ERROR_NOT_SUPPORTED;
  bool mapped_ = false;
};

/// Asks until the event is complete, as superpipe's worker does.
CUresult poll(CUevent event) {
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = cu().cuEventQuery(event);
  return result;
}

TEST_F(DataPath, BringsABufferInThroughAWindowWhileItsAddressIsMapped) {
  MovedPage page;
  CU_ASSERT(page.status());
  const Buffer seen(kGranuleWords);
  const Buffer busy(16);
  const Stream in;
  const Stream compute;
  const Event arrived;
  const Pinned slab(kGranuleWords, 71);
  CU_ASSERT(cu().cuMemsetD32(page.window(), 1, kGranuleWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  // The copy is under way for as long as the kernel in front of it runs.
  CU_ASSERT(fill(in.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(page.window(), slab.data(), kGranule, in.get()));
  CU_ASSERT(cu().cuEventRecord(arrived.get(), in.get()));
  CU_ASSERT(page.map());
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(arrived.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(compute.get(), arrived.get(), 0));
  CU_ASSERT(copy_words(compute.get(), seen.address(), page.base(), kGranuleWords));
  CU_ASSERT(cu().cuStreamSynchronize(compute.get()));
  EXPECT_EQ(word_at(seen.address()), 71U);
  EXPECT_EQ(word_at(seen.address() + kGranule - 4), 71U);
}

TEST_F(DataPath, NeedsTheEventOfTheCopyIn) {
  // The known-bad half of the test above: without the wait, what was there before is read.
  MovedPage page;
  CU_ASSERT(page.status());
  const Buffer busy(16);
  const Stream in;
  const Stream out;
  const Pinned slab(kGranuleWords, 71);
  const Pinned seen(kGranuleWords, 0);
  CU_ASSERT(cu().cuMemsetD32(page.window(), 1, kGranuleWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  CU_ASSERT(fill(in.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(page.window(), slab.data(), kGranule, in.get()));
  CU_ASSERT(page.map());
  CU_ASSERT(cu().cuMemcpyDtoHAsync(seen.data(), page.base(), kGranule, out.get()));
  CU_ASSERT(cu().cuStreamSynchronize(out.get()));
  const CUresult asked = cu().cuStreamQuery(in.get());
  CU_EXPECT(CUDA_ERROR_NOT_READY, asked);
  if (asked == CUDA_ERROR_NOT_READY) {
    EXPECT_EQ(seen.data()[0], 1U) << "a missing wait went unnoticed";
  }
  CU_ASSERT(cu().cuStreamSynchronize(in.get()));
}

TEST_F(DataPath, IsMappedUnderCopiesThatRun) {
  // As above, with nothing but copies in the way, long enough for some to run at each map.
  constexpr int kCopies = 16;
  MovedPage page;
  CU_ASSERT(page.status());
  const Buffer seen(kGranuleWords);
  const Stream in;
  const Stream compute;
  const Event arrived;
  const Pinned slab(kGranuleWords, 0);
  int under_way = 0;
  for (uint32_t round = 1; round <= 8; ++round) {
    std::fill_n(slab.data(), kGranuleWords, round);
    for (int i = 0; i < kCopies; ++i) {
      CU_ASSERT(cu().cuMemcpyHtoDAsync(page.window(), slab.data(), kGranule, in.get()));
    }
    CU_ASSERT(cu().cuEventRecord(arrived.get(), in.get()));
    CU_ASSERT(page.map());
    under_way += cu().cuEventQuery(arrived.get()) == CUDA_ERROR_NOT_READY ? 1 : 0;
    CU_ASSERT(cu().cuStreamWaitEvent(compute.get(), arrived.get(), 0));
    CU_ASSERT(copy_words(compute.get(), seen.address(), page.base(), 4096));
    CU_ASSERT(cu().cuStreamSynchronize(compute.get()));
    EXPECT_EQ(word_at(seen.address()), round);
    EXPECT_EQ(word_at(seen.address() + 4 * 4095), round);
    CU_ASSERT(page.unmap());
  }
  RecordProperty("copies_under_way_after_the_map", under_way);
}

TEST_F(DataPath, SavesABufferThroughItsWindowWhenItsAddressIsUnmapped) {
  MovedPage page;
  CU_ASSERT(page.status());
  CU_ASSERT(page.map());
  const Stream compute;
  const Stream out;
  const Event computed;
  const Event saved;
  const Pinned slab(kGranuleWords, 0);
  CU_ASSERT(fill(compute.get(), page.base(), 72, kGranuleWords, long_time()));
  CU_ASSERT(cu().cuEventRecord(computed.get(), compute.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(computed.get()));
  CU_ASSERT(poll(computed.get()));
  // No wait of the streams: the event was seen to be complete.
  CU_ASSERT(page.unmap());
  CU_ASSERT(cu().cuMemcpyDtoHAsync(slab.data(), page.window(), kGranule, out.get()));
  CU_ASSERT(cu().cuEventRecord(saved.get(), out.get()));
  CU_ASSERT(poll(saved.get()));
  EXPECT_EQ(slab.data()[0], 72U);
  EXPECT_EQ(slab.data()[kGranuleWords - 1], 72U);
}

TEST_F(DataPath, GivesAPageToAnotherBufferWhenItsContentIsSaved) {
  MovedPage page;
  CU_ASSERT(page.status());
  CU_ASSERT(page.map());
  const Stream compute;
  const Stream in;
  const Stream out;
  const Event computed;
  const Event saved;
  const Event arrived;
  const Buffer busy(16);
  const Pinned first(kGranuleWords, 0);
  const Pinned second(kGranuleWords, 74);
  CU_ASSERT(fill(compute.get(), page.base(), 73, kGranuleWords));
  CU_ASSERT(cu().cuEventRecord(computed.get(), compute.get()));
  CU_ASSERT(poll(computed.get()));
  CU_ASSERT(page.unmap());
  // The write-back is late; what comes next waits for it on the device.
  CU_ASSERT(fill(out.get(), busy.address(), 0, 16, long_time()));
  CU_ASSERT(cu().cuMemcpyDtoHAsync(first.data(), page.window(), kGranule, out.get()));
  CU_ASSERT(cu().cuEventRecord(saved.get(), out.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(in.get(), saved.get(), 0));
  CU_ASSERT(cu().cuMemcpyHtoDAsync(page.window(), second.data(), kGranule, in.get()));
  CU_ASSERT(cu().cuEventRecord(arrived.get(), in.get()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(saved.get()));
  CU_ASSERT(page.map(/*at_second=*/true));
  CU_ASSERT(cu().cuStreamWaitEvent(compute.get(), arrived.get(), 0));
  CU_ASSERT(copy_words(compute.get(), page.base() + 4096, page.base(), 256));
  CU_ASSERT(cu().cuStreamSynchronize(compute.get()));
  EXPECT_EQ(first.data()[0], 73U);
  EXPECT_EQ(first.data()[kGranuleWords - 1], 73U);
  EXPECT_EQ(word_at(page.base()), 74U);
  EXPECT_EQ(word_at(page.base() + 4096 + 1020), 74U);
}

TEST_F(DataPath, KeepsTwoBuffersThatTakeTurnsOnOnePage) {
  // Each buffer's content lives in its slab while the other has the page. Nothing waits on the host
  // but for the event after which an address may be unmapped.
  MovedPage page;
  CU_ASSERT(page.status());
  const Stream compute;
  const Stream in;
  const Stream out;
  const Event arrived;
  const Event computed;
  const Event saved;
  const Pinned first_slab(kGranuleWords, 1000);
  const Pinned second_slab(kGranuleWords, 2000);
  const std::array<uint32_t*, 2> slabs = {first_slab.data(), second_slab.data()};
  for (uint32_t round = 0; round < 12; ++round) {
    uint32_t* const slab = slabs[round % 2];
    const uint32_t expected = slab[0];
    if (round > 0) CU_ASSERT(cu().cuStreamWaitEvent(in.get(), saved.get(), 0));
    CU_ASSERT(cu().cuMemcpyHtoDAsync(page.window(), slab, kGranule, in.get()));
    CU_ASSERT(cu().cuEventRecord(arrived.get(), in.get()));
    CU_ASSERT(page.map(round % 2 == 1));
    CU_ASSERT(cu().cuStreamWaitEvent(compute.get(), arrived.get(), 0));
    // The second half becomes what the first half is, and the first word counts the rounds.
    CU_ASSERT(copy_words(compute.get(), page.base() + kGranule / 2, page.base(), 1024));
    CU_ASSERT(fill(compute.get(), page.base(), expected + 1, 1024));
    CU_ASSERT(cu().cuEventRecord(computed.get(), compute.get()));
    CU_ASSERT(poll(computed.get()));
    CU_ASSERT(page.unmap());
    CU_ASSERT(cu().cuMemcpyDtoHAsync(slab, page.window(), kGranule, out.get()));
    CU_ASSERT(cu().cuEventRecord(saved.get(), out.get()));
    CU_ASSERT(poll(saved.get()));
    ASSERT_EQ(slab[0], expected + 1) << "round " << round;
    ASSERT_EQ(slab[kGranuleWords / 2], expected) << "round " << round;
    ASSERT_EQ(slab[kGranuleWords - 1], round % 2 == 0 ? 1000U : 2000U) << "round " << round;
  }
}

TEST_F(DataPath, MovesBothWaysAtOnceAndNotSlowerThanInTurn) {
  constexpr int kCopies = 16;
  const Buffer to(kGranuleWords);
  const Buffer from(kGranuleWords);
  const Stream in;
  const Stream out;
  const Pinned source(kGranuleWords, 81);
  const Pinned target(kGranuleWords, 0);
  CU_ASSERT(cu().cuMemsetD32(from.address(), 82, kGranuleWords));
  CU_ASSERT(cu().cuCtxSynchronize());
  const auto copy = [&](bool goes_in) {
    return goes_in ? cu().cuMemcpyHtoDAsync(to.address(), source.data(), kGranule, in.get())
                   : cu().cuMemcpyDtoHAsync(target.data(), from.address(), kGranule, out.get());
  };
  // Copies of the ways asked for, submitted in turn; in milliseconds, the best of some tries.
  const auto time = [&](bool goes_in, bool goes_out) {
    double best = 1e9;
    for (int tried = 0; tried < 5; ++tried) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCopies; ++i) {
        if (goes_in) CU_EXPECT(CUDA_SUCCESS, copy(true));
        if (goes_out) CU_EXPECT(CUDA_SUCCESS, copy(false));
      }
      CU_EXPECT(CUDA_SUCCESS, cu().cuCtxSynchronize());
      const auto took = std::chrono::steady_clock::now() - start;
      best = std::min(best, std::chrono::duration<double, std::milli>(took).count());
    }
    return best;
  };
  // How much both ways share is the link's affair. That they are worth having is superpipe's. A
  // busy machine may hold up any of the three, so that all are measured again.
  const superpipe::testing::HangGuard guard;
  double inwards = 0;
  double outwards = 0;
  double both = 0;
  do {
    inwards = time(true, false);
    outwards = time(false, true);
    both = time(true, true);
  } while (both >= 1.5 * (inwards + outwards) && !guard.is_over());
  const auto gigabytes_per_second = [&](double ways, double milliseconds) {
    return std::to_string(ways * kCopies * static_cast<double>(kGranule) / 1e6 / milliseconds);
  };
  RecordProperty("in_gbps", gigabytes_per_second(1, inwards));
  RecordProperty("out_gbps", gigabytes_per_second(1, outwards));
  RecordProperty("both_ways_gbps", gigabytes_per_second(2, both));
  EXPECT_LT(both, 1.5 * (inwards + outwards));
  EXPECT_EQ(word_at(to.address() + kGranule - 4), 81U);
  EXPECT_EQ(target.data()[kGranuleWords - 1], 82U);
}

}  // namespace
}  // namespace conformance
