// Linear copies to and from managed buffers, on the device and out of it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "interposer/hooks/queued_copy.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

auto* const kStream = reinterpret_cast<CUstream>(0x5550);

/// What the driver was asked for; host functions run at once unless they are held back.
int device_copies = 0;
int synchronisations = 0;
bool holds_back = false;
bool is_pinned = false;
bool is_busy = false;
std::vector<std::pair<CUhostFn, void*>> queued;
CUstreamCaptureMode capture_mode;

void run_queued() {
  for (const auto& [function, data] : queued) function(data);
  queued.clear();
}

class CopyHooksTest : public testing::BudgetFixture {
 protected:
  static constexpr std::size_t kLarge = 16 << 20;

  void SetUp() override {
    BudgetFixture::SetUp();
    device_copies = synchronisations = 0;
    holds_back = is_pinned = is_busy = false;
    queued.clear();
    DriverTable& table = driver();
    table.cuMemcpyHtoD_v2 = [](CUdeviceptr, const void*, std::size_t) {
      ++device_copies;
      return CUDA_SUCCESS;
    };
    table.cuMemcpyDtoH_v2 = [](void*, CUdeviceptr, std::size_t) {
      ++device_copies;
      return CUDA_SUCCESS;
    };
    table.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void*, std::size_t, CUstream) {
      ++device_copies;
      return CUDA_SUCCESS;
    };
    table.cuLaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
      queued.emplace_back(function, data);
      if (!holds_back) run_queued();
      return CUDA_SUCCESS;
    };
    table.cuStreamSynchronize = [](CUstream) {
      ++synchronisations;
      return CUDA_SUCCESS;
    };
    table.cuStreamQuery = [](CUstream) { return is_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; };
    table.cuStreamGetFlags = [](CUstream, unsigned* flags) {
      *flags = 0;
      return CUDA_SUCCESS;
    };
    table.cuPointerGetAttribute = [](void*, CUpointer_attribute, CUdeviceptr) {
      return is_pinned ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
  }

  /// A buffer for which the budget has no room on the device, so that its bytes are on the host.
  static CUdeviceptr buffer_out_of_device() {
    for (int i = 0; i < 4; ++i) allocate(kLarge);
    return allocate(kLarge);
  }

  std::array<char, 16> content_{"fifteen letters"};
  std::array<char, 16> back_{};
};

TEST_F(CopyHooksTest, PassesACopyOfAResidentBufferOn) {
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(buffer_, content_.data(), content_.size()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), buffer_, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(device_copies, 2);
}

TEST_F(CopyHooksTest, CopiesToAndFromABufferThatIsOutWithoutTheDevice) {
  const CUdeviceptr out = buffer_out_of_device();
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(out + 64, content_.data(), content_.size()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), out + 64, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(back_, content_);
  EXPECT_EQ(device_copies, 0);
  EXPECT_EQ(synchronisations, 2) << "synchronous copies return when they are done";
}

CUdeviceptr to_be_freed = 0;

// What it waits for may itself wait for another thread that needs the buffer.
TEST_F(CopyHooksTest, ASynchronousCopyHoldsNothingWhileItWaitsForItsStream) {
  to_be_freed = buffer_out_of_device();
  driver().cuStreamSynchronize = [](CUstream) {
    ++synchronisations;
    EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(ContextRegistry::managed()->residency().free(to_be_freed), Status::kOk);
    return CUDA_SUCCESS;
  };
  driver().cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  };
  capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(to_be_freed, content_.data(), content_.size()), CUDA_SUCCESS);
  EXPECT_EQ(synchronisations, 1);
}

TEST_F(CopyHooksTest, ReadsAPinnedSourceWhenTheStreamGetsThere) {
  const CUdeviceptr out = buffer_out_of_device();
  is_pinned = holds_back = true;
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(out, content_.data(), content_.size(), kStream),
            CUDA_SUCCESS);
  EXPECT_EQ(synchronisations, 0);
  content_[0] = 'F';
  run_queued();
  is_pinned = holds_back = false;
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), out, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(back_[0], 'F');
}

