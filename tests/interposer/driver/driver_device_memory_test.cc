#include "interposer/driver/driver_device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "interposer/driver/capture_count.h"
#include "interposer/driver/hook_scope.h"
#include "interposer/driver/table.h"
#include "tests/aside_call.h"
#include "tests/interposer/null_driver.h"

namespace superpipe {
namespace {

using std::chrono_literals::operator""ms;

int pushes = 0;
int unmaps = 0;
int copies = 0;

class DriverDeviceMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::install_null_driver(1);
    pushes = unmaps = copies = 0;
    driver().cuCtxPushCurrent_v2 = [](CUcontext) {
      ++pushes;
      return CUDA_SUCCESS;
    };
  }
  void TearDown() override { testing::install_null_driver(1); }

  static CUcontext context() {
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    return current;
  }
  static EventHandle event() { return EventHandle{0x40}; }

  DriverDeviceMemory memory_{(testing::install_null_driver(1), context()), 0};
};

TEST_F(DriverDeviceMemoryTest, TakesTheGranularityOfTheDriver) {
  EXPECT_EQ(memory_.granularity(), 2_MiB);
}

CUdeviceptr taken_below = 0;  ///< hints below it are not followed
std::vector<CUdeviceptr> hints;
int reservations = 0;

CUresult reserve_by_hint(CUdeviceptr* address, std::size_t, std::size_t, CUdeviceptr hint,
                         unsigned long long) {
  constexpr CUdeviceptr kLow = 0x3'0200'0000;
  hints.push_back(hint);
  ++reservations;
  *address = hint >= taken_below && hint != 0 ? hint : kLow;
  return CUDA_SUCCESS;
}

class ReservationTest : public DriverDeviceMemoryTest {
 protected:
  void SetUp() override {
    DriverDeviceMemoryTest::SetUp();
    hints.clear();
    taken_below = 0;
    reservations = 0;
    driver().cuMemAddressReserve = &reserve_by_hint;
    driver().cuMemAddressFree = [](CUdeviceptr, std::size_t) {
      --reservations;
      return CUDA_SUCCESS;
    };
  }
};

TEST_F(ReservationTest, LiesHighWhereTheDriverFollowsAHint) {
  EXPECT_GE(*memory_.reserve(1024_GiB), Address{1} << 44);
  EXPECT_EQ(hints.size(), 1U);
  EXPECT_NE(hints[0], 0U);
}

TEST_F(ReservationTest, TriesOtherHintsAndKeepsOneReservation) {
  taken_below = ~CUdeviceptr{0};
  EXPECT_EQ(*memory_.reserve(1024_GiB), 0x3'0200'0000U) << "better low than not at all";
  EXPECT_GT(hints.size(), 2U);
  EXPECT_EQ(hints.back(), 0U);
  EXPECT_EQ(reservations, 1);
}

TEST_F(ReservationTest, SaysThatThereIsNoRoomWhereTheDriverHasNone) {
  driver().cuMemAddressReserve = [](CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr,
                                    unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; };
  EXPECT_EQ(memory_.reserve(1024_GiB).status(), Status::kOutOfDeviceMemory);
}

TEST_F(DriverDeviceMemoryTest, TellsHowMuchOfTheDeviceIsUsedByAnybody) {
  const auto before = memory_.usage();
  ASSERT_TRUE(before.ok());
  const auto pages = memory_.create_pages(4_MiB);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(memory_.usage()->used, before->used + 4_MiB);
  EXPECT_EQ(memory_.destroy_pages(*pages, 4_MiB), Status::kOk);
  EXPECT_EQ(memory_.usage()->used, before->used);
  driver().cuMemGetInfo_v2 = [](std::size_t*, std::size_t*) { return CUDA_ERROR_UNKNOWN; };
  EXPECT_EQ(memory_.usage().status(), Status::kDeviceError);
}

TEST_F(DriverDeviceMemoryTest, MakesItsContextCurrentWhereAnotherIs) {
  EXPECT_TRUE(memory_.create_event().ok());
  EXPECT_EQ(pushes, 0);
  driver().cuCtxGetCurrent = [](CUcontext* current) {
    *current = nullptr;
    return CUDA_SUCCESS;
  };
  EXPECT_TRUE(memory_.create_event().ok());
  EXPECT_EQ(pushes, 1);
}

TEST_F(DriverDeviceMemoryTest, MarksTheThreadAsInsideItsOwnCalls) {
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    EXPECT_TRUE(HookScope().passes_through());
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(memory_.unmap(0x1000, 2_MiB), Status::kOk);
}

TEST_F(DriverDeviceMemoryTest, TakesAMappingBackThatCannotBeAccessed) {
  driver().cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
    return CUDA_ERROR_UNKNOWN;
  };
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    ++unmaps;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(memory_.map(0x1000, 2_MiB, PageHandle{1}), Status::kDeviceError);
  EXPECT_EQ(unmaps, 1);
}

