#include "interposer/hooks/routed_copy.h"

#include <cstring>
#include <utility>

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

Result<RoutedCopy> begin_routed_copy(ManagedContext& managed, const BufferCopy& copy,
                                     UseToken& token) noexcept {
  ResidencyManager& residency = managed.residency();
  const auto begin = [&]() -> Result<RoutedCopy> {
    const auto route = copy.into_buffer
                           ? residency.begin_copy_in(copy.buffer, copy.size, copy.stream, token)
                           : residency.begin_copy_out(copy.buffer, copy.size, copy.stream, token);
    if (!route.ok()) return route.status();
    RoutedCopy begun{*route};
    if (route->host != nullptr) {
      begun.way = way_of(managed, copy.stream, copy.mode, copy.program_memory, copy.into_buffer,
                         copy.access);
    }
    return begun;
  };
  // Whether a copy that has begun can be made as it is.
  const auto get_ready = [&copy](RoutedCopy& begun, HostFunctionPermit permit) {
    if (begun.route.host == nullptr || begun.way == Way::kNow) return true;
    if (!permit.is_given()) return false;
    begun.permit = std::move(permit);
    if (begun.way != Way::kOfASnapshot) return true;
    begun.snapshot = Snapshot::take(copy.program_memory, begun.route.size.count());
    return !begun.snapshot.empty();
  };
  Result<RoutedCopy> begun = begin();
  if (!begun.ok() || get_ready(*begun, HostFunctionPermit::ask())) return begun;
  // The device makes it. What is pageable the driver stages, a part at a time.
  residency.end_use(token, copy.stream, /*submitted=*/false);
  const auto in_place =
      residency.begin_copy_in_place(copy.buffer, copy.size, copy.stream, copy.into_buffer, token);
  if (in_place.ok()) return RoutedCopy{*in_place};
  begun = begin();
  if (!begun.ok() || get_ready(*begun, HostFunctionPermit::insist())) return begun;
  residency.end_use(token, copy.stream, /*submitted=*/false);
  return in_place.status();
}

CUresult copy_on_host(RoutedCopy& copy, const BufferCopy& wanted) noexcept {
  void* const of_program = const_cast<void*>(wanted.program_memory);
  const void* const content = copy.snapshot.empty() ? of_program : copy.snapshot.data();
  void* const to = wanted.into_buffer ? copy.route.host : of_program;
  const void* const from = wanted.into_buffer ? content : copy.route.host;
  const std::size_t size = copy.route.size.count();
  if (copy.way != Way::kNow) {
    return queue_copy(wanted.stream, to, from, size, std::move(copy.snapshot),
                      std::move(copy.permit));
  }
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
