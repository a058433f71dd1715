// Green contexts: what superpipe relies on to manage what runs there as work of the primary
// context.

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

/// A green context of half of the device, destroyed with the object.
class Green {
 public:
  Green() : status_(create()) {}
  ~Green() {
    if (stream_ != nullptr) CU_EXPECT(CUDA_SUCCESS, cu().cuStreamDestroy(stream_));
    if (green_ != nullptr) CU_EXPECT(CUDA_SUCCESS, cu().cuGreenCtxDestroy(green_));
  }
  Green(const Green&) = delete;
  Green& operator=(const Green&) = delete;

  CUresult status() const { return status_; }
  CUgreenCtx get() const { return green_; }
  CUstream stream() const { return stream_; }

 private:
  CUresult create() {
    CUdevResource whole{};
    CUresult result = cu().cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM);
    if (result != CUDA_SUCCESS) return result;
    CUdevResource half{};
    unsigned groups = 1;
    result =
        cu().cuDevSmResourceSplitByCount(&half, &groups, &whole, nullptr, 0, whole.sm.smCount / 2);
    if (result != CUDA_SUCCESS) return result;
    CUdevResourceDesc description = nullptr;
    result = cu().cuDevResourceGenerateDesc(&description, &half, 1);
    if (result != CUDA_SUCCESS) return result;
    result = cu().cuGreenCtxCreate(&green_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    if (result != CUDA_SUCCESS) return result;
    return cu().cuGreenCtxStreamCreate(&stream_, green_, CU_STREAM_NON_BLOCKING, 0);
  }

  CUgreenCtx green_ = nullptr;
  CUstream stream_ = nullptr;
  CUresult status_;
};

using GreenContext = ConformanceTest;

TEST_F(GreenContext, IsThePrimaryContextUnderAnotherHandle) {
  const Green green;
  CU_ASSERT(green.status());
  CUcontext primary = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&primary));
  CUcontext converted = nullptr;
  CU_ASSERT(cu().cuCtxFromGreenCtx(&converted, green.get()));
  EXPECT_NE(converted, primary);
  CU_ASSERT(cu().cuCtxPushCurrent(converted));
  CUcontext current = nullptr;
  CU_EXPECT(CUDA_SUCCESS, cu().cuCtxGetCurrent(&current));
  EXPECT_EQ(current, converted);
  CUdevice device = 7;
  CU_EXPECT(CUDA_SUCCESS, cu().cuCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  CUcontext popped = nullptr;
  CU_ASSERT(cu().cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, converted);
}

TEST_F(GreenContext, HasStreamsThatTellOfThePrimaryContext) {
  const Green green;
  CU_ASSERT(green.status());
  CUcontext primary = nullptr;
  CU_ASSERT(cu().cuCtxGetCurrent(&primary));
  CUcontext context = nullptr;
  CUgreenCtx told = nullptr;
  CU_ASSERT(cu().cuStreamGetCtx(green.stream(), &context));
  EXPECT_NE(context, primary);
  CU_ASSERT(cu().cuStreamGetCtx_v2(green.stream(), &context, &told));
  EXPECT_EQ(context, primary);
  EXPECT_EQ(told, green.get());
  const Stream ordinary;
  CU_ASSERT(cu().cuStreamGetCtx_v2(ordinary.get(), &context, &told));
  EXPECT_EQ(context, primary);
  EXPECT_EQ(told, nullptr);
}

TEST_F(GreenContext, HasStreamsThatEventsOfThePrimaryContextOrder) {
  const Green green;
  CU_ASSERT(green.status());
  const Buffer first(16);
  const Buffer second(16);
  const Stream ordinary;
  const Event filled;
  const Event copied;
  CU_ASSERT(fill(green.stream(), first.address(), 71, 16, long_time()));
  CU_ASSERT(cu().cuEventRecord(filled.get(), green.stream()));
  CU_EXPECT(CUDA_ERROR_NOT_READY, cu().cuEventQuery(filled.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(ordinary.get(), filled.get(), 0));
  CU_ASSERT(copy_words(ordinary.get(), second.address(), first.address(), 16));
  CU_ASSERT(cu().cuEventRecord(copied.get(), ordinary.get()));
  CU_ASSERT(cu().cuStreamWaitEvent(green.stream(), copied.get(), 0));
  CU_ASSERT(fill(green.stream(), first.address(), 72, 16));
  CU_ASSERT(cu().cuStreamSynchronize(green.stream()));
  EXPECT_EQ(word_at(second.address()), 71U);
  EXPECT_EQ(word_at(first.address()), 72U);
}

}  // namespace
}  // namespace conformance
