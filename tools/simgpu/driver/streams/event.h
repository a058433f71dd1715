// Events, for the streams that wait for them.
#pragma once

#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// The completion that `event` was last recorded with, null if it never was.
/// @return CUDA_ERROR_INVALID_HANDLE if there is no such event.
CUresult event_completion(CUevent event, CompletionPtr* completion);

/// Invalidates the events of `context`.
void destroy_events_of(Context& context);

}  // namespace simgpu
