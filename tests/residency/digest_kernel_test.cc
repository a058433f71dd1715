// The source of the kernel, run on the host.
#include "tests/residency/kernel_emulation.h"

// Not sorted: what device code has built in comes first.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "residency/transfer/digest_kernel.cu"

namespace superpipe::digest_kernel {
namespace {

constexpr std::size_t kBytesOfChunk = kDigestChunkWords * sizeof(std::uint32_t);

// Bytes that end where memory ends, but for what aligns their beginning.
class ContentAtTheEnd {
 public:
  explicit ContentAtTheEnd(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t room = (size + page - 1) / page * page;
    mapped_ = room + page;
    begin_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(begin_ + room, page, PROT_NONE);
    std::mt19937_64 random(static_cast<unsigned>(size));
    // Also behind the content, up to the end: what is there must not count.
    for (std::size_t i = 0; i < room; ++i) begin_[i] = static_cast<std::byte>(random());
    content_ = begin_ + room - (size + kDigestAlignment - 1) / kDigestAlignment * kDigestAlignment;
  }
  ~ContentAtTheEnd() { munmap(begin_, mapped_); }
  ContentAtTheEnd(const ContentAtTheEnd&) = delete;
  ContentAtTheEnd& operator=(const ContentAtTheEnd&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {content_, size_}; }

 private:
  std::size_t size_;
  std::size_t mapped_ = 0;
  std::byte* begin_ = nullptr;
  std::byte* content_ = nullptr;
};

class DigestKernel : public ::testing::Test {
 protected:
  ContentDigest run(std::span<const std::byte> content, unsigned blocks) {
    DigestParts parts;
    parts.fill({1, 2});
    emulation_.launch(blocks, kDigestThreads, [&] {
      superpipe_digest(reinterpret_cast<const unsigned char*>(content.data()), content.size(), key_,
                       parts.data());
    });
    const ContentDigest behind = parts[blocks];
    EXPECT_EQ(behind, (ContentDigest{1, 2})) << "a block wrote a part that is not its own";
    return sum_of(std::span(parts).first(blocks));
  }

  DigestKey key_ = draw_digest_key();
  testing::KernelEmulation emulation_{42};
};

TEST_F(DigestKernel, ComputesTheHostsDigestOfOneChunkAndLess) {
  for (const std::size_t size : {1, 3, 4, 15, 16, 17, 33, 511, 512, 513, 2032, 2047, 2048}) {
    const ContentAtTheEnd content(size);
    EXPECT_EQ(run(content.bytes(), 1), digest_of(key_, content.bytes())) << size << " bytes";
  }
}

// Warps with several chunks, with one more than others, and with none.
TEST_F(DigestKernel, ComputesTheHostsDigestForAnyNumberOfBlocks) {
  for (const std::size_t chunks : {1, 2, 8, 9, 17, 50}) {
    for (const unsigned blocks : {1U, 2U, 3U, 7U}) {
      const ContentAtTheEnd content(chunks * kBytesOfChunk - 7 * (blocks % 2));
      EXPECT_EQ(run(content.bytes(), blocks), digest_of(key_, content.bytes()))
          << chunks << " chunks, " << blocks << " blocks";
    }
  }
}

TEST_F(DigestKernel, HasAPartForEachOfManyBlocks) {
  // The last block has the last chunk.
  const ContentAtTheEnd content((kDigestThreads * kWarps + 1) * kBytesOfChunk);
  EXPECT_EQ(run(content.bytes(), kDigestThreads + 1), digest_of(key_, content.bytes()));
}

TEST_F(DigestKernel, ComputesTheHostsDigestInAnyOrderOfThreads) {
  const ContentAtTheEnd content(11 * kBytesOfChunk + 3);
  const ContentDigest expected = digest_of(key_, content.bytes());
  for (unsigned seed = 0; seed < 20; ++seed) {
    emulation_ = testing::KernelEmulation(seed);
    ASSERT_EQ(run(content.bytes(), 2), expected) << "seed " << seed;
  }
}

TEST(DigestBlocks, AreAtLeastOneAndAtMostWhatTheDeviceAndThePartsTake) {
  EXPECT_EQ(digest_blocks(1, 132), 1U);
  EXPECT_EQ(digest_blocks(8 * kBytesOfChunk, 132), 1U);
  EXPECT_EQ(digest_blocks(8 * kBytesOfChunk + 1, 132), 2U);
  EXPECT_EQ(digest_blocks(std::uint64_t{1} << 30, 132), kDigestMaximumBlocks);
  EXPECT_EQ(digest_blocks(std::uint64_t{1} << 30, 40), 160U);
  EXPECT_EQ(digest_blocks(~std::uint64_t{0} >> 1, 100000), kDigestMaximumBlocks);
  EXPECT_EQ(digest_blocks(1 << 20, 0), 1U);
}

// The emulation itself: it has to find what it is there for.
TEST(KernelEmulation, RefusesABarrierThatNotAllThreadsComeTo) {
  testing::KernelEmulation emulation(1);
  EXPECT_THROW(emulation.launch(1, 64,
                                [] {
                                  if (threadIdx.x != 5) __syncthreads();
                                }),
               std::logic_error);
  EXPECT_THROW(emulation.launch(1, 64,
                                [] {
                                  if (threadIdx.x != 5) __shfl_xor_sync(0xffffffffU, 0, 1);
                                }),
               std::logic_error);
}

TEST(KernelEmulation, RefusesDifferentShufflesInAWarp) {
  testing::KernelEmulation emulation(1);
  EXPECT_THROW(emulation.launch(
                   1, 32, [] { __shfl_xor_sync(0xffffffffU, 0, threadIdx.x % 2 == 0 ? 1 : 2); }),
               std::logic_error);
}

TEST(KernelEmulation, ShowsAMissingBarrierAsAWrongResult) {
  testing::KernelEmulation emulation(1);
  static unsigned shared[256];
  const auto sees_all = [&](bool waits) {
    unsigned wrong = 0;
    std::fill(std::begin(shared), std::end(shared), 0U);
    emulation.launch(1, 256, [&] {
      const unsigned thread = threadIdx.x;
      shared[thread] = thread;
      if (waits) __syncthreads();
      if (shared[255 - thread] != 255 - thread) ++wrong;
    });
    return wrong == 0;
  };
  EXPECT_TRUE(sees_all(true));
  EXPECT_FALSE(sees_all(false));
}

}  // namespace
}  // namespace superpipe::digest_kernel
