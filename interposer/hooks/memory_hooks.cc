// Allocation and freeing, and what the device says it has.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "interposer/allocators/memory_pools.h"
#include "interposer/allocators/reported_memory.h"
#include "interposer/contexts/context_registry.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/gates.h"
#include "interposer/hooks/traced.h"
#include "interposer/passthrough/passthrough_allocation.h"
#include "interposer/process_configuration.h"
#include "interposer/recording/copy_recorder.h"

namespace superpipe {
namespace {

/// Whether an allocation of `size` bytes is too small to be a buffer.
bool is_small(const ManagedContext& managed, std::size_t size) noexcept {
  return Bytes{size} < managed.configuration().min_buffer;
}

/// Has the driver make an allocation of `size` bytes through `call`. `managed`: what
/// for_allocation() answered, so null if the calling thread's context is another; an allocation in
/// another context of the managed device counts against the budget too.
template <typename Call>
CUresult pass_through(ManagedContext* managed, CUdeviceptr* dptr, std::size_t size,
                      std::optional<StreamHandle> stream, const Call& call) noexcept {
  ManagedContext* const counting =
      managed != nullptr ? managed : ContextRegistry::of_process().if_on_current_device();
  const CUresult result = traced_passthrough(counting, Bytes{size}, call);
  if (counting != nullptr && result == CUDA_SUCCESS) {
    trace_allocation(*counting, *dptr, size, stream);
  }
  return result;
}

/// Allocates a managed buffer. Small allocations, those in a context that is not managed, and those
/// whose arguments the driver must judge pass through.
template <typename Call>
CUresult allocate(CUdeviceptr* dptr, std::size_t size, const Call& call) noexcept {
  if (dptr == nullptr || size == 0) return call();
  ContextRegistry& contexts = ContextRegistry::of_process();
  ManagedContext* const managed = contexts.for_allocation();
  *dptr = 0;  // as the driver leaves it where an allocation fails
  if (contexts.refuses_allocations()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (managed == nullptr || is_small(*managed, size)) {
    return pass_through(managed, dptr, size, std::nullopt, call);
  }
  // A buffer can be had without asking the driver, which would answer with this.
  const CUresult sticky = managed->sticky_error();
  if (sticky != CUDA_SUCCESS) return sticky;
  const auto address = traced_wait(managed->trace(), TraceWait::kLaunch, [&] {
    return managed->residency().allocate(Bytes{size}, std::nullopt);
  });
  if (!address.ok()) return managed->failure(address.status(), CallKind::kAllocation);
  *dptr = *address;
  trace_allocation(*managed, *address, size, std::nullopt);
  return CUDA_SUCCESS;
}

/// The pool that the program allocates from: `named`, or the current one of the device of `managed`
/// if it named none. Null if there is no such pool, or if host memory is out.
MemoryPoolPtr pool_of_allocation(const ManagedContext& managed,
                                 std::optional<CUmemoryPool> named) noexcept {
  CUmemoryPool handle = named.value_or(nullptr);
  if (!named) (void)driver().cuDeviceGetMemPool(&handle, managed.device());
  return memory_pools().at(handle);
}

/// The pool in whose place superpipe serves an allocation in the order of `stream`, from the pool
/// `from` (nullopt: the device's current one). Null if the allocation has to pass through.
MemoryPoolPtr pool_to_serve(const ManagedContext* managed, std::size_t size,
                            std::optional<CUmemoryPool> from, StreamHandle stream) noexcept {
  if (managed == nullptr) return nullptr;  // the thread's context is not the managed one
  if (is_small(*managed, size)) return nullptr;
  if (!managed->can_order(stream)) return nullptr;  // an event could not order what comes before it
  MemoryPoolPtr pool = pool_of_allocation(*managed, from);
  // Pools that are shared, destroyed or elsewhere are the driver's own to serve.
  const bool can_serve = pool != nullptr && pool->can_serve(managed->device());
  return can_serve ? pool : nullptr;
}

/// Allocates a managed buffer in the order of `stream`, in place of the pool `from` (nullopt: the
/// device's current one). What pool_to_serve() finds no pool for passes through.
template <typename Call>
CUresult allocate_async(CUdeviceptr* dptr, std::size_t size, std::optional<CUmemoryPool> from,
                        StreamHandle stream, const Call& call) noexcept {
  if (dptr == nullptr || size == 0) return call();
  ContextRegistry& contexts = ContextRegistry::of_process();
  ManagedContext* const managed = contexts.for_allocation();
  *dptr = 0;
  if (contexts.refuses_allocations()) return CUDA_ERROR_OUT_OF_MEMORY;
  // A capture makes the allocation a node of its graph, which owns the memory from then on.
  if (is_capturing(stream)) return call();
  const MemoryPoolPtr pool = pool_to_serve(managed, size, from, stream);
  if (pool == nullptr) return pass_through(managed, dptr, size, stream, call);
  const auto address = traced_wait(managed->trace(), TraceWait::kLaunch, [&] {
    return managed->residency().allocate(Bytes{size}, stream);
  });
  if (!address.ok()) return managed->failure(address.status(), CallKind::kAllocation);
  memory_pools().on_allocate(*address, {pool, size});
  *dptr = *address;
  trace_allocation(*managed, *address, size, stream);
  return CUDA_SUCCESS;
}

/// The program frees what begins at `dptr`.
void forget_arrays(ManagedContext& managed, CUdeviceptr dptr) noexcept {
  if (managed.pointer_arrays().any()) managed.pointer_arrays().forget(dptr);
}

/// Frees a managed buffer through `free`, in the order of `stream` if there is one.
template <typename Free>
CUresult free_managed(ManagedContext& managed, CUdeviceptr dptr, std::optional<StreamHandle> stream,
                      const Free& free) noexcept {
  managed.note_free();
  forget_arrays(managed, dptr);
  const auto allocation = memory_pools().take(dptr);
  const Status status = trace_free(managed, dptr, stream, Status::kOk, free);
  if (status != Status::kOk && allocation) memory_pools().on_allocate(dptr, *allocation);
  return managed.failure(status, CallKind::kSubmission);
}

/// Frees in a process whose memory superpipe leaves to the driver.
template <typename Call>
CUresult free_unmanaged(CUdeviceptr dptr, const Call& call) noexcept {
  if (CopyRecorder* const recorder = CopyRecorder::of_process()) recorder->forget_allocation(dptr);
  return call();
}

bool has_no_context() noexcept {
  CUcontext current = nullptr;
  return driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == nullptr;
}

/// Frees in the order of `stream`.
template <typename Call>
CUresult free_async(CUdeviceptr dptr, StreamHandle stream, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return free_unmanaged(dptr, call);
  // A captured free of managed memory, which no graph allocated: the driver refuses it with the
  // right code. One of other memory happens when its graph is launched.
  const bool is_managed_memory = managed->in_arena(dptr);
  if (is_managed_memory && is_capturing(stream)) return call();
  if (!is_managed_memory) {
    forget_arrays(*managed, dptr);
    const auto free = [&] { return change_passthrough(PassthroughChange::kLateFree, call); };
    if (!managed->can_order(stream)) return free();
    return trace_free(*managed, dptr, stream, CUDA_SUCCESS, free);
  }
  // A stream that is named tells its context, so the thread needs none: a finalizer's may have
  // none.
  std::optional<InContext> in_context;
  if (has_no_context()) {
    if (stream == kLegacyStream || stream == kPerThreadStream) return CUDA_ERROR_INVALID_CONTEXT;
    in_context.emplace(managed->context());
    if (!in_context->is_current()) return CUDA_ERROR_INVALID_CONTEXT;
  }
  // Another device, or another context of this one, has used it, and frees it in its own order.
  if (!managed->can_order(stream)) {
    const auto behind = managed->foreign_streams().behind(stream);
    if (!behind.ok()) return managed->failure(behind.status(), CallKind::kSubmission);
    stream = *behind;
  }
  const OtherUses others = Gates::any() ? OtherUses::kIgnored : OtherUses::kAwaited;
  return free_managed(*managed, dptr, stream,
                      [&] { return managed->residency().free_async(dptr, stream, others); });
}

/// Whether free memory is what the driver says: where nothing gives way, it is, except for pages
/// that no buffer has.
bool device_answer_stands() noexcept {
  if (process_configuration().policy != PolicyKind::kResident) return false;
  ManagedContext* const managed = ContextRegistry::managed();
  return managed == nullptr || !managed->residency().has_spare_pages();
}

bool is_managed(CUdeviceptr address) noexcept {
  const ManagedContext* const managed = ContextRegistry::managed();
  return managed != nullptr && managed->in_arena(address);
}

}  // namespace

CUresult hook::cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) noexcept {
  return allocate(dptr, bytesize, [&] { return driver().cuMemAlloc_v2(dptr, bytesize); });
}

CUresult hook::cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes,
                                  size_t Height, unsigned int ElementSizeBytes) noexcept {
  // The pitch of every device known: rows start at the alignment of allocations.
  constexpr std::size_t kRowAlignment = 512;
  const auto call = [&] {
    return driver().cuMemAllocPitch_v2(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
  };
  const bool element_is_valid =
      ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
  if (pPitch == nullptr || WidthInBytes == 0 || Height == 0 || !element_is_valid) return call();
  const std::size_t pitch = (WidthInBytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  if (pitch < WidthInBytes || Height > SIZE_MAX / pitch) return call();
  const CUresult result = allocate(dptr, pitch * Height, call);
  if (result == CUDA_SUCCESS && is_managed(*dptr)) *pPitch = pitch;
  return result;
}

CUresult hook::cuMemFree_v2(CUdeviceptr dptr) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) {
    return free_unmanaged(dptr, [dptr] { return driver().cuMemFree_v2(dptr); });
  }
  if (!managed->in_arena(dptr)) {
    forget_arrays(*managed, dptr);
    return trace_free(*managed, dptr, std::nullopt, CUDA_SUCCESS, [dptr] {
      return change_passthrough(PassthroughChange::kFree,
                                [dptr] { return driver().cuMemFree_v2(dptr); });
    });
  }
  const auto range = managed->residency().find(dptr);
  if (!range || range->base != dptr) return CUDA_ERROR_INVALID_VALUE;
  // cuMemFree waits for the device; programs rely on it. No lock of ours is held here. The calling
  // thread may have no context: frees come from finalizers.
  CUcontext previous = nullptr;
  const bool pushed = driver().cuCtxGetCurrent(&previous) == CUDA_SUCCESS &&
                      previous != managed->context() &&
                      driver().cuCtxPushCurrent_v2(managed->context()) == CUDA_SUCCESS;
  const CUresult synchronised =
      traced_wait(managed->trace(), TraceWait::kDevice, [] { return driver().cuCtxSynchronize(); });
  if (pushed) driver().cuCtxPopCurrent_v2(&previous);
  if (synchronised != CUDA_SUCCESS) return synchronised;
  return free_managed(*managed, dptr, std::nullopt,
                      [&] { return managed->residency().free(dptr); });
}