int refused = 0;

// Buffers of a driver that shares what it allocates, but not what is mapped.
TEST_F(DriverDeviceMemoryTest, MapsForItsOwnDeviceAloneWhereOthersAreRefused) {
  refused = 0;
  driver().cuMemSetAccess = [](CUdeviceptr, std::size_t, const CUmemAccessDesc* access,
                               std::size_t count) {
    EXPECT_EQ(access[0].location.id, 0);
    refused += count > 1 ? 1 : 0;
    return count > 1 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  };
  driver().cuMemUnmap = [](CUdeviceptr, std::size_t) {
    ++unmaps;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(memory_.map(0x1000, 2_MiB, PageHandle{1}), Status::kOk);
  EXPECT_FALSE(memory_.refuses_peers());
  memory_.set_peers(mask_of(1) | mask_of(2));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(memory_.map(0x1000, 2_MiB, PageHandle{1}), Status::kOk);
  EXPECT_EQ(memory_.map(0x2000, 2_MiB, PageHandle{2}), Status::kOk);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(unmaps, 0);
  EXPECT_TRUE(memory_.refuses_peers());
  EXPECT_NE(said.find("gives no other device access to mapped memory"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(DriverDeviceMemoryTest, TellsWhichMemoryIsOut) {
  driver().cuMemCreate = [](CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                            unsigned long long) { return CUDA_ERROR_OUT_OF_MEMORY; };
  driver().cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  EXPECT_EQ(memory_.create_pages(2_MiB).status(), Status::kOutOfDeviceMemory);
  EXPECT_EQ(memory_.pin(this, 2_MiB), Status::kOutOfHostMemory);
}

TEST_F(DriverDeviceMemoryTest, WaitsForAnEventNoLongerThanTheLimit) {
  EXPECT_EQ(memory_.wait(event(), 0ms), Status::kOk);
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_NOT_READY; };
  EXPECT_EQ(memory_.wait(event(), 0ms), Status::kTimedOut);
  EXPECT_FALSE(*memory_.is_complete(event()));
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  EXPECT_EQ(memory_.wait(event(), 0ms), Status::kDeviceError);
  EXPECT_EQ(memory_.is_complete(event()).status(), Status::kDeviceError);
}

TEST_F(DriverDeviceMemoryTest, TellsTheErrorThatAKernelLeftBehind) {
  EXPECT_EQ(memory_.sticky_error(), CUDA_SUCCESS);
  driver().cuEventQuery = [](CUevent) { return CUDA_ERROR_ILLEGAL_ADDRESS; };
  EXPECT_EQ(memory_.sticky_error(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(DriverDeviceMemoryTest, StopsCopyingAtTheFirstError) {
  driver().cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void*, std::size_t, CUstream) {
    return ++copies == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
  };
  const std::array<Transfer, 3> transfers{};
  EXPECT_EQ(memory_.copy_to_device(transfers, StreamHandle{0x40}), Status::kDeviceError);
  EXPECT_EQ(copies, 2);
}

/// What was enqueued, in order: the sizes of copies to the host, and 0 for each word that was set.
std::vector<std::size_t> enqueued;
std::vector<const void*> hosts;

class CopyToHostTest : public DriverDeviceMemoryTest {
 protected:
  void SetUp() override {
    DriverDeviceMemoryTest::SetUp();
    enqueued.clear();
    hosts.clear();
    driver().cuMemAlloc_v2 = allocate_word;
    ASSERT_TRUE(memory_.create_pages(256_MiB).ok());
    driver().cuMemcpyDtoHAsync_v2 = [](void* target, CUdeviceptr, std::size_t size, CUstream) {
      enqueued.push_back(size);
      hosts.push_back(target);
      return CUDA_SUCCESS;
    };
    driver().cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t size, CUstream) {
      EXPECT_EQ(size, 4U);
      enqueued.push_back(0);
      return CUDA_SUCCESS;
    };
  }
  static CUresult allocate_word(CUdeviceptr* address, std::size_t) {
    *address = 0x7000;
    return CUDA_SUCCESS;
  }
  Status copy(Bytes size) {
    const Transfer transfer{0x1000, reinterpret_cast<void*>(0x10000), size};
    return memory_.copy_to_host({&transfer, 1}, StreamHandle{8});
  }
};

// A mapping would have to wait for all copies that follow upon each other.
TEST_F(CopyToHostTest, LeavesAMomentBehindEachPart) {
  ASSERT_EQ(copy(9_MiB), Status::kOk);
  EXPECT_EQ(enqueued, (std::vector<std::size_t>{4 << 20, 0, 4 << 20, 0, 1 << 20, 0}));
  const auto* const first = reinterpret_cast<const char*>(0x10000);
  EXPECT_EQ(hosts, (std::vector<const void*>{first, first + (4 << 20), first + (8 << 20)}));
}

// A driver may take as much for a word as for a page.
TEST_F(CopyToHostTest, TakesNoMemoryWhereThereIsLittle) {
  driver().cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
  ASSERT_EQ(memory_.destroy_pages(PageHandle{1}, 2_MiB), Status::kOk);
  ASSERT_EQ(copy(9_MiB), Status::kOk);
  EXPECT_EQ(enqueued, (std::vector<std::size_t>{4 << 20, 4 << 20, 1 << 20}));
}

TEST_F(CopyToHostTest, HasFewPartsHoweverLargeItIs) {
  for (const std::uint64_t size : {std::uint64_t{4} << 30, (std::uint64_t{513} << 20) + 1}) {
    enqueued.clear();
    ASSERT_EQ(copy(Bytes{size}), Status::kOk);
    EXPECT_LE(enqueued.size(), 2U * 64);
    std::uint64_t total = 0;
    for (const std::size_t part : enqueued) {
      EXPECT_EQ(part > 0 ? total % (2 << 20) : 0, 0U) << "where a part begins";
      total += part;
    }
    EXPECT_EQ(total, size);
  }
}

// The driver is not asked for memory again at once: that takes its time.
TEST_F(CopyToHostTest, LeavesNoMomentWhileTheDeviceIsFull) {
  static int asked = 0;
  asked = 0;
  driver().cuMemAlloc_v2 = [](CUdeviceptr*, std::size_t) {
    ++asked;
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  ASSERT_EQ(copy(9_MiB), Status::kOk);
  EXPECT_EQ(enqueued, (std::vector<std::size_t>{4 << 20, 4 << 20, 1 << 20}));
  EXPECT_EQ(asked, 1);
  driver().cuMemAlloc_v2 = allocate_word;
  for (int i = 0; i < 300; ++i) ASSERT_EQ(copy(1_MiB), Status::kOk);
  EXPECT_EQ(enqueued.back(), 0U) << "there is room again";
}

// What was copied is there.
TEST_F(CopyToHostTest, CopiesOnWhereAWordCannotBeSet) {
  driver().cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) {
    enqueued.push_back(0);
    return CUDA_ERROR_UNKNOWN;
  };
  EXPECT_EQ(copy(9_MiB), Status::kOk);
  EXPECT_EQ(enqueued, (std::vector<std::size_t>{4 << 20, 0, 4 << 20, 1 << 20}));
}

TEST_F(DriverDeviceMemoryTest, AsksWhetherAStreamCapturesOnlyWhileAnyDoes) {
  driver().cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  EXPECT_FALSE(*memory_.is_capturing(StreamHandle{0x40}));
  (void)CaptureCount::begin([] { return CUDA_SUCCESS; });
  EXPECT_TRUE(*memory_.is_capturing(StreamHandle{0x40}));
  EXPECT_EQ(memory_.record(event(), StreamHandle{0x40}), Status::kCapturing);
  // The legacy stream, which would break a capture if it were used.
  driver().cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus*) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  };
  EXPECT_TRUE(*memory_.is_capturing(kLegacyStream));
  EXPECT_EQ(memory_.record(event(), kLegacyStream), Status::kCapturing);
  CaptureCount::end();
  EXPECT_EQ(memory_.record(event(), kLegacyStream), Status::kOk);
}

std::promise<void> recording;
std::promise<void> may_record;

// An event of ours must not get into a capture that another thread begins while it is recorded.
TEST_F(DriverDeviceMemoryTest, HoldsOffACaptureWhileItRecords) {
  driver().cuEventRecord = [](CUevent, CUstream) {
    recording.set_value();
    may_record.get_future().wait();
    return CUDA_SUCCESS;
  };
  auto recorded =
      std::async(std::launch::async, [&] { return memory_.record(event(), StreamHandle{0x40}); });
  recording.get_future().wait();
  std::atomic<bool> has_begun{false};
  testing::AsideCall<CUresult> begun([&] {
    return CaptureCount::begin([&] {
      has_begun = true;
      return CUDA_SUCCESS;
    });
  });
  EXPECT_TRUE(begun.waits());
  EXPECT_FALSE(has_begun);
  // The record may be stuck behind work that waits for the program itself: not for ever, then.
  EXPECT_EQ(begun.get(), CUDA_SUCCESS);
  EXPECT_TRUE(has_begun);
  may_record.set_value();
  EXPECT_EQ(recorded.get(), Status::kOk);
  CaptureCount::end();
}

}  // namespace
}  // namespace superpipe
