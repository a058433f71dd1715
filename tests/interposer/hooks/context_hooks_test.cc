// What happens to the managed context when the program's contexts come and go.
#include <gtest/gtest.h>

#include "interposer/driver/streams.h"
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
  static ContextRegistry& registry() { return ContextRegistry::of_process(); }
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

/// Where a green context is current, of a device whose primary context is that of the null driver.
class GreenContextHooksTest : public ContextHooksTest {
 protected:
  void SetUp() override {
    ContextHooksTest::SetUp();
    driver().cuDevicePrimaryCtxGetState = [](CUdevice, unsigned* flags, int* active) {
      *flags = 0;
      *active = 1;
      return CUDA_SUCCESS;
    };
    driver().cuDevicePrimaryCtxRetain = [](CUcontext* primary, CUdevice) {
      *primary = reinterpret_cast<CUcontext>(0x10);
      return CUDA_SUCCESS;
    };
    driver().cuDevicePrimaryCtxRelease_v2 = [](CUdevice) { return CUDA_SUCCESS; };
    driver().cuGreenCtxCreate = [](CUgreenCtx* green, CUdevResourceDesc, CUdevice, unsigned) {
      *green = kGreen;
      return CUDA_SUCCESS;
    };
    driver().cuGreenCtxDestroy = [](CUgreenCtx) { return CUDA_SUCCESS; };
    driver().cuCtxFromGreenCtx = [](CUcontext* converted, CUgreenCtx) {
      *converted = kConverted;
      return CUDA_SUCCESS;
    };
    driver().cuStreamGetCtx = [](CUstream stream, CUcontext* owner) {
      *owner = stream == kGreenStream ? kConverted : kForeign;
      return CUDA_SUCCESS;
    };
    driver().cuStreamGetCtx_v2 = [](CUstream stream, CUcontext* owner, CUgreenCtx* green) {
      *owner = stream == kGreenStream ? reinterpret_cast<CUcontext>(0x10) : kForeign;
      *green = stream == kGreenStream ? kGreen : nullptr;
      return CUDA_SUCCESS;
    };
    CUgreenCtx green = nullptr;
    ASSERT_EQ(hook::cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM),
              CUDA_SUCCESS);
    CUcontext converted = nullptr;
    ASSERT_EQ(hook::cuCtxFromGreenCtx(&converted, green), CUDA_SUCCESS);
  }
  void TearDown() override {
    testing::install_null_driver(2);
    driver().cuGreenCtxDestroy = [](CUgreenCtx) { return CUDA_SUCCESS; };
    (void)hook::cuGreenCtxDestroy(kGreen);
    ContextHooksTest::TearDown();
  }
  static void make_current(CUcontext context) {
    current_ = context;
    driver().cuCtxGetCurrent = [](CUcontext* current) {
      *current = current_;
      return CUDA_SUCCESS;
    };
  }

  static inline auto* const kGreen = reinterpret_cast<CUgreenCtx>(0x40);
  static inline auto* const kOtherGreen = reinterpret_cast<CUgreenCtx>(0x48);
  static inline auto* const kConverted = reinterpret_cast<CUcontext>(0x30);
  static inline auto* const kForeign = reinterpret_cast<CUcontext>(0x50);
  static inline auto* const kGreenStream = reinterpret_cast<CUstream>(0x6660);
  static inline CUcontext current_ = nullptr;
};

TEST_F(GreenContextHooksTest, AllocationsBelongToThePrimaryContext) {
  make_current(kConverted);
  EXPECT_TRUE(ContextRegistry::managed()->in_arena(allocate()));
}

TEST_F(GreenContextHooksTest, TheFirstAllocationStartsThePrimaryContext) {
  auto* const primary = context();
  ASSERT_EQ(hook::cuCtxDestroy_v2(primary), CUDA_SUCCESS);
  registry().on_primary_destroying(0);
  ASSERT_EQ(ContextRegistry::managed(), nullptr);
  make_current(kConverted);
  const CUdeviceptr buffer = allocate();
  ASSERT_NE(ContextRegistry::managed(), nullptr);
  EXPECT_EQ(ContextRegistry::managed()->context(), primary);
  EXPECT_TRUE(ContextRegistry::managed()->in_arena(buffer));
}

TEST_F(GreenContextHooksTest, EventsOrderItsStreamsButNotItsDefaultOne) {
  const ManagedContext& managed = *ContextRegistry::managed();
  EXPECT_TRUE(managed.can_order(stream_handle(kGreenStream, kLegacyDefault)));
  EXPECT_FALSE(managed.can_order(StreamHandle{0x7770})) << "of another context";
  EXPECT_TRUE(managed.can_order(kLegacyStream));
  make_current(kConverted);
  EXPECT_FALSE(managed.can_order(kLegacyStream));
  EXPECT_TRUE(managed.can_order(stream_handle(kGreenStream, kLegacyDefault)));
  driver().cuStreamGetCtx_v2 = [](CUstream, CUcontext*, CUgreenCtx*) {
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  EXPECT_FALSE(managed.can_order(stream_handle(kGreenStream, kLegacyDefault)))
      << "the driver is too old to tell";
}

// The program has the handle from cuStreamGetCtx, which converts a green context as
// cuCtxFromGreenCtx does.
TEST_F(GreenContextHooksTest, EventsDoNotOrderTheDefaultStreamOfAHandleThatWasNotSeen) {
  auto* const primary = context();
  driver().cuGreenCtxCreate = [](CUgreenCtx* green, CUdevResourceDesc, CUdevice, unsigned) {
    *green = kOtherGreen;
    return CUDA_SUCCESS;
  };
  CUgreenCtx green = nullptr;
  ASSERT_EQ(hook::cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuGreenCtxDestroy(kGreen), CUDA_SUCCESS);  // and what is known of its handle
  const ManagedContext& managed = *ContextRegistry::managed();
  make_current(kConverted);
  EXPECT_FALSE(managed.can_order(kLegacyStream));
  EXPECT_FALSE(managed.can_order(kPerThreadStream));
  EXPECT_TRUE(managed.can_order(stream_handle(kGreenStream, kLegacyDefault)));
  make_current(primary);
  EXPECT_TRUE(managed.can_order(kLegacyStream));
  EXPECT_EQ(hook::cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContextHooksTest, ThePrimaryContextGoesWithItsLastReference) {
  EXPECT_EQ(hook::cuGreenCtxDestroy(kGreen), CUDA_SUCCESS);
  EXPECT_EQ(ContextRegistry::managed(), nullptr);
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
