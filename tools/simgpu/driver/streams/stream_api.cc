// The driver functions of streams, and which stream a handle names.
#include <algorithm>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/streams/event.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {
namespace {

constexpr int kGreatestPriority = -5;

HandleTable<CUstream, Stream>& streams() {
  static auto* const table = new HandleTable<CUstream, Stream>;
  return *table;
}

/// The calling thread's default streams, one per context; closed when the thread ends.
struct PerThreadStreams {
  std::vector<StreamPtr> list;

  ~PerThreadStreams() {
    if (forked()) return;  // locks may be held by threads that the child does not have
    for (const StreamPtr& stream : list) stream->close();
  }
};

StreamPtr per_thread_stream(Context& context) {
  thread_local PerThreadStreams mine;
  std::erase_if(mine.list, [](const StreamPtr& stream) { return stream->closed.load(); });
  for (const StreamPtr& stream : mine.list) {
    if (&stream->context == &context) return stream;
  }
  mine.list.push_back(make_stream(context, StreamKind::kPerThread, CU_STREAM_DEFAULT, 0));
  return mine.list.back();
}

StreamPtr legacy_stream(Context& context) {
  {
    const std::lock_guard lock{context.enqueue_mutex};
    if (context.legacy_stream != nullptr) return context.legacy_stream;
  }
  StreamPtr made = make_stream(context, StreamKind::kLegacy, CU_STREAM_DEFAULT, 0);
  StreamPtr theirs;
  {
    const std::lock_guard lock{context.enqueue_mutex};
    if (context.legacy_stream == nullptr) {
      context.legacy_stream = made;
      return made;
    }
    theirs = context.legacy_stream;  // another thread was faster
  }
  made->close();
  return theirs;
}

CUresult create(CUstream* handle, unsigned flags, int priority) {
  SIMGPU_CONTEXT(context);
  if (handle == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const StreamKind kind =
      (flags & CU_STREAM_NON_BLOCKING) != 0 ? StreamKind::kNonBlocking : StreamKind::kBlocking;
  *handle =
      streams().add(make_stream(*context, kind, flags, std::clamp(priority, kGreatestPriority, 0)));
  return CUDA_SUCCESS;
}

/// Runs `use(stream)` on the stream that `handle` names.
template <typename Use>
CUresult with_stream(CUstream handle, NullStream null_stream, Use use) {
  SIMGPU_CONTEXT(context);
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  return use(stream);
}

CUresult destroy(CUstream handle) {
  SIMGPU_ENTER(cuStreamDestroy);
  SIMGPU_CONTEXT(context);
  const StreamPtr stream = streams().remove(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->close();  // pending work still completes
  return CUDA_SUCCESS;
}

CUresult query(CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamQuery);
  return with_stream(handle, null_stream, [](const StreamPtr& stream) {
    return is_complete(stream) ? stream->context.sticky_error() : CUDA_ERROR_NOT_READY;
  });
}

CUresult synchronize_stream(CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamSynchronize);
  return with_stream(handle, null_stream,
                     [](const StreamPtr& stream) { return synchronize(stream); });
}

CUresult wait_event(CUstream handle, CUevent event, unsigned flags, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamWaitEvent);
  if ((flags & ~1U) != 0) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [event](const StreamPtr& stream) {
    CompletionPtr awaited;
    if (const CUresult result = event_completion(event, &awaited); result != CUDA_SUCCESS) {
      return result;
    }
    if (awaited == nullptr || awaited->complete()) return CUDA_SUCCESS;
    Operation wait;
    wait.label = "an event wait";
    wait.waits.push_back(std::move(awaited));
    enqueue(stream, std::move(wait));
    return CUDA_SUCCESS;
  });
}

CUresult get_flags(CUstream handle, unsigned* flags, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetFlags);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [flags](const StreamPtr& stream) {
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult get_priority(CUstream handle, int* priority, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetPriority);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [priority](const StreamPtr& stream) {
    *priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult get_id(CUstream handle, unsigned long long* id, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetId);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [id](const StreamPtr& stream) {
    *id = stream->id;
    return CUDA_SUCCESS;
  });
}

CUresult get_context(CUstream handle, CUcontext* out, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetCtx);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [out](const StreamPtr& stream) {
    *out = stream->context.handle();
    return CUDA_SUCCESS;
  });
}

/// No stream here belongs to a green context.
CUresult get_contexts(CUstream handle, CUcontext* out, CUgreenCtx* green, NullStream null_stream) {
  if (green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = get_context(handle, out, null_stream);
  if (result == CUDA_SUCCESS) *green = nullptr;
  return result;
}

CUresult get_device(CUstream handle, CUdevice* device, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetDevice);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [device](const StreamPtr& stream) {
    *device = stream->context.device().ordinal();
    return CUDA_SUCCESS;
  });
}

/// Nothing can be captured yet, so no stream ever is.
CUresult capture_status(CUstream handle, CUstreamCaptureStatus* status, NullStream null_stream) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [status](const StreamPtr&) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult is_capturing(CUstream handle, CUstreamCaptureStatus* status, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamIsCapturing);
  return capture_status(handle, status, null_stream);
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetCaptureInfo);
  return capture_status(handle, status, null_stream);
}

