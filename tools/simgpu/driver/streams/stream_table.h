// Which stream a handle names: one that a program made, or a default stream of a context.
#pragma once

#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// Which stream a null handle means: legacy, or the calling thread's (_ptsz and _ptds variants).
enum class NullStream { kLegacy, kPerThread };

/// Finds the stream that `handle` names in `context`: null by `null_stream`, CU_STREAM_LEGACY,
/// CU_STREAM_PER_THREAD, or one that cuStreamCreate made (of any context: see context_of()). The
/// first use of a default stream makes it. Thread-safe, never waits.
/// Where a green context is current, null is the stream that this has for it.
/// @return CUDA_ERROR_INVALID_HANDLE if there is no such stream (destroyed ones included, and the
///     per-thread one of a green context), CUDA_ERROR_CONTEXT_IS_DESTROYED if its green context is
///     gone.
CUresult resolve_stream(Context& context, CUstream handle, NullStream null_stream, StreamPtr* out);

/// The stream that cuStreamCreate made and `handle` names; null where there is none. Thread-safe.
StreamPtr find_made_stream(CUstream handle);

/// Makes a stream of `context`, or of its green context `green`; `flags` and `priority` are what
/// its getters answer.
CUstream create_stream(Context& context, unsigned flags, int priority,
                       GreenContext* green = nullptr);

/// Closes the stream and invalidates its handle; pending work still completes. @return false if
/// there is no such stream.
bool destroy_stream(CUstream handle);

/// Closes all streams of `context` and invalidates their handles.
void close_streams_of(Context& context);

}  // namespace simgpu

/// Defines the exported function `name` and its variant for per-thread default streams, which ends
/// in `suffix` (_ptsz or _ptds). Both call `function` with the arguments that follow and with what
/// a null stream means to them.
#define SIMGPU_STREAM_VARIANTS(name, suffix, parameters, function, ...) \
  SIMGPU_EXPORT CUresult name parameters {                              \
    return function(__VA_ARGS__, ::simgpu::NullStream::kLegacy);        \
  }                                                                     \
  SIMGPU_EXPORT CUresult name##suffix parameters {                      \
    return function(__VA_ARGS__, ::simgpu::NullStream::kPerThread);     \
  }                                                                     \
  static_assert(true, "take a semicolon")
