// Linear copies between the host and managed buffers, wherever their bytes are.
#include "interposer/driver/context_count.h"
#include "interposer/driver/primary_context.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/device_copy.h"
#include "interposer/hooks/memory_kind.h"
#include "interposer/hooks/recorded_copy.h"
#include "interposer/hooks/routed_copy.h"

namespace superpipe {
namespace {

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
CUresult copy_between_contexts(const DeviceCopy& copy, CUcontext to, CUcontext from) noexcept {
  return driver().cuMemcpyPeerAsync(copy.to, to, copy.from, from, copy.size,
                                    driver_stream(copy.stream));
}

/// Hands a copy between device addresses to the driver: through `call`, which does not say whose
/// memory it is, as long as that is enough. Between devices it is for what the driver allocated,
/// but for a buffer, which is mapped memory, only if the other device may access it.
template <typename Call>
CUresult hand_over(const DeviceCopy& copy, const Call& call) noexcept {
  const ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || !ContextCount::has_several()) return call(copy);
  const bool into_ours = managed->in_arena(copy.to);
  if (into_ours == managed->in_arena(copy.from)) return call(copy);
  const CUcontext ours = managed->context();
  const CUcontext other = context_of_closed_device(*managed, into_ours ? copy.from : copy.to);
  if (other == nullptr) return call(copy);
  return into_ours ? copy_between_contexts(copy, ours, other)
                   : copy_between_contexts(copy, other, ours);
}

/// A copy from device memory to device memory. `call` hands a DeviceCopy to the driver.
template <typename Call>
CUresult copy_on_device(const DeviceCopy& copy, const Call& call) noexcept {
  return copy_device(copy, [&](const DeviceCopy& part) { return hand_over(part, call); });
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
  return copy_on_device({to, from, size, stream},
                        [&](const DeviceCopy& part) { return call(part.to - to, part.size); });
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
  return copy_on_device({dstDevice, srcDevice, ByteCount, kLegacyStream},
                        [](const DeviceCopy& part) {
                          return driver().cuMemcpyDtoD_v2(part.to, part.from, part.size);
                        });
}
CUresult hook::cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                    size_t ByteCount) noexcept {
  return copy_on_device({dstDevice, srcDevice, ByteCount, kPerThreadStream},
                        [](const DeviceCopy& part) {
                          return driver().cuMemcpyDtoD_v2_ptds(part.to, part.from, part.size);
                        });
}
CUresult hook::cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream) noexcept {
  return copy_on_device({dstDevice, srcDevice, ByteCount, stream_handle(hStream, kLegacyDefault)},
                        [&](const DeviceCopy& part) {
                          return driver().cuMemcpyDtoDAsync_v2(part.to, part.from, part.size,
                                                               hStream);
                        });
}
CUresult hook::cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
                                         size_t ByteCount, CUstream hStream) noexcept {
  return copy_on_device(
      {dstDevice, srcDevice, ByteCount, stream_handle(hStream, kPerThreadDefault)},
      [&](const DeviceCopy& part) {
        return driver().cuMemcpyDtoDAsync_v2_ptsz(part.to, part.from, part.size, hStream);
      });
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
