// Linear copies between the host and managed buffers, wherever their bytes are.
#include <cstring>
#include <utility>

#include "interposer/driver/context_count.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/primary_context.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/memory_kind.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/queued_copy.h"
#include "interposer/hooks/recorded_copy.h"
#include "interposer/hooks/submit.h"
#include "interposer/hooks/traced.h"

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

/// How a copy to or from the host copy of an evicted buffer is made.
enum class Way {
  kNow,          ///< by the calling thread
  kQueued,       ///< when the stream gets there
  kAwaited,      ///< the same, and the call returns only then
  kOfASnapshot,  ///< the same, of what the program's memory holds now
};

/// The way of a copy in the order of `stream`. The program may change or free pageable memory as
/// soon as the call returns, unless that waits. So a copy of it that has to run behind other work
/// takes a snapshot first, and one that has not is waited for. Synchronous copies too come behind
/// what was submitted to their stream before.
Way way_of(const ManagedContext& managed, StreamHandle stream, CopyMode mode,
           const void* program_memory, bool into_buffer) noexcept {
  if (runs_at_once(stream)) return Way::kNow;
  if (mode == CopyMode::kSynchronous) return Way::kAwaited;
  if (is_pinned(program_memory)) return Way::kQueued;
  return into_buffer && !has_nothing_before(managed, stream) ? Way::kOfASnapshot : Way::kAwaited;
}

/// Moves `size` bytes that way. `snapshot`: of `from`, where one was taken.
CUresult copy_on_host(StreamHandle stream, Way way, void* to, const void* from, std::size_t size,
                      Snapshot snapshot) noexcept {
  if (way != Way::kNow) return queue_copy(stream, to, from, size, std::move(snapshot));
  std::memcpy(to, from, size);
  return CUDA_SUCCESS;
}

/// Ends the use of a copy that was made `way`, with `result`. What the calling thread has copied is
/// done, and nothing of it is on the stream. A copy that is to be awaited is waited for then: that
/// may take for as long as other threads need, and they find the buffer used by a stream, as behind
/// an asynchronous copy.
CUresult end_copy(ManagedContext& managed, UseToken& token, StreamHandle stream, CUresult result,
                  Way way) noexcept {
  managed.residency().end_use(token, stream, result == CUDA_SUCCESS && way != Way::kNow);
  if (result != CUDA_SUCCESS || way != Way::kAwaited) return result;
  // A capture of another thread is none of its business.
  const RelaxedCaptureMode mode;
  return driver().cuStreamSynchronize(driver_stream(stream));
}

/// Sees to the pointers among bytes that are about to be device memory.
Status scan_source(ManagedContext& managed, const void* source, std::size_t size, CUdeviceptr to,
                   StreamHandle stream, CopyMode mode) noexcept {
  if (!managed.moves()) return Status::kOk;
  PointerPins& pins = managed.pins();
  const Status status = pins.pin_named_by(source, size, to);
  if (status != Status::kOk || mode == CopyMode::kSynchronous || !pins.is_searched(size) ||
      !managed.can_order(stream)) {
    return status;
  }
  // The program may change a pinned source until the stream gets to the copy.
  if (!runs_at_once(stream) && is_pinned(source)) pins.scan_in_stream(source, size, to, stream);
  return status;
}

const void* at(const void* address, std::size_t offset) noexcept {
  return static_cast<const char*>(address) + offset;
}
void* at(void* address, std::size_t offset) noexcept {
  return static_cast<char*>(address) + offset;
}

/// Calls `copy` with how much is done and what is left, which it lowers to what it has done, until
/// all is done or a part fails: a buffer may be on the device in part.
template <typename Copy>
CUresult in_parts(std::size_t size, const Copy& copy) noexcept {
  std::size_t done = 0;
  CUresult result = CUDA_SUCCESS;
  while (done < size && result == CUDA_SUCCESS) {
    Bytes part{size - done};
    result = copy(done, part);
    done += part.count();
  }
  return result;
}