CUresult hook::cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) noexcept {
  return allocate_async(dptr, bytesize, std::nullopt, stream_handle(hStream, kLegacyDefault),
                        [&] { return driver().cuMemAllocAsync(dptr, bytesize, hStream); });
}
CUresult hook::cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) noexcept {
  return allocate_async(dptr, bytesize, std::nullopt, stream_handle(hStream, kPerThreadDefault),
                        [&] { return driver().cuMemAllocAsync_ptsz(dptr, bytesize, hStream); });
}
CUresult hook::cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                       CUstream hStream) noexcept {
  return allocate_async(dptr, bytesize, pool, stream_handle(hStream, kLegacyDefault), [&] {
    return driver().cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream);
  });
}
CUresult hook::cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                            CUstream hStream) noexcept {
  return allocate_async(dptr, bytesize, pool, stream_handle(hStream, kPerThreadDefault), [&] {
    return driver().cuMemAllocFromPoolAsync_ptsz(dptr, bytesize, pool, hStream);
  });
}

CUresult hook::cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) noexcept {
  return free_async(dptr, stream_handle(hStream, kLegacyDefault),
                    [&] { return driver().cuMemFreeAsync(dptr, hStream); });
}
CUresult hook::cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) noexcept {
  return free_async(dptr, stream_handle(hStream, kPerThreadDefault),
                    [&] { return driver().cuMemFreeAsync_ptsz(dptr, hStream); });
}