TEST_F(CopyHooksTest, KeepsWhatAPageableSourceHeldWhenItHasToWait) {
  const CUdeviceptr out = buffer_out_of_device();
  is_busy = holds_back = true;
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(out, content_.data(), content_.size(), kStream),
            CUDA_SUCCESS);
  EXPECT_EQ(synchronisations, 0);
  content_[0] = 'F';
  run_queued();
  is_busy = holds_back = false;
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), out, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(back_[0], 'f');
}

const void* pageable_source = nullptr;

TEST_F(CopyHooksTest, KeepsNoMoreOfPageableSourcesThanSomeMegabytes) {
  const CUdeviceptr out = buffer_out_of_device();
  const CUdeviceptr other = allocate(kLarge);
  const std::vector<char> source(kLarge, 'x');
  pageable_source = source.data();
  driver().cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void* from, std::size_t, CUstream) {
    device_copies += from == pageable_source ? 1 : 0;  // a fetch copies from elsewhere
    return CUDA_SUCCESS;
  };
  const auto copy = [&] {
    return hook::cuMemcpyHtoDAsync_v2(out, source.data(), source.size(), kStream);
  };
  is_busy = holds_back = true;
  for (std::size_t held = 0; held < Snapshot::kMostBytes; held += kLarge) {
    EXPECT_EQ(copy(), CUDA_SUCCESS);
  }
  EXPECT_EQ(device_copies, 0);
  EXPECT_EQ(copy(), CUDA_SUCCESS);
  EXPECT_EQ(device_copies, 1) << "the driver stages it, or waits";
  EXPECT_EQ(synchronisations, 0);
  run_queued();
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(other, source.data(), source.size(), kStream), CUDA_SUCCESS);
  EXPECT_EQ(device_copies, 1) << "what was kept is done with";
  run_queued();
}

// The driver ends a global capture of another thread at a query in another mode.
TEST_F(CopyHooksTest, AsksAboutStreamsInRelaxedCaptureMode) {
  const CUdeviceptr out = buffer_out_of_device();
  capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  driver().cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  };
  driver().cuStreamQuery = [](CUstream) {
    EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    return CUDA_ERROR_NOT_READY;
  };
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(out, content_.data(), content_.size(), kStream),
            CUDA_SUCCESS);
  EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "it is the program's again";
}

TEST_F(CopyHooksTest, CopiesAtOnceOnAnIdleStreamThatWaitsForNoOther) {
  const CUdeviceptr out = buffer_out_of_device();
  driver().cuStreamGetFlags = [](CUstream, unsigned* flags) {
    *flags = CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
  };
  holds_back = true;
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(out, content_.data(), content_.size(), kStream),
            CUDA_SUCCESS);
  EXPECT_TRUE(queued.empty());
  holds_back = false;
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), out, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(back_, content_);
}

// What the stream is given later would else hold up the fetch.
TEST_F(CopyHooksTest, AFetchNeedsNoMarkOfACopyThatWasMadeAtOnce) {
  const CUdeviceptr out = buffer_out_of_device();
  driver().cuStreamGetFlags = [](CUstream, unsigned* flags) {
    *flags = CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
  };
  // Device memory must not be touched here.
  driver().cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void*, std::size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(hook::cuMemcpyHtoDAsync_v2(out, content_.data(), content_.size(), kStream),
            CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyDtoHAsync_v2(back_.data(), out, back_.size(), kStream), CUDA_SUCCESS);
  EXPECT_EQ(back_, content_);
  const auto fetches = [] {
    const ResidencyStats stats = ContextRegistry::managed()->residency().stats();
    return stats.demand_fetches + stats.prefetches;
  };
  const std::uint64_t before = fetches();
  ASSERT_EQ(launch(testing::null_kernel(1), out, out), CUDA_SUCCESS);
  EXPECT_GT(fetches(), before);
  EXPECT_EQ(testing::events_recorded_on(kStream), 0U);
}