/// A copy of `size` bytes to or from `buffer`, on a stream on which events cannot order it.
template <typename Call>
CUresult copy_unordered(ManagedContext& managed, CUdeviceptr buffer, StreamHandle stream,
                        std::size_t size, const Call& call) noexcept {
  const std::uint64_t word = buffer;
  return submit_unordered(managed, {&word, 1}, {&word, 1}, stream, [&] { return call(0, size); });
}

/// A copy from the host to the device. `call` hands bytes [offset, offset + size) of it to the
/// driver, which get all of it where superpipe has no say.
template <typename Call>
CUresult copy_in(CUdeviceptr to, const void* from, std::size_t size, StreamHandle stream,
                 CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || from == nullptr) return call(0, size);
  const Status scanned = scan_source(*managed, from, size, to, stream, mode);
  if (scanned != Status::kOk) return managed->failure(scanned, CallKind::kSubmission);
  if (!managed->in_arena(to)) return call(0, size);
  if (!managed->can_order(stream)) return copy_unordered(*managed, to, stream, size, call);
  ResidencyManager& residency = managed->residency();
  return in_parts(size, [&](std::size_t done, Bytes& part) {
    UseToken token;
    const void* const source = at(from, done);
    auto route = residency.begin_copy_in(to + done, part, stream, /*synchronous=*/false, token);
    if (!route.ok()) return managed->failure(route.status(), CallKind::kSubmission);
    Way way = Way::kQueued;
    Snapshot snapshot;
    if (route->host != nullptr) way = way_of(*managed, stream, mode, source, /*into_buffer=*/true);
    if (way == Way::kOfASnapshot) {
      snapshot = Snapshot::take(source, route->size.count());
      if (snapshot.empty()) {
        // The driver stages what is copied to the device, a part at a time.
        residency.end_use(token, stream, /*submitted=*/false);
        route = residency.begin_copy_in_place(to + done, part, stream, token);
        if (!route.ok()) return managed->failure(route.status(), CallKind::kSubmission);
      }
    }
    part = route->size;
    trace_copy(*managed, to + done, *route, /*to_device=*/true, stream);
    const void* const content = snapshot.empty() ? source : snapshot.data();
    const CUresult result =
        route->host == nullptr
            ? call(done, part.count())
            : copy_on_host(stream, way, route->host, content, part.count(), std::move(snapshot));
    return end_copy(*managed, token, stream, result, way);
  });
}

template <typename Call>
CUresult submit_copy_out(void* to, CUdeviceptr from, std::size_t size, StreamHandle stream,
                         CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || to == nullptr || !managed->in_arena(from))
    return call(0, size);
  if (!managed->can_order(stream)) return copy_unordered(*managed, from, stream, size, call);
  return in_parts(size, [&](std::size_t done, Bytes& part) {
    UseToken token;
    void* const target = at(to, done);
    const auto route = managed->residency().begin_copy_out(from + done, part, stream,
                                                           /*synchronous=*/false, token);
    if (!route.ok()) return managed->failure(route.status(), CallKind::kSubmission);
    part = route->size;
    trace_copy(*managed, from + done, *route, /*to_device=*/false, stream);
    Way way = Way::kQueued;
    if (route->host != nullptr) way = way_of(*managed, stream, mode, target, /*into_buffer=*/false);
    const CUresult result = route->host == nullptr ? call(done, part.count())
                                                   : copy_on_host(stream, way, target, route->host,
                                                                  part.count(), Snapshot{});
    return end_copy(*managed, token, stream, result, way);
  });
}

/// A copy from the device to the host.
template <typename Call>
CUresult copy_out(void* to, CUdeviceptr from, std::size_t size, StreamHandle stream, CopyMode mode,
                  const Call& call) noexcept {
  return recorded_copy(
      stream, mode, [&] { return submit_copy_out(to, from, size, stream, mode, call); }, to, from,
      size);
}

