#include "interposer/hooks/routed_copy.h"

#include <cstring>

#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/gates.h"
#include "interposer/hooks/memory_kind.h"

namespace superpipe {
namespace {

bool is_idle(StreamHandle stream) noexcept {
  const RelaxedCaptureMode mode;
  return driver().cuStreamQuery(driver_stream(stream)) == CUDA_SUCCESS;
}

/// Whether an operation submitted to `stream` now would run at once: it is idle, and no work of the
/// legacy stream, or (for that one) of blocking streams, comes before it. Those are the driver's to
/// order, so only streams that were created non-blocking can be known.
bool runs_at_once(StreamHandle stream) noexcept {
  unsigned int flags = 0;
  return stream != kLegacyStream && stream != kPerThreadStream &&
         driver().cuStreamGetFlags(driver_stream(stream), &flags) == CUDA_SUCCESS &&
         (flags & CU_STREAM_NON_BLOCKING) != 0 && is_idle(stream);
}

/// Whether nothing that was submitted before has to run before a copy on `stream`. The legacy
/// stream is not asked where that would break a capture.
bool has_nothing_before(const ManagedContext& managed, StreamHandle stream) noexcept {
  return is_idle(stream) &&
         (stream == kLegacyStream || (managed.can_order(kLegacyStream) && is_idle(kLegacyStream)));
}

}  // namespace

Way way_of(const ManagedContext& managed, StreamHandle stream, CopyMode mode,
           const void* program_memory, bool into_buffer, SourceAccess access) noexcept {
  if (runs_at_once(stream)) return Way::kNow;
  if (mode == CopyMode::kSynchronous) return Way::kAwaited;
  if (into_buffer && access == SourceAccess::kWhenever) return Way::kQueued;
  const bool at_once = into_buffer && access == SourceAccess::kAtOnce;
  if (!at_once && is_pinned(program_memory)) return Way::kQueued;
  const bool in_order = !into_buffer || access == SourceAccess::kInOrder;
  return in_order || has_nothing_before(managed, stream) ? Way::kAwaited : Way::kOfASnapshot;
}

CUresult copy_on_host(StreamHandle stream, Way way, void* to, const void* from, std::size_t size,
                      Snapshot snapshot) noexcept {
  if (way != Way::kNow) return queue_copy(stream, to, from, size, std::move(snapshot));
  std::memcpy(to, from, size);
  return CUDA_SUCCESS;
}

CUresult end_copy(ManagedContext& managed, UseToken& token, StreamHandle stream, CUresult result,
                  Way way) noexcept {
  managed.residency().end_use(token, stream, result == CUDA_SUCCESS && way != Way::kNow);
  if (result != CUDA_SUCCESS || way != Way::kAwaited) return result;
  // A capture of another thread is none of its business.
  const RelaxedCaptureMode mode;
  return driver().cuStreamSynchronize(driver_stream(stream));
}

Status scan_source(ManagedContext& managed, const void* source, std::size_t size, CUdeviceptr to,
                   StreamHandle stream, CopyMode mode, SourceAccess access) noexcept {
  if (!managed.moves()) return Status::kOk;
  PointerPins& pins = managed.pins();
  const Status status = pins.pin_named_by(source, size, to);
  if (status != Status::kOk || mode == CopyMode::kSynchronous || access == SourceAccess::kAtOnce ||
      !pins.is_searched(size) || !managed.can_order(stream)) {
    return status;
  }
  // Where nothing has to leave the device yet, nothing is added to copies, as long as the program
  // has no stream wait for it: behind such a wait it may fill the source later.
  if (!Gates::any() && !managed.residency().expects_evictions()) return status;
  // The program may change the source until the stream gets to the copy, and has to keep it.
  if (!runs_at_once(stream) && (access != SourceAccess::kByKind || is_pinned(source))) {
    pins.scan_in_stream(source, size, to, stream);
  }
  return status;
}

}  // namespace superpipe
