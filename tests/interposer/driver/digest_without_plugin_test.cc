// Digests over simgpu without the kernel's plugin: a stand-in runs, which writes what it likes.
#include <cstring>
#include <vector>

#include "residency/content_digest.h"
#include "tests/interposer/driver/simgpu_fixture.h"

namespace superpipe {
namespace {

using DigestWithoutPlugin = testing::SimgpuFixture;

TEST_F(DigestWithoutPlugin, IsRefusedAndLeavesNothing) {
  constexpr std::size_t kBytes = 1 << 20;
  const std::vector<std::byte> before(kBytes, std::byte{0x5a});
  CUdeviceptr memory = 0;
  ASSERT_EQ(driver().cuMemAlloc_v2(&memory, kBytes), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuMemcpyHtoD_v2(memory, before.data(), kBytes), CUDA_SUCCESS);
  const Bytes free_before = free_bytes();
  EXPECT_EQ(memory_->prepare_digests(draw_digest_key()), Status::kDeviceError);
  EXPECT_EQ(free_bytes(), free_before);
  std::vector<std::byte> after(kBytes);
  EXPECT_EQ(driver().cuMemcpyDtoH_v2(after.data(), memory, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(after, before);
  EXPECT_EQ(driver().cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(memory_->sticky_error(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace superpipe