/// The context to name for the memory at `address`, if that is of another device which buffers are
/// not open to; else null. That of a pool was allocated in none, so that it is the primary one of
/// the device. Asks the driver.
CUcontext context_of_closed_device(const ManagedContext& managed, CUdeviceptr address) noexcept {
  int device = 0;
  CUcontext context = nullptr;
  const bool is_known = is_device_memory(address) && !is_unified_memory(address) &&
                        driver().cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                       address) == CUDA_SUCCESS &&
                        driver().cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                                       address) == CUDA_SUCCESS;
  const bool is_closed = is_known && device != managed.device() && !managed.is_open_to(device);
  if (!is_closed) return nullptr;
  return context != nullptr ? context : active_primary_context(device);
}

/// In the order of `stream` alone: cuMemcpyPeer would wait for all work of both devices.
CUresult copy_between_contexts(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, std::size_t size,
                               StreamHandle stream) noexcept {
  return driver().cuMemcpyPeerAsync(to, to_context, from, from_context, size,
                                    driver_stream(stream));
}

/// Hands a copy between device addresses to the driver: through `call`, which does not say whose
/// memory it is, as long as that is enough. Between devices it is for what the driver allocated,
/// but for a buffer, which is mapped memory, only if the other device may access it.
template <typename Call>
CUresult copy_on_device(const ManagedContext* managed, CUdeviceptr to, CUdeviceptr from,
                        std::size_t size, StreamHandle stream, const Call& call) noexcept {
  if (managed == nullptr || !ContextCount::has_several()) return call();
  const bool into_ours = managed->in_arena(to);
  if (into_ours == managed->in_arena(from)) return call();
  const CUcontext ours = managed->context();
  const CUcontext other = context_of_closed_device(*managed, into_ours ? from : to);
  if (other == nullptr) return call();
  return into_ours ? copy_between_contexts(to, ours, from, other, size, stream)
                   : copy_between_contexts(to, other, from, ours, size, stream);
}

/// A copy from device memory to device memory.
template <typename Call>
CUresult copy_device(CUdeviceptr to, CUdeviceptr from, std::size_t size, StreamHandle stream,
                     const Call& call) noexcept {
  UsedWords used;
  used.add_reads(from);
  used.add_writes(to);
  return submit_using(used, stream,
                      [&] { return copy_on_device(used.managed(), to, from, size, stream, call); });
}

template <typename Call>
CUresult submit_copy_unified(CUdeviceptr to, CUdeviceptr from, std::size_t size,
                             StreamHandle stream, CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return call(0, size);
  const bool into_ours = managed->in_arena(to);
  const bool out_of_ours = managed->in_arena(from);
  if (!out_of_ours && !is_device_memory(from)) {
    // From the host: to a device address of ours or the driver's, or to the host.
    if (!into_ours && !is_device_memory(to)) return call(0, size);
    return copy_in(to, reinterpret_cast<const void*>(from), size, stream, mode, call);
  }
  if (out_of_ours && !into_ours && !is_device_memory(to)) {
    return submit_copy_out(reinterpret_cast<void*>(to), from, size, stream, mode, call);
  }
  return copy_device(to, from, size, stream, [&] { return call(0, size); });
}

/// A copy whose direction the addresses tell.
template <typename Call>
CUresult copy_unified(CUdeviceptr to, CUdeviceptr from, std::size_t size, StreamHandle stream,
                      CopyMode mode, const Call& call) noexcept {
  return recorded_copy(
      stream, mode, [&] { return submit_copy_unified(to, from, size, stream, mode, call); }, to,
      from, size);
}

}  // namespace