CUresult hook::cuMemGetInfo_v2(size_t* free, size_t* total) noexcept {
  std::size_t device_free = 0;
  std::size_t device_total = 0;
  if (free == nullptr || total == nullptr || device_answer_stands()) {
    return driver().cuMemGetInfo_v2(free, total);
  }
  ManagedContext* const managed = ContextRegistry::of_process().for_allocation();
  const CUresult result = driver().cuMemGetInfo_v2(&device_free, &device_total);
  if (result != CUDA_SUCCESS) return result;
  *free = device_free;
  *total = device_total;
  const auto reported = ReportedMemory::of_process();
  if (!reported) {
    // Nothing gives way, so what the context and other processes hold is not free. Pages without a
    // buffer are.
    const Bytes spare = managed != nullptr ? managed->residency().capacity().spare : Bytes{};
    *free = std::min(device_free + spare.count(), device_total);
    return CUDA_SUCCESS;
  }
  *total = reported->total(Bytes{device_total}).count();
  *free = std::min(device_free, *total);
  if (managed != nullptr && reported->needs_capacity()) {
    *free = reported->free(managed->residency().capacity(), Bytes{device_total}).count();
  }
  return CUDA_SUCCESS;
}

// The same before there is a context, in one that is not managed, and for other devices: which one
// will be managed is not known yet when programs ask.
CUresult hook::cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) noexcept {
  const CUresult result = driver().cuDeviceTotalMem_v2(bytes, dev);
  if (result != CUDA_SUCCESS || bytes == nullptr) return result;
  if (const auto reported = ReportedMemory::of_process()) {
    *bytes = reported->total(Bytes{*bytes}).count();
  }
  return result;
}

CUresult hook::cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                           CUdevice device) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemAdvise(devPtr, count, advice, device);
}
CUresult hook::cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                              CUmemLocation location) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemAdvise_v2(devPtr, count, advice, location);
}
CUresult hook::cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                  CUstream hStream) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemPrefetchAsync(devPtr, count, dstDevice, hStream);
}
CUresult hook::cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                       CUstream hStream) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemPrefetchAsync_ptsz(devPtr, count, dstDevice, hStream);
}
CUresult hook::cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                     unsigned int flags, CUstream hStream) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemPrefetchAsync_v2(devPtr, count, location, flags, hStream);
}
CUresult hook::cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                          unsigned int flags, CUstream hStream) noexcept {
  if (is_managed(devPtr)) return CUDA_SUCCESS;
  return driver().cuMemPrefetchAsync_v2_ptsz(devPtr, count, location, flags, hStream);
}

}  // namespace superpipe
