// What happens to the managed context when the program's contexts come and go.
#include <gtest/gtest.h>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

class ContextHooksTest : public testing::ManagedFixture {
 protected:
  void SetUp() override {
    ManagedFixture::SetUp();
    driver().cuCtxDestroy_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    driver().cuCtxAttach = [](CUcontext* context, unsigned) {
      return driver().cuCtxGetCurrent(context);
    };
    driver().cuCtxDetach = [](CUcontext) { return CUDA_SUCCESS; };
  }
  static CUcontext context() {
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    return current;
  }
};

TEST_F(ContextHooksTest, ForgetsItsBuffersWhenTheContextGoes) {
  ASSERT_EQ(hook::cuCtxDestroy_v2(context()), CUDA_SUCCESS);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

// A thread of another context is in a hook while the managed context goes.
TEST_F(ContextHooksTest, LetsAHookFinishWhileTheContextGoes) {
  ManagedContext* const managed = ContextRegistry::managed();
  driver().cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void**,
                               void**) { return hook::cuCtxDestroy_v2(context()); };
  EXPECT_EQ(launch(testing::null_kernel(1), buffer_, other_), CUDA_SUCCESS);
  ASSERT_EQ(ContextRegistry::managed(), nullptr);
  // What it holds says that there are no buffers any more, and changes nothing.
  ResidencyManager& residency = managed->residency();
  UseToken token;
  const std::uint64_t word = buffer_;
  EXPECT_EQ(residency.begin_launch(KernelId{1}, {&word, 1}, kLegacyStream, token), Status::kOk);
  EXPECT_TRUE(token.empty());
  EXPECT_EQ(residency.find(buffer_), std::nullopt);
  EXPECT_EQ(residency.free(buffer_), Status::kInvalidValue);
  EXPECT_FALSE(residency.allocate(2_MiB, std::nullopt).ok());
  EXPECT_TRUE(residency.begin_passthrough_allocation(1_MiB));
  residency.end_passthrough_allocation(1_MiB, true);
  residency.begin_passthrough_change(PassthroughChange::kFree);
  residency.end_passthrough_change(PassthroughChange::kFree);
  (void)residency.make_room(1_MiB);
  residency.trim();
  residency.on_stream_destroy(kLegacyStream);
  EXPECT_EQ(residency.pin_forever({&word, 1}, "test"), Status::kOk);
}

TEST_F(ContextHooksTest, StartsAnewInTheNextContext) {
  ManagedContext* const first = ContextRegistry::managed();
  ASSERT_EQ(hook::cuCtxDestroy_v2(context()), CUDA_SUCCESS);
  const CUdeviceptr fresh = allocate();
  ManagedContext* const second = ContextRegistry::managed();
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_TRUE(second->in_arena(fresh));
}

TEST_F(ContextHooksTest, KeepsItsBuffersWhileAReferenceIsLeft) {
  CUcontext attached = nullptr;
  ASSERT_EQ(hook::cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuCtxDetach(attached), CUDA_SUCCESS);
  ASSERT_NE(ContextRegistry::managed(), nullptr);
  ASSERT_EQ(hook::cuCtxDetach(attached), CUDA_SUCCESS);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextHooksTest, ForgetsReferencesWithTheContext) {
  CUcontext attached = nullptr;
  ASSERT_EQ(hook::cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuCtxDestroy_v2(attached), CUDA_SUCCESS);
  allocate();  // in a new context at the same handle
  ASSERT_EQ(hook::cuCtxDetach(attached), CUDA_SUCCESS);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextHooksTest, KeepsItsBuffersWhenTheDriverRefusesADetach) {
  CUcontext attached = nullptr;
  ASSERT_EQ(hook::cuCtxAttach(&attached, 0), CUDA_SUCCESS);
  driver().cuCtxDetach = [](CUcontext) { return CUDA_ERROR_INVALID_CONTEXT; };
  EXPECT_EQ(hook::cuCtxDetach(attached), CUDA_ERROR_INVALID_CONTEXT);
  driver().cuCtxDetach = [](CUcontext) { return CUDA_SUCCESS; };
  ASSERT_EQ(hook::cuCtxDetach(attached), CUDA_SUCCESS);
  EXPECT_NE(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextHooksTest, ManagesNoContextOfAGreenContext) {
  ASSERT_EQ(hook::cuCtxDestroy_v2(context()), CUDA_SUCCESS);
  driver().cuCtxGetCurrent = [](CUcontext* current) {
    *current = reinterpret_cast<CUcontext>(0x30);
    return CUDA_SUCCESS;
  };
  driver().cuCtxFromGreenCtx = [](CUcontext* out, CUgreenCtx) {
    return driver().cuCtxGetCurrent(out);
  };
  driver().cuMemAlloc_v2 = [](CUdeviceptr* address, std::size_t) {
    *address = 0x7700000000;
    return CUDA_SUCCESS;
  };
  CUcontext green = nullptr;
  ASSERT_EQ(hook::cuCtxFromGreenCtx(&green, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(allocate(8 << 20), 0x7700000000);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
  // Another context is managed as ever.
  testing::install_null_driver(2);
  EXPECT_NE(allocate(8 << 20), 0x7700000000);
  EXPECT_NE(ContextRegistry::managed(), nullptr);
}

TEST_F(ContextHooksTest, StartsOnlyWhenWhatWasBeforeIsGone) {
  // As another thread may, while the first waits for the context's work.
  driver().cuCtxSynchronize = [] {
    EXPECT_EQ(ContextRegistry::of_process().for_allocation(), nullptr);
    return CUDA_SUCCESS;
  };
  ASSERT_EQ(hook::cuCtxDestroy_v2(context()), CUDA_SUCCESS);
  driver().cuCtxSynchronize = [] { return CUDA_SUCCESS; };
  allocate();
  EXPECT_NE(ContextRegistry::managed(), nullptr);
}

}  // namespace
}  // namespace superpipe