CUresult hook::cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost,
                               size_t ByteCount) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                 [&](std::size_t offset, std::size_t size) {
                   return driver().cuMemcpyHtoD_v2(dstDevice + offset, at(srcHost, offset), size);
                 });
}
CUresult hook::cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost,
                                    size_t ByteCount) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                 [&](std::size_t offset, std::size_t size) {
                   return driver().cuMemcpyHtoD_v2_ptds(dstDevice + offset, at(srcHost, offset),
                                                        size);
                 });
}
CUresult hook::cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, stream_handle(hStream, kLegacyDefault),
                 CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                   return driver().cuMemcpyHtoDAsync_v2(dstDevice + offset, at(srcHost, offset),
                                                        size, hStream);
                 });
}
CUresult hook::cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void* srcHost,
                                         size_t ByteCount, CUstream hStream) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, stream_handle(hStream, kPerThreadDefault),
                 CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                   return driver().cuMemcpyHtoDAsync_v2_ptsz(dstDevice + offset,
                                                             at(srcHost, offset), size, hStream);
                 });
}

CUresult hook::cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                  [&](std::size_t offset, std::size_t size) {
                    return driver().cuMemcpyDtoH_v2(at(dstHost, offset), srcDevice + offset, size);
                  });
}
CUresult hook::cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice,
                                    size_t ByteCount) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                  [&](std::size_t offset, std::size_t size) {
                    return driver().cuMemcpyDtoH_v2_ptds(at(dstHost, offset), srcDevice + offset,
                                                         size);
                  });
}
CUresult hook::cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, stream_handle(hStream, kLegacyDefault),
                  CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                    return driver().cuMemcpyDtoHAsync_v2(at(dstHost, offset), srcDevice + offset,
                                                         size, hStream);
                  });
}
CUresult hook::cuMemcpyDtoHAsync_v2_ptsz(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                         CUstream hStream) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, stream_handle(hStream, kPerThreadDefault),
                  CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                    return driver().cuMemcpyDtoHAsync_v2_ptsz(at(dstHost, offset),
                                                              srcDevice + offset, size, hStream);
                  });
}

CUresult hook::cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                               size_t ByteCount) noexcept {
  return copy_device(dstDevice, srcDevice, ByteCount, kLegacyStream,
                     [&] { return driver().cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount); });
}
CUresult hook::cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                    size_t ByteCount) noexcept {
  return copy_device(dstDevice, srcDevice, ByteCount, kPerThreadStream, [&] {
    return driver().cuMemcpyDtoD_v2_ptds(dstDevice, srcDevice, ByteCount);
  });
}
CUresult hook::cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_device(dstDevice, srcDevice, ByteCount, stream_handle(hStream, kLegacyDefault), [&] {
    return driver().cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
  });
}
CUresult hook::cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                         size_t ByteCount, CUstream hStream) noexcept {
  return copy_device(
      dstDevice, srcDevice, ByteCount, stream_handle(hStream, kPerThreadDefault),
      [&] { return driver().cuMemcpyDtoDAsync_v2_ptsz(dstDevice, srcDevice, ByteCount, hStream); });
}

CUresult hook::cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) noexcept {
  return copy_unified(dst, src, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                      [&](std::size_t offset, std::size_t size) {
                        return driver().cuMemcpy(dst + offset, src + offset, size);
                      });
}
CUresult hook::cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) noexcept {
  return copy_unified(dst, src, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                      [&](std::size_t offset, std::size_t size) {
                        return driver().cuMemcpy_ptds(dst + offset, src + offset, size);
                      });
}
CUresult hook::cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                             CUstream hStream) noexcept {
  return copy_unified(dst, src, ByteCount, stream_handle(hStream, kLegacyDefault),
                      CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                        return driver().cuMemcpyAsync(dst + offset, src + offset, size, hStream);
                      });
}
CUresult hook::cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                  CUstream hStream) noexcept {
  return copy_unified(dst, src, ByteCount, stream_handle(hStream, kPerThreadDefault),
                      CopyMode::kAsynchronous, [&](std::size_t offset, std::size_t size) {
                        return driver().cuMemcpyAsync_ptsz(dst + offset, src + offset, size,
                                                           hStream);
                      });
}

}  // namespace superpipe
