// Events, for the streams that wait for them.
#pragma once

#include "tools/simgpu/driver/streams/stream.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {

/// The completion that `event` was last recorded with, null if it never was, and where that was.
/// @return CUDA_ERROR_INVALID_HANDLE if there is no such event.
CUresult event_completion(CUevent event, CompletionPtr* completion, StreamMark* mark = nullptr);

/// Records `handle` on the stream that `stream_handle` and `null_stream` name: enqueues a mark
/// behind all that was enqueued there before. Never waits. Any thread.
/// @return CUDA_ERROR_INVALID_HANDLE if there is no such event or stream, or if they are of
///     different contexts; CUDA_ERROR_INVALID_CONTEXT without a current context, and its sticky
///     error.
CUresult record(CUevent handle, CUstream stream_handle, NullStream null_stream);

/// Invalidates the events of `context`.
void destroy_events_of(Context& context);

}  // namespace simgpu
