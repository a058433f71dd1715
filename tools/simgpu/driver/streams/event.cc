#include "tools/simgpu/driver/streams/event.h"

#include <mutex>
#include <utility>

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
  EventRecord last;  ///< under the mutex
};

using EventPtr = std::shared_ptr<Event>;

HandleTable<CUevent, Event>& events() {
  static auto* const table = new HandleTable<CUevent, Event>;
  return *table;
}

/// event_record() for calls that ask whether the event has completed, which may be no captured one.
CUresult uncaptured_record(CUevent event, EventRecord* last) {
  const CUresult result = event_record(event, last);
  return result != CUDA_SUCCESS ? result : check_uncaptured(last->captured);
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
  if (flags == 0) return record(event, stream, null_stream);
  SIMGPU_CONTEXT(context);
  StreamPtr capturing;
  if (const CUresult result = resolve_stream(*context, stream, null_stream, &capturing);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (events().find(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return capture_external(capturing, RecordWork{event});
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
  EventRecord first;
  EventRecord last;
  CUresult result = uncaptured_record(start_handle, &first);
  if (result == CUDA_SUCCESS) result = uncaptured_record(end_handle, &last);
  if (result != CUDA_SUCCESS) return result;
  if (first.completion == nullptr || last.completion == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!first.completion->complete() || !last.completion->complete()) return CUDA_ERROR_NOT_READY;
  const Nanoseconds took = last.completion->end() - first.completion->end();
  *milliseconds = static_cast<float>(static_cast<double>(took) * 1e-6);
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
  CapturedMarkPtr captured;
  if (const auto answer = capture_record(stream, &captured)) {
    if (*answer != CUDA_SUCCESS) return *answer;
    const std::lock_guard lock{event->mutex};
    event->last.captured = std::move(captured);
    return CUDA_SUCCESS;
  }
  await_room(stream);
  return record_on(handle, stream, {}, nullptr);
}

CUresult record_on(CUevent handle, const StreamPtr& stream, std::vector<CompletionPtr> waits,
                   CompletionPtr* completion) {
  const EventPtr event = events().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Operation mark;
  mark.label = "an event";
  mark.waits = std::move(waits);
  const std::lock_guard lock{event->mutex};
  event->last.captured = nullptr;
  event->last.completion = enqueue(stream, std::move(mark), &event->last.mark);
  if (completion != nullptr) *completion = event->last.completion;
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent handle, EventRecord* last) {
  const EventPtr event = events().find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock{event->mutex};
  *last = event->last;
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
  *phEvent = events().add(std::shared_ptr<Event>(new Event{*context, Flags, {}, {}}));
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
  EventRecord last;
  if (const CUresult result = uncaptured_record(hEvent, &last); result != CUDA_SUCCESS) {
    return result;
  }
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  return last.completion == nullptr || last.completion->complete() ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_NOT_READY;
}

SIMGPU_EXPORT CUresult cuEventSynchronize(CUevent hEvent) {
  SIMGPU_ENTER(cuEventSynchronize);
  SIMGPU_CONTEXT(context);
  EventRecord last;
  if (const CUresult result = uncaptured_record(hEvent, &last); result != CUDA_SUCCESS) {
    return result;
  }
  if (const CUresult unsafe = check_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (last.completion != nullptr) last.completion->wait();
  note_synchronisation(context->device(),
                       [&](StreamPoint point) { return last.mark.covers(point); });
  return context->sticky_error();
}

SIMGPU_EXPORT CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed(pMilliseconds, hStart, hEnd);
}
SIMGPU_EXPORT CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return elapsed(pMilliseconds, hStart, hEnd);
}

}  // namespace simgpu
