// The driver functions of streams.
#include <algorithm>

#include "tools/simgpu/driver/context/green_context.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/streams/event.h"
#include "tools/simgpu/driver/streams/stream_object.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {
namespace {

constexpr int kGreatestPriority = -5;

CUresult create(CUstream* handle, unsigned flags, int priority) {
  SIMGPU_CONTEXT(context);
  if (handle == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  GreenContext* const green = current_green_context();
  if (green != nullptr && flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *handle = create_stream(*context, flags, std::clamp(priority, kGreatestPriority, 0), green);
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
  StreamPtr stream;
  const CUresult found = resolve_stream(*context, handle, NullStream::kLegacy, &stream);
  if (found == CUDA_ERROR_CONTEXT_IS_DESTROYED) return found;
  if (found == CUDA_SUCCESS) forget_captures_of(stream);
  return destroy_stream(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult query(CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamQuery);
  return with_stream(handle, null_stream, [](const StreamPtr& stream) {
    if (const auto answer = refuse_synchronous(stream)) return *answer;
    return is_complete(stream) ? stream->context.sticky_error() : CUDA_ERROR_NOT_READY;
  });
}

CUresult synchronize_stream(CUstream handle, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamSynchronize);
  return with_stream(handle, null_stream, [](const StreamPtr& stream) {
    if (const auto answer = refuse_synchronous(stream)) return *answer;
    return synchronize(stream);
  });
}

CUresult wait_event(CUstream handle, CUevent event, unsigned flags, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamWaitEvent);
  if ((flags & ~1U) != 0) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [=](const StreamPtr& stream) {
    EventRecord last;
    if (const CUresult result = event_record(event, &last); result != CUDA_SUCCESS) return result;
    if (flags == CU_EVENT_WAIT_EXTERNAL) return capture_external(stream, WaitWork{event});
    if (const auto answer = capture_wait(stream, last.captured)) return *answer;
    follow(stream, last.mark);
    CompletionPtr awaited = std::move(last.completion);
    if (awaited == nullptr || awaited->complete()) return CUDA_SUCCESS;
    await_room(stream);
    Operation wait;
    wait.label = "an event wait";
    wait.waits.push_back(std::move(awaited));
    enqueue(stream, std::move(wait));
    return CUDA_SUCCESS;
  });
}

/// Writes what `read(stream)` says of the stream that `handle` names to `*out`.
template <typename Value, typename Read>
CUresult read_stream(CUstream handle, NullStream null_stream, Value* out, Read read) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [&](const StreamPtr& stream) {
    *out = read(*stream);
    return CUDA_SUCCESS;
  });
}

CUresult get_flags(CUstream handle, unsigned* flags, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetFlags);
  return read_stream(handle, null_stream, flags, [](const Stream& stream) { return stream.flags; });
}

CUresult get_priority(CUstream handle, int* priority, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetPriority);
  return read_stream(handle, null_stream, priority,
                     [](const Stream& stream) { return stream.priority; });
}

CUresult get_id(CUstream handle, unsigned long long* id, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetId);
  return read_stream(handle, null_stream, id, [](const Stream& stream) { return stream.id; });
}

CUresult get_context(CUstream handle, CUcontext* out, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetCtx);
  return read_stream(handle, null_stream, out, [](const Stream& stream) {
    return Current{&stream.context, stream.green}.handle();
  });
}

CUresult get_green_context(CUstream handle, CUgreenCtx* out, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetGreenCtx);
  return read_stream(handle, null_stream, out, [](const Stream& stream) {
    return stream.green == nullptr ? nullptr : stream.green->handle();
  });
}

/// Of a stream of a green context, the primary context and that one.
CUresult get_contexts(CUstream handle, CUcontext* out, CUgreenCtx* green, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetCtx_v2);
  if (green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = read_stream(handle, null_stream, out,
                                      [](const Stream& stream) { return stream.context.handle(); });
  if (result != CUDA_SUCCESS) return result;
  return read_stream(handle, null_stream, green, [](const Stream& stream) {
    return stream.green == nullptr ? nullptr : stream.green->handle();
  });
}

CUresult get_device(CUstream handle, CUdevice* device, NullStream null_stream) {
  SIMGPU_ENTER(cuStreamGetDevice);
  return read_stream(handle, null_stream, device,
                     [](const Stream& stream) { return stream.context.device().ordinal(); });
}

CUresult add_callback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags,
                      NullStream null_stream) {
  SIMGPU_ENTER(cuStreamAddCallback);
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return with_stream(handle, null_stream, [=](const StreamPtr& stream) {
    if (const auto answer = refuse_captured(stream)) return *answer;
    await_room(stream);
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
    if (const auto answer = capture(stream, [&] { return seal(HostWork{function, data}); })) {
      return *answer;
    }
    await_room(stream);
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

SIMGPU_EXPORT CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  SIMGPU_ENTER(cuStreamCreate);
  return create(phStream, Flags, 0);
}

SIMGPU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags,
                                                  int priority) {
  SIMGPU_ENTER(cuStreamCreateWithPriority);
  return create(phStream, flags, priority);
}

SIMGPU_EXPORT CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx* phCtx) {
  return get_green_context(hStream, phCtx, NullStream::kLegacy);
}

SIMGPU_EXPORT CUresult cuStreamDestroy(CUstream hStream) { return destroy(hStream); }
SIMGPU_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) { return destroy(hStream); }

SIMGPU_STREAM_VARIANTS(cuStreamQuery, _ptsz, (CUstream hStream), query, hStream);
SIMGPU_STREAM_VARIANTS(cuStreamSynchronize, _ptsz, (CUstream hStream), synchronize_stream, hStream);
SIMGPU_STREAM_VARIANTS(cuStreamWaitEvent, _ptsz,
                       (CUstream hStream, CUevent hEvent, unsigned int Flags), wait_event, hStream,
                       hEvent, Flags);
SIMGPU_STREAM_VARIANTS(cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int* flags), get_flags,
                       hStream, flags);
SIMGPU_STREAM_VARIANTS(cuStreamGetPriority, _ptsz, (CUstream hStream, int* priority), get_priority,
                       hStream, priority);
SIMGPU_STREAM_VARIANTS(cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long* streamId),
                       get_id, hStream, streamId);
SIMGPU_STREAM_VARIANTS(cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext* pctx), get_context,
                       hStream, pctx);
SIMGPU_STREAM_VARIANTS(cuStreamGetCtx_v2, _ptsz,
                       (CUstream hStream, CUcontext* pCtx, CUgreenCtx* pGreenCtx), get_contexts,
                       hStream, pCtx, pGreenCtx);
SIMGPU_STREAM_VARIANTS(cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice* device), get_device,
                       hStream, device);
SIMGPU_STREAM_VARIANTS(cuStreamAddCallback, _ptsz,
                       (CUstream hStream, CUstreamCallback callback, void* userData,
                        unsigned int flags),
                       add_callback, hStream, callback, userData, flags);
SIMGPU_STREAM_VARIANTS(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void* userData),
                       launch_host_function, hStream, fn, userData);

}  // namespace simgpu