CUresult add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags,
                      NullStream null_stream) {
  SIMGPU_ENTER(cuStreamAddCallback);
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [=](const StreamPtr& stream) {
    Operation call;
    call.label = "a stream callback";
    call.host_function = true;
    call.even_after_error = true;
    Context* const owner = &stream->context;
    call.work = [=] {
      const HostFunctionScope scope;
      callback(handle, owner->sticky_error(), data);
    };
    enqueue(stream, std::move(call));
    return CUDA_SUCCESS;
  });
}

CUresult launch_host_function(CUstream handle, CUhostFn function, void* data,
                              NullStream null_stream) {
  SIMGPU_ENTER(cuLaunchHostFunc);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [=](const StreamPtr& stream) {
    Operation call;
    call.label = "a host function";
    call.host_function = true;
    call.work = [=] {
      const HostFunctionScope scope;
      function(data);
    };
    enqueue(stream, std::move(call));
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult resolve_stream(Context& context, CUstream handle, NullStream null_stream, StreamPtr* out) {
  if (handle == nullptr) {
    handle = null_stream == NullStream::kLegacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
  }
  if (handle == CU_STREAM_LEGACY) {
    *out = legacy_stream(context);
  } else if (handle == CU_STREAM_PER_THREAD) {
    *out = per_thread_stream(context);
  } else {
    StreamPtr found = streams().find(handle);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *out = std::move(found);
  }
  return CUDA_SUCCESS;
}

void close_streams_of(Context& context) {
  streams().remove_if([&](const Stream& stream) { return &stream.context == &context; });
  std::vector<StreamPtr> closing;
  {
    const std::lock_guard lock{context.enqueue_mutex};
    closing = context.streams;
    if (context.legacy_stream != nullptr) closing.push_back(context.legacy_stream);
    context.legacy_stream = nullptr;
  }
  for (const StreamPtr& stream : closing) stream->close();
}

SIMGPU_EXPORT CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  SIMGPU_ENTER(cuStreamCreate);
  return create(phStream, Flags, 0);
}

SIMGPU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags,
                                                  int priority) {
  SIMGPU_ENTER(cuStreamCreateWithPriority);
  return create(phStream, flags, priority);
}

SIMGPU_EXPORT CUresult cuStreamDestroy(CUstream hStream) { return destroy(hStream); }
SIMGPU_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) { return destroy(hStream); }

SIMGPU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SIMGPU_ENTER(cuThreadExchangeStreamCaptureMode);
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

/// Both ABI variants of a function: the plain one takes null for the legacy stream, `_ptsz` for the
/// calling thread's. `parameters` in parentheses, `call` with NULL_STREAM where that goes.
#define SIMGPU_STREAM_API(name, parameters, function, ...)                                      \
  SIMGPU_EXPORT CUresult name parameters { return function(__VA_ARGS__, NullStream::kLegacy); } \
  SIMGPU_EXPORT CUresult name##_ptsz parameters {                                               \
    return function(__VA_ARGS__, NullStream::kPerThread);                                       \
  }                                                                                             \
  static_assert(true, "take a semicolon")

SIMGPU_STREAM_API(cuStreamQuery, (CUstream hStream), query, hStream);
SIMGPU_STREAM_API(cuStreamSynchronize, (CUstream hStream), synchronize_stream, hStream);
SIMGPU_STREAM_API(cuStreamWaitEvent, (CUstream hStream, CUevent hEvent, unsigned int Flags),
                  wait_event, hStream, hEvent, Flags);
SIMGPU_STREAM_API(cuStreamGetFlags, (CUstream hStream, unsigned int* flags), get_flags, hStream,
                  flags);
SIMGPU_STREAM_API(cuStreamGetPriority, (CUstream hStream, int* priority), get_priority, hStream,
                  priority);
SIMGPU_STREAM_API(cuStreamGetId, (CUstream hStream, unsigned long long* streamId), get_id, hStream,
                  streamId);
SIMGPU_STREAM_API(cuStreamGetCtx, (CUstream hStream, CUcontext* pctx), get_context, hStream, pctx);
SIMGPU_STREAM_API(cuStreamGetCtx_v2, (CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx),
                  get_contexts, hStream, pCtx, pGreenCtx);
SIMGPU_STREAM_API(cuStreamGetDevice, (CUstream hStream, CUdevice* device), get_device, hStream,
                  device);
SIMGPU_STREAM_API(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus* captureStatus),
                  is_capturing, hStream, captureStatus);
SIMGPU_STREAM_API(cuStreamGetCaptureInfo,
                  (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t*),
                  capture_info, hStream, captureStatus_out);
SIMGPU_STREAM_API(cuStreamGetCaptureInfo_v2,
                  (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t*,
                   CUgraph*, const CUgraphNode**, size_t*),
                  capture_info, hStream, captureStatus_out);
SIMGPU_STREAM_API(cuStreamGetCaptureInfo_v3,
                  (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t*,
                   CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, size_t*),
                  capture_info, hStream, captureStatus_out);
SIMGPU_STREAM_API(cuStreamAddCallback,
                  (CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags),
                  add_callback, hStream, callback, userData, flags);
SIMGPU_STREAM_API(cuLaunchHostFunc, (CUstream hStream, CUhostFn fn, void* userData),
                  launch_host_function, hStream, fn, userData);

}  // namespace simgpu
