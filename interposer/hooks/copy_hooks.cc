// Linear copies between the host and managed buffers, wherever their bytes are.
#include <cstring>
#include <memory>
#include <new>

#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/submit.h"

namespace superpipe {
namespace {

/// Whether a call returns when its copy is done or when it is queued.
enum class CopyMode { kSynchronous, kAsynchronous };

/// A memcpy that a stream runs when it gets there. Owned by the stream's host function.
struct QueuedCopy {
  void* to;
  const void* from;
  std::size_t size;
  std::unique_ptr<char[]> snapshot;  ///< the source, where it was pageable
};

void run_queued_copy(void* user_data) {
  const std::unique_ptr<QueuedCopy> copy(static_cast<QueuedCopy*>(user_data));
  std::memcpy(copy->to, copy->from, copy->size);
}

/// Whether the driver pins or manages the host memory at `address`: a copy of it is then truly
/// asynchronous, and reads it when the stream gets there.
bool is_pinned(const void* address) noexcept {
  unsigned int type = 0;
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS;
}

bool is_device_memory(CUdeviceptr address) noexcept {
  unsigned int type = 0;
  return driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

bool is_idle(StreamHandle stream) noexcept {
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

/// Queues a memcpy on `stream`. The driver's own host-to-host copies are synchronous with the host,
/// so a host function does it.
CUresult queue_copy(StreamHandle stream, void* to, const void* from, std::size_t size,
                    bool snapshot) noexcept {
  std::unique_ptr<QueuedCopy> copy(new (std::nothrow) QueuedCopy{to, from, size, nullptr});
  if (copy == nullptr) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (snapshot) {
    copy->snapshot.reset(new (std::nothrow) char[size]);
    if (copy->snapshot == nullptr) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    std::memcpy(copy->snapshot.get(), from, size);
    copy->from = copy->snapshot.get();
  }
  const CUresult result =
      driver().cuLaunchHostFunc(driver_stream(stream), run_queued_copy, copy.get());
  if (result == CUDA_SUCCESS) (void)copy.release();
  return result;
}

/// Moves `size` bytes between host memory of the program and the host copy of an evicted buffer, in
/// the order of `stream`.
CUresult copy_on_host(const ManagedContext& managed, StreamHandle stream, CopyMode mode, void* to,
                      const void* from, std::size_t size, const void* program_memory,
                      bool into_buffer) noexcept {
  if (runs_at_once(stream)) {
    std::memcpy(to, from, size);
    return CUDA_SUCCESS;
  }
  // The program may change or free pageable memory as soon as the call returns. So a copy of it
  // that has to run behind other work takes a snapshot first, and one that has not is waited for.
  const bool pageable = mode != CopyMode::kSynchronous && !is_pinned(program_memory);
  const bool snapshot = pageable && into_buffer && !has_nothing_before(managed, stream);
  // Synchronous copies too come behind what was submitted to their stream before.
  const CUresult result = queue_copy(stream, to, from, size, snapshot);
  const bool waits = mode == CopyMode::kSynchronous || (pageable && !snapshot);
  if (result != CUDA_SUCCESS || !waits) return result;
  return driver().cuStreamSynchronize(driver_stream(stream));
}

/// Sees to the pointers among bytes that are about to be device memory.
Status scan_source(ManagedContext& managed, const void* source, std::size_t size,
                   StreamHandle stream, CopyMode mode) noexcept {
  const Status status = managed.pins().pin_named_by(source, size);
  if (status != Status::kOk || mode == CopyMode::kSynchronous || size > PointerPins::kLargestScan ||
      !managed.can_order(stream)) {
    return status;
  }
  // The program may change a pinned source until the stream gets to the copy.
  if (!runs_at_once(stream) && is_pinned(source))
    managed.pins().scan_in_stream(source, size, stream);
  return status;
}

/// A copy from the host to the device. `call` hands it to the driver unchanged.
template <typename Call>
CUresult copy_in(CUdeviceptr to, const void* from, std::size_t size, StreamHandle stream,
                 CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || from == nullptr) return call();
  const Status scanned = scan_source(*managed, from, size, stream, mode);
  if (scanned != Status::kOk) return managed->failure(scanned, CallKind::kSubmission);
  if (!managed->in_arena(to)) return call();
  if (!managed->can_order(stream)) {
    const std::uint64_t word = to;
    const Status status = managed->pins().pin({&word, 1}, "copied where events cannot order it");
    return status == Status::kOk ? call() : managed->failure(status, CallKind::kSubmission);
  }
  UseToken token;
  const auto route = managed->residency().begin_copy_in(to, Bytes{size}, stream,
                                                        mode == CopyMode::kSynchronous, token);
  if (!route.ok()) return managed->failure(route.status(), CallKind::kSubmission);
  const CUresult result = route->host == nullptr
                              ? call()
                              : copy_on_host(*managed, stream, mode, route->host, from, size, from,
                                             /*into_buffer=*/true);
  managed->residency().end_use(token, stream, result == CUDA_SUCCESS);
  return result;
}

/// A copy from the device to the host.
template <typename Call>
CUresult copy_out(void* to, CUdeviceptr from, std::size_t size, StreamHandle stream, CopyMode mode,
                  const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || to == nullptr || !managed->in_arena(from)) return call();
  if (!managed->can_order(stream)) {
    const std::uint64_t word = from;
    const Status status = managed->pins().pin({&word, 1}, "copied where events cannot order it");
    return status == Status::kOk ? call() : managed->failure(status, CallKind::kSubmission);
  }
  UseToken token;
  const auto route = managed->residency().begin_copy_out(from, Bytes{size}, stream,
                                                         mode == CopyMode::kSynchronous, token);
  if (!route.ok()) return managed->failure(route.status(), CallKind::kSubmission);
  const CUresult result =
      route->host == nullptr
          ? call()
          : copy_on_host(*managed, stream, mode, to, route->host, size, to, /*into_buffer=*/false);
  managed->residency().end_use(token, stream, result == CUDA_SUCCESS);
  return result;
}

/// A copy whose direction the addresses tell.
template <typename Call>
CUresult copy_unified(CUdeviceptr to, CUdeviceptr from, std::size_t size, StreamHandle stream,
                      CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return call();
  const bool into_ours = managed->in_arena(to);
  const bool out_of_ours = managed->in_arena(from);
  if (!out_of_ours && !is_device_memory(from)) {
    // From the host: to a device address of ours or the driver's, or to the host.
    if (!into_ours && !is_device_memory(to)) return call();
    return copy_in(to, reinterpret_cast<const void*>(from), size, stream, mode, call);
  }
  if (out_of_ours && !into_ours && !is_device_memory(to)) {
    return copy_out(reinterpret_cast<void*>(to), from, size, stream, mode, call);
  }
  UsedWords used;
  used.add_reads(from);
  used.add_writes(to);
  return submit_using(used, stream, call);
}

}  // namespace

CUresult hook::cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost,
                               size_t ByteCount) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                 [&] { return driver().cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount); });
}
CUresult hook::cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost,
                                    size_t ByteCount) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                 [&] { return driver().cuMemcpyHtoD_v2_ptds(dstDevice, srcHost, ByteCount); });
}
CUresult hook::cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_in(dstDevice, srcHost, ByteCount, stream_handle(hStream, kLegacyDefault),
                 CopyMode::kAsynchronous, [&] {
                   return driver().cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
                 });
}
CUresult hook::cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void* srcHost,
                                         size_t ByteCount, CUstream hStream) noexcept {
  return copy_in(
      dstDevice, srcHost, ByteCount, stream_handle(hStream, kPerThreadDefault),
      CopyMode::kAsynchronous,
      [&] { return driver().cuMemcpyHtoDAsync_v2_ptsz(dstDevice, srcHost, ByteCount, hStream); });
}

