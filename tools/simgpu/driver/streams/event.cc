#include "tools/simgpu/driver/streams/event.h"

#include <mutex>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/memory/pool_table.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {
namespace {

struct Event {
  Context& context;
  const unsigned flags;
  std::mutex mutex;
  CompletionPtr recorded;  ///< under the mutex; null before the first record
  StreamMark mark;         ///< under the mutex; of the last record

  CompletionPtr completion() {
    const std::lock_guard lock{mutex};
    return recorded;
  }
};

using EventPtr = std::shared_ptr<Event>;

HandleTable<CUevent, Event>& events() {
  static auto* const table = new HandleTable<CUevent, Event>;
  return *table;
}

CUresult record_event(CUevent event, CUstream stream, NullStream null_stream) {
  SIMGPU_ENTER(cuEventRecord);
  return record(event, stream, null_stream);
}

CUresult record_event_with_flags(CUevent event, CUstream stream, unsigned flags,
                                 NullStream null_stream) {
  SIMGPU_ENTER(cuEventRecordWithFlags);
  if ((flags & ~static_cast<unsigned>(CU_EVENT_RECORD_EXTERNAL)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return record(event, stream, null_stream);
}

CUresult destroy(CUevent handle) {
  SIMGPU_ENTER(cuEventDestroy);
  SIMGPU_CONTEXT(context);
  return events().remove(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  SIMGPU_ENTER(cuEventElapsedTime);
  SIMGPU_CONTEXT(context);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const EventPtr start = events().find(start_handle);
  const EventPtr end = events().find(end_handle);
  if (start == nullptr || end == nullptr || &start->context != &end->context ||
      ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const CompletionPtr first = start->completion();
  const CompletionPtr last = end->completion();
  if (first == nullptr || last == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!first->complete() || !last->complete()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(last->end() - first->end()) * 1e-6);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult record(CUevent handle, CUstream stream_handle, NullStream null_stream) {
  SIMGPU_CONTEXT(context);
  const EventPtr event = events().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  StreamPtr stream;
  if (const CUresult result = resolve_stream(*context, stream_handle, null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (&event->context != &stream->context) return CUDA_ERROR_INVALID_HANDLE;
  await_room(stream);
  Operation mark;
  mark.label = "an event";
  const std::lock_guard lock{event->mutex};
  event->recorded = enqueue(stream, std::move(mark), &event->mark);
  return CUDA_SUCCESS;
}

CUresult event_completion(CUevent handle, CompletionPtr* completion, StreamMark* mark) {
  const EventPtr event = events().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock{event->mutex};
  *completion = event->recorded;
  if (mark != nullptr) *mark = event->mark;
  return CUDA_SUCCESS;
}

void destroy_events_of(Context& context) {
  events().remove_if([&](const Event& event) { return &event.context == &context; });
}

SIMGPU_EXPORT CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  SIMGPU_ENTER(cuEventCreate);
  SIMGPU_CONTEXT(context);
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const bool interprocess = (Flags & CU_EVENT_INTERPROCESS) != 0;
  if (phEvent == nullptr || (Flags & ~kKnown) != 0 ||
      (interprocess && (Flags & CU_EVENT_DISABLE_TIMING) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phEvent = events().add(std::shared_ptr<Event>(new Event{*context, Flags, {}, nullptr, {}}));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuEventDestroy(CUevent hEvent) { return destroy(hEvent); }
SIMGPU_EXPORT CUresult cuEventDestroy_v2(CUevent hEvent) { return destroy(hEvent); }

SIMGPU_STREAM_VARIANTS(cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), record_event,
                       hEvent, hStream);
SIMGPU_STREAM_VARIANTS(cuEventRecordWithFlags, _ptsz,
                       (CUevent hEvent, CUstream hStream, unsigned int flags),
                       record_event_with_flags, hEvent, hStream, flags);

SIMGPU_EXPORT CUresult cuEventQuery(CUevent hEvent) {
  SIMGPU_ENTER(cuEventQuery);
  SIMGPU_CONTEXT(context);
  CompletionPtr completion;
  if (const CUresult result = event_completion(hEvent, &completion); result != CUDA_SUCCESS) {
    return result;
  }
  return completion == nullptr || completion->complete() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIMGPU_EXPORT CUresult cuEventSynchronize(CUevent hEvent) {
  SIMGPU_ENTER(cuEventSynchronize);
  SIMGPU_CONTEXT(context);
  CompletionPtr completion;
  StreamMark mark;
  if (const CUresult result = event_completion(hEvent, &completion, &mark);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (completion != nullptr) completion->wait();
  note_synchronisation(context->device(), [&](StreamPoint point) { return mark.covers(point); });
  return context->sticky_error();
}

SIMGPU_EXPORT CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed(pMilliseconds, hStart, hEnd);
}
SIMGPU_EXPORT CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed(pMilliseconds, hStart, hEnd);
}

}  // namespace simgpu
