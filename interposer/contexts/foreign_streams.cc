#include "interposer/contexts/foreign_streams.h"

#include "interposer/driver/codes.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"

namespace superpipe {
namespace {

/// The context of `stream`; of the special streams, the calling thread's.
CUresult context_of(StreamHandle stream, CUcontext* context) noexcept {
  const bool is_special = stream == kLegacyStream || stream == kPerThreadStream;
  return is_special ? driver().cuCtxGetCurrent(context)
                    : driver().cuStreamGetCtx(driver_stream(stream), context);
}

}  // namespace

Result<StreamHandle> ForeignStreams::behind(StreamHandle stream) noexcept {
  CUcontext context = nullptr;
  if (const CUresult found = context_of(stream, &context); found != CUDA_SUCCESS) {
    return to_status(found);
  }
  const auto follower = this->follower();
  if (!follower.ok()) return follower.status();
  const InRelaxedContext in_context(context);
  CUevent end = nullptr;
  CUresult result = driver().cuEventCreate(&end, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return to_status(result);
  result = driver().cuEventRecord(end, driver_stream(stream));
  if (result == CUDA_SUCCESS) {
    result = driver().cuStreamWaitEvent(driver_stream(*follower), end, 0);
  }
  // The driver keeps it for as long as something waits.
  (void)driver().cuEventDestroy_v2(end);
  if (result != CUDA_SUCCESS) return to_status(result);
  return *follower;
}

// One for all: it is behind every stream that was ever followed, which frees can be.
Result<StreamHandle> ForeignStreams::follower() noexcept {
  const std::lock_guard lock(mutex_);
  if (!follower_) {
    const auto made = device_.create_stream();
    if (!made.ok()) return made.status();
    follower_ = *made;
  }
  return *follower_;
}

}  // namespace superpipe