CUresult hook::cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                  [&] { return driver().cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount); });
}
CUresult hook::cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice,
                                    size_t ByteCount) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                  [&] { return driver().cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount); });
}
CUresult hook::cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_out(dstHost, srcDevice, ByteCount, stream_handle(hStream, kLegacyDefault),
                  CopyMode::kAsynchronous, [&] {
                    return driver().cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
                  });
}
CUresult hook::cuMemcpyDtoHAsync_v2_ptsz(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                         CUstream hStream) noexcept {
  return copy_out(
      dstHost, srcDevice, ByteCount, stream_handle(hStream, kPerThreadDefault),
      CopyMode::kAsynchronous,
      [&] { return driver().cuMemcpyDtoHAsync_v2_ptsz(dstHost, srcDevice, ByteCount, hStream); });
}

CUresult hook::cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) noexcept {
  return copy_unified(dst, src, ByteCount, kLegacyStream, CopyMode::kSynchronous,
                      [&] { return driver().cuMemcpy(dst, src, ByteCount); });
}
CUresult hook::cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) noexcept {
  return copy_unified(dst, src, ByteCount, kPerThreadStream, CopyMode::kSynchronous,
                      [&] { return driver().cuMemcpy_ptds(dst, src, ByteCount); });
}
CUresult hook::cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                             CUstream hStream) noexcept {
  return copy_unified(dst, src, ByteCount, stream_handle(hStream, kLegacyDefault),
                      CopyMode::kAsynchronous,
                      [&] { return driver().cuMemcpyAsync(dst, src, ByteCount, hStream); });
}
CUresult hook::cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                                  CUstream hStream) noexcept {
  return copy_unified(dst, src, ByteCount, stream_handle(hStream, kPerThreadDefault),
                      CopyMode::kAsynchronous,
                      [&] { return driver().cuMemcpyAsync_ptsz(dst, src, ByteCount, hStream); });
}

}  // namespace superpipe
