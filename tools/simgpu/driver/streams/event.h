// Events, for the streams that wait for them.
#pragma once

#include <vector>

#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/streams/stream.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {

/// What an event was last recorded with.
struct EventRecord {
  CompletionPtr completion;  ///< null before the first record outside of captures
  StreamMark mark;           ///< where that was
  CapturedMarkPtr captured;  ///< null unless the last record was in a capture
};

/// What `event` was last recorded with. @return CUDA_ERROR_INVALID_HANDLE if there is no such
/// event.
CUresult event_record(CUevent event, EventRecord* last);

/// Records `event` on `stream`, which does not capture: enqueues a mark, which also waits for
/// `waits`. @return CUDA_ERROR_INVALID_HANDLE; `*completion` (may be null) is the mark's.
CUresult record_on(CUevent event, const StreamPtr& stream, std::vector<CompletionPtr> waits,
                   CompletionPtr* completion);

/// Records `handle` on the stream that `stream_handle` and `null_stream` name: enqueues a mark
/// behind all that was enqueued there before or, if the stream captures, remembers what it is at.
/// Never waits. Any thread.
/// @return CUDA_ERROR_INVALID_HANDLE if there is no such event or stream, or if they are of
///     different contexts; CUDA_ERROR_INVALID_CONTEXT without a current context, and its sticky
///     error.
CUresult record(CUevent handle, CUstream stream_handle, NullStream null_stream);

/// Invalidates the events of `context`.
void destroy_events_of(Context& context);

}  // namespace simgpu