TEST_F(CopyHooksTest, RefusesACopyPastTheEndOfABuffer) {
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(buffer_ + kBytes - 8, content_.data(), content_.size()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(device_copies, 0);
}

TEST_F(CopyHooksTest, LeavesCopiesThatNameNoBufferToTheDriver) {
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(0x1000, content_.data(), content_.size()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyDtoH_v2(back_.data(), 0x1000, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(buffer_, nullptr, 16), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpyHtoD_v2(buffer_, content_.data(), 0), CUDA_SUCCESS);
  EXPECT_EQ(device_copies, 4);
}

TEST_F(CopyHooksTest, TellsTheDirectionOfAUnifiedCopyByItsAddresses) {
  driver().cuMemcpy = [](CUdeviceptr, CUdeviceptr, std::size_t) {
    ++device_copies;
    return CUDA_SUCCESS;
  };
  const auto address_of = [](void* data) { return reinterpret_cast<CUdeviceptr>(data); };
  const CUdeviceptr out = buffer_out_of_device();
  EXPECT_EQ(hook::cuMemcpy(out, address_of(content_.data()), content_.size()), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpy(address_of(back_.data()), out, back_.size()), CUDA_SUCCESS);
  EXPECT_EQ(back_, content_);
  EXPECT_EQ(device_copies, 0);
  EXPECT_EQ(hook::cuMemcpy(other_, buffer_, 64), CUDA_SUCCESS);
  EXPECT_EQ(hook::cuMemcpy(address_of(back_.data()), address_of(content_.data()), 16),
            CUDA_SUCCESS);
  EXPECT_EQ(device_copies, 2);
}

/// What the device has of one buffer, and how much of it the driver was asked to copy.
CUdeviceptr base_on_device = 0;
std::vector<char> on_device;
std::size_t copied_by_driver = 0;

/// Under `auto` a buffer may be on the device in part.
class CopyHooksInPieces : public CopyHooksTest {
 protected:
  static constexpr std::size_t kSize = 40 << 20;

  void configure(Configuration& configuration) override {
    BudgetFixture::configure(configuration);
    configuration.policy = PolicyKind::kAuto;
  }
  void SetUp() override {
    CopyHooksTest::SetUp();
    on_device.assign(kSize, 0);
    DriverTable& table = driver();
    table.cuMemcpyHtoD_v2 = [](CUdeviceptr to, const void* from, std::size_t size) {
      std::memcpy(on_device.data() + (to - base_on_device), from, size);
      copied_by_driver += size;
      return CUDA_SUCCESS;
    };
    table.cuMemcpyDtoH_v2 = [](void* to, CUdeviceptr from, std::size_t size) {
      std::memcpy(to, on_device.data() + (from - base_on_device), size);
      copied_by_driver += size;
      return CUDA_SUCCESS;
    };
  }

  /// A buffer of kSize of which another one of that size, used since, has left only a part.
  static CUdeviceptr buffer_in_part() {
    auto* const kernel = reinterpret_cast<CUfunction>(0x7770);
    base_on_device = allocate(kSize);
    const CUdeviceptr later = allocate(kSize);
    for (const CUdeviceptr buffer : {base_on_device, later}) {
      EXPECT_EQ(launch(kernel, buffer, buffer), CUDA_SUCCESS);
    }
    return base_on_device;
  }
};

TEST_F(CopyHooksInPieces, CopiesEachPartWhereItsBytesAre) {
  const CUdeviceptr buffer = buffer_in_part();
  std::vector<char> written(kSize);
  for (std::size_t i = 0; i < kSize; ++i) written[i] = static_cast<char>(i * 31 >> 12);
  ASSERT_EQ(hook::cuMemcpyHtoD_v2(buffer, written.data(), kSize), CUDA_SUCCESS);
  const std::size_t in_place = std::exchange(copied_by_driver, 0);
  EXPECT_GT(in_place, 0U);
  EXPECT_LT(in_place, kSize);
  std::vector<char> back(kSize);
  ASSERT_EQ(hook::cuMemcpyDtoH_v2(back.data(), buffer, kSize), CUDA_SUCCESS);
  EXPECT_EQ(copied_by_driver, in_place);
  EXPECT_TRUE(back == written);
}

}  // namespace
}  // namespace superpipe
