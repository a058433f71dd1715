#include "interposer/kernels/unknown_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "interposer/kernels/readable_memory.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;

TEST(ReadIfReadable, ReadsUpToTheFirstPageThatIsNotThere) {
  constexpr std::size_t kPage = 4096;
  auto* const pages = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_NONE), 0);
  std::memset(pages, 7, kPage);
  std::array<char, 128> target{};
  EXPECT_EQ(read_if_readable(pages, target.data(), target.size()), target.size());
  EXPECT_EQ(target.back(), 7);
  EXPECT_EQ(read_if_readable(pages + kPage - 32, target.data(), target.size()), 32U);
  EXPECT_EQ(read_if_readable(pages + kPage, target.data(), target.size()), 0U);
  EXPECT_EQ(read_if_readable(nullptr, target.data(), target.size()), 0U);
  ASSERT_EQ(mprotect(pages + kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(read_if_readable(pages + kPage - 32, target.data(), target.size()), target.size());
  munmap(pages, 2 * kPage);
}

/// A driver that tells no kernel's parameters.
class UnknownKernelsTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    driver().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t*, std::size_t*) {
      return CUDA_ERROR_NOT_SUPPORTED;
    };
    driver().cuKernelGetParamInfo = [](CUkernel, std::size_t, std::size_t*, std::size_t*) {
      return CUDA_ERROR_NOT_SUPPORTED;
    };
  }
  static std::uint64_t pinned() {
    return ContextRegistry::managed()->residency().stats().pinned_buffers;
  }
};

TEST_F(UnknownKernelsTest, FollowsParametersAsFarAsTheyCanBeRead) {
  struct {
    std::uint64_t number = 3;
    CUdeviceptr pointer = 0;
  } operands;
  operands.pointer = other_ + 8;
  CUdeviceptr first = buffer_;
  void* parameters[] = {&first, &operands, nullptr};
  WordList words;
  ManagedContext& managed = *ContextRegistry::managed();
  UnknownKernels::collect(managed.residency(), managed.tensor_maps(), parameters, words);
  EXPECT_THAT(words.words(), ::testing::IsSupersetOf({buffer_, other_ + 8}));
}

TEST_F(UnknownKernelsTest, ALaunchPinsWhatItMayNameAndSaysSoOnce) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    CUdeviceptr first = buffer_;
    void* parameters[] = {&first, nullptr};
    EXPECT_EQ(hook::cuLaunchKernel(testing::null_kernel(30), 1, 1, 1, 1, 1, 1, 0, nullptr,
                                   parameters, nullptr),
              CUDA_SUCCESS);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(pinned(), 1U);
  EXPECT_EQ(testing::null_driver_launches(), 2U);
  EXPECT_THAT(said, HasSubstr("the parameters of kernel null_kernel"));
  EXPECT_EQ(said.find("null_kernel"), said.rfind("null_kernel")) << said;
}

TEST_F(UnknownKernelsTest, ALaunchPinsWhatItsArgumentBufferNames) {
  CUdeviceptr packed[] = {1, other_};
  std::size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_EQ(
      hook::cuLaunchKernel(testing::null_kernel(31), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra),
      CUDA_SUCCESS);
  EXPECT_EQ(pinned(), 1U);
}

}  // namespace
}  // namespace superpipe
