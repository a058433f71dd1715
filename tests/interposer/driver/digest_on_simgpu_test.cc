// Digests over simgpu, which finds the kernel's plugin beside libsuperpipe.so.
#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "residency/content_digest.h"
#include "tests/hang_limit.h"
#include "tests/interposer/driver/simgpu_fixture.h"

namespace superpipe {
namespace {

class DigestOnSimgpu : public testing::SimgpuFixture {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(SUPERPIPE_LIBRARY, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    SimgpuFixture::SetUpTestSuite();
  }
  void SetUp() override {
    SimgpuFixture::SetUp();
    ASSERT_EQ(memory_->prepare_digests(key_), Status::kOk);
    stream_ = *memory_->create_stream();
    done_ = *memory_->create_event();
    ASSERT_EQ(memory_->pin(pinned_.get(), Bytes{sizeof(Pinned)}), Status::kOk);
    ASSERT_EQ(driver().cuMemAlloc_v2(&content_, kBytes), CUDA_SUCCESS);
    std::mt19937_64 random(3);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    ASSERT_EQ(driver().cuMemcpyHtoD_v2(content_, bytes_.data(), kBytes), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(driver().cuMemFree_v2(content_), CUDA_SUCCESS);
    EXPECT_EQ(memory_->unpin(pinned_.get()), Status::kOk);
    EXPECT_EQ(memory_->destroy_event(done_), Status::kOk);
    EXPECT_EQ(memory_->destroy_stream(stream_), Status::kOk);
    SimgpuFixture::TearDown();
  }

  void wait() {
    ASSERT_EQ(memory_->record(done_, stream_), Status::kOk);
    ASSERT_EQ(memory_->wait(done_, testing::kHangLimit), Status::kOk);
  }

  static constexpr std::size_t kBytes = (std::size_t{2} << 20) + 4096;
  struct alignas(4096) Pinned {
    std::array<DigestParts, 4> results;
  };

  /// Enqueues the digest of `size` bytes at `content`, to be the result of that number.
  void enqueue(CUdeviceptr content, std::size_t size, std::size_t number) {
    const auto parts = memory_->digest(content, Bytes{size}, &pinned_->results[number], stream_);
    ASSERT_TRUE(parts.ok());
    counts_[number] = *parts;
  }
  ContentDigest result(std::size_t number) const {
    return sum_of(std::span(pinned_->results[number]).first(counts_[number]));
  }

  const DigestKey key_ = draw_digest_key();
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes);
  const std::unique_ptr<Pinned> pinned_ = std::make_unique<Pinned>();
  std::array<std::size_t, 4> counts_{};  ///< of the parts of each result
  CUdeviceptr content_ = 0;
  StreamHandle stream_{};
  EventHandle done_{};
};

TEST_F(DigestOnSimgpu, IsTheHosts) {
  const std::array<std::size_t, 4> sizes = {1, 4096, 100'001, kBytes - 16};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    enqueue(content_ + 16, sizes[i], i);
  }
  wait();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(result(i), digest_of(key_, std::span(bytes_).subspan(16, sizes[i])))
        << sizes[i] << " bytes";
  }
}

TEST_F(DigestOnSimgpu, ComesInTheOrderOfItsStream) {
  enqueue(content_, kBytes, 0);
  ASSERT_EQ(memory_->zero(content_, Bytes{kBytes}, stream_), Status::kOk);
  enqueue(content_, kBytes, 1);
  wait();
  EXPECT_EQ(result(0), digest_of(key_, bytes_));
  std::fill(bytes_.begin(), bytes_.end(), std::byte{0});
  EXPECT_EQ(result(1), digest_of(key_, bytes_));
}

// By events. A busy machine can only be late: the test waits for a run in time.
TEST_F(DigestOnSimgpu, TakesTheTimeOfOneRead) {
  constexpr double kModelMilliseconds = static_cast<double>(kBytes) / 0.5e6;
  CUevent start = nullptr;
  CUevent end = nullptr;
  ASSERT_EQ(driver().cuEventCreate(&start, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  const auto stream = reinterpret_cast<CUstream>(static_cast<std::uint64_t>(stream_));
  const testing::HangGuard guard;
  float least = 1e9F;
  while (least > kModelMilliseconds + 0.5 && !guard.is_over()) {
    ASSERT_EQ(driver().cuEventRecord(start, stream), CUDA_SUCCESS);
    enqueue(content_, kBytes, 0);
    ASSERT_EQ(driver().cuEventRecord(end, stream), CUDA_SUCCESS);
    wait();
    float milliseconds = 0;
    ASSERT_EQ(driver().cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
    least = std::min(least, milliseconds);
  }
  EXPECT_NEAR(least, kModelMilliseconds, 0.5);
  EXPECT_EQ(driver().cuEventDestroy_v2(start), CUDA_SUCCESS);
  EXPECT_EQ(driver().cuEventDestroy_v2(end), CUDA_SUCCESS);
}

TEST_F(DigestOnSimgpu, RefusesWhatTheKernelCannotRead) {
  DigestParts* const parts = &pinned_->results[0];
  EXPECT_EQ(memory_->digest(content_ + 8, Bytes{16}, parts, stream_).status(),
            Status::kInvalidValue);
  EXPECT_EQ(memory_->digest(content_, Bytes{}, parts, stream_).status(), Status::kInvalidValue);
  // Parts in memory that is not pinned.
  DigestParts on_stack;
  EXPECT_EQ(memory_->digest(content_, Bytes{16}, &on_stack, stream_).status(),
            Status::kInvalidValue);
}

TEST_F(DigestOnSimgpu, IsReadyWhileTheProgramCapturesAGraph) {
  CUstream captured = nullptr;
  ASSERT_EQ(driver().cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  {
    DriverDeviceMemory other(context_, 0);
    EXPECT_EQ(other.prepare_digests(key_), Status::kOk);
  }
  enqueue(content_, 16, 0);
  CUgraph graph = nullptr;
  EXPECT_EQ(driver().cuStreamEndCapture(captured, &graph), CUDA_SUCCESS);
  EXPECT_EQ(driver().cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(driver().cuStreamDestroy_v2(captured), CUDA_SUCCESS);
  wait();
}

TEST_F(DigestOnSimgpu, GivesItsMemoryBack) {
  const Bytes before = free_bytes();
  // Together more than what a driver takes of the device at a time.
  for (int i = 0; i < 50; ++i) {
    DriverDeviceMemory other(context_, 0);
    ASSERT_EQ(other.prepare_digests(key_), Status::kOk);
  }
  EXPECT_EQ(free_bytes(), before);
}

// At the end of a program the context may go first. What has its address by then is another's.
TEST_F(DigestOnSimgpu, LeavesTheCodeOfADestroyedContextAlone) {
  CUcontext doomed = nullptr;
  ASSERT_EQ(driver().cuCtxCreate_v2(&doomed, 0, 0), CUDA_SUCCESS);
  auto other = std::make_unique<DriverDeviceMemory>(doomed, 0);
  ASSERT_EQ(other->prepare_digests(key_), Status::kOk);
  ASSERT_EQ(driver().cuCtxDestroy_v2(doomed), CUDA_SUCCESS);
  auto* const real_unload = driver().cuModuleUnload;
  driver().cuModuleUnload = [](CUmodule) {
    ADD_FAILURE() << "code of a context that is gone was unloaded";
    return CUDA_SUCCESS;
  };
  other.reset();
  driver().cuModuleUnload = real_unload;
}

}  // namespace
}  // namespace superpipe
