// Linear copies between the host and managed buffers: to the device, or to the host copies of what
// is evicted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/hooks/gates.h"
#include "interposer/hooks/queued_copy.h"
#include "interposer/hooks/submit.h"
#include "interposer/hooks/traced.h"
#include "interposer/recording/copy_recorder.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// How a copy to or from the host copy of an evicted buffer is made.
enum class Way {
  kNow,          ///< by the calling thread
  kQueued,       ///< when the stream gets there
  kAwaited,      ///< the same, and the call returns only then
  kOfASnapshot,  ///< the same, of what the program's memory holds now
};

/// When a copy to the device may read host memory.
enum class SourceAccess {
  kByKind,    ///< pinned memory when its stream gets there, other memory before the call returns
  kInOrder,   ///< when its stream gets there, whatever memory it is
  kAtOnce,    ///< before the call returns
  kWhenever,  ///< until its stream has got there
};

/// The way of a copy in the order of `stream`. What has to be read before the call returns, and
/// has to be written behind other work, is copied aside first; where there is no such work, and
/// where the program might free pageable memory too soon, the copy is waited for. Synchronous
/// copies too come behind what was submitted to their stream before. Asks the driver. `access`: of
/// a copy `into_buffer`.
[[nodiscard]] Way way_of(const ManagedContext& managed, StreamHandle stream, CopyMode mode,
                         const void* program_memory, bool into_buffer,
                         SourceAccess access = SourceAccess::kByKind) noexcept;

/// A copy between the program's memory and a buffer.
struct BufferCopy {
  CUdeviceptr buffer;          ///< where in the buffer
  const void* program_memory;  ///< the other end
  Bytes size;
  StreamHandle stream;
  CopyMode mode;
  bool into_buffer;
  SourceAccess access;  ///< where it is into the buffer
};

/// A copy that has begun: its route, and how it is made there.
struct RoutedCopy {
  CopyRoute route;
  Way way = Way::kQueued;  ///< where the route is on the host
  HostFunctionPermit permit{};
  Snapshot snapshot{};  ///< of what is copied into the buffer, or empty
};

/// Begins a copy, of which the first bytes go one way (RoutedCopy::route). One that the host would
/// have to make later, in the order of its stream, goes to the device instead where superpipe may
/// give the stream no host function, unless the buffer does not fit there.
/// @return as ResidencyManager::begin_copy_in(), begin_copy_in_place().
Result<RoutedCopy> begin_routed_copy(ManagedContext& managed, const BufferCopy& copy,
                                     UseToken& token) noexcept;

/// Copies what `copy` has begun between its host copy and `program_memory`. @return as
/// queue_copy().
CUresult copy_on_host(RoutedCopy& copy, const BufferCopy& wanted) noexcept;

/// Ends the use of a copy that was made `way`, with `result`. What the calling thread has copied is
/// done, and nothing of it is on the stream. A copy that is to be awaited is waited for then: that
/// may take for as long as other threads need, and they find the buffer used by a stream, as behind
/// an asynchronous copy. @return `result`, or what the driver answers to a call that waits.
CUresult end_copy(ManagedContext& managed, UseToken& token, StreamHandle stream, CUresult result,
                  Way way) noexcept;

/// Sees to the pointers among bytes that are about to be device memory: to those that are there
/// now, and to those that come until the copy reads them. Reads nothing after the call of what the
/// program may free by then. @return as PointerPins::pin_named_by().
Status scan_source(ManagedContext& managed, const void* source, std::size_t size, CUdeviceptr to,
                   StreamHandle stream, CopyMode mode,
                   SourceAccess access = SourceAccess::kByKind) noexcept;

inline const void* at(const void* address, std::size_t offset) noexcept {
  return static_cast<const char*>(address) + offset;
}
inline void* at(void* address, std::size_t offset) noexcept {
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

/// Makes the first bytes of a copy, of which `part` then says how many they are. `call` hands so
/// many to the driver.
template <typename Call>
CUresult submit_routed_copy(ManagedContext& managed, const BufferCopy& wanted, Bytes& part,
                            const Call& call) noexcept {
  UseToken token;
  auto copy = traced_wait(managed.trace(), TraceWait::kLaunch,
                          [&] { return begin_routed_copy(managed, wanted, token); });
  if (!copy.ok()) return managed.failure(copy.status(), CallKind::kSubmission);
  part = copy->route.size;
  trace_copy(managed, wanted.buffer, copy->route, wanted.into_buffer, wanted.stream);
  return traced_wait(managed.trace(), TraceWait::kCopy, [&] {
    const CUresult result =
        copy->route.host == nullptr ? call(part.count()) : copy_on_host(*copy, wanted);
    return end_copy(managed, token, wanted.stream, result, copy->way);
  });
}

/// A copy of `size` bytes to or from `buffer`, on a stream on which events cannot order it.
template <typename Call>
CUresult copy_unordered(ManagedContext& managed, CUdeviceptr buffer, StreamHandle stream,
                        std::size_t size, const Call& call) noexcept {
  const std::uint64_t word = buffer;
  return submit_unordered(managed, {&word, 1}, {&word, 1}, stream, [&] { return call(0, size); });
}

/// A copy from the host to the device, after scan_source(). `call` hands bytes [offset,
/// offset + size) of it to the driver, which get all of it where superpipe has no say.
template <typename Call>
CUresult copy_scanned_in(CUdeviceptr to, const void* from, std::size_t size, StreamHandle stream,
                         CopyMode mode, SourceAccess access, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || from == nullptr) return call(0, size);
  if (!managed->in_arena(to)) {
    return traced_wait(managed->trace(), TraceWait::kDevice, [&] { return call(0, size); });
  }
  if (!managed->can_order(stream)) return copy_unordered(*managed, to, stream, size, call);
  return in_parts(size, [&](std::size_t done, Bytes& part) {
    const BufferCopy wanted{to + done, at(from, done), part, stream, mode, true, access};
    return submit_routed_copy(*managed, wanted, part,
                              [&](std::size_t count) { return call(done, count); });
  });
}

/// A copy from the host to the device.
template <typename Call>
CUresult copy_in(CUdeviceptr to, const void* from, std::size_t size, StreamHandle stream,
                 CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || from == nullptr) return call(0, size);
  const Status scanned = scan_source(*managed, from, size, to, stream, mode);
  if (scanned != Status::kOk) return managed->failure(scanned, CallKind::kSubmission);
  return copy_scanned_in(to, from, size, stream, mode, SourceAccess::kByKind, call);
}

/// A copy from the device to the host.
template <typename Call>
CUresult submit_copy_out(void* to, CUdeviceptr from, std::size_t size, StreamHandle stream,
                         CopyMode mode, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr || size == 0 || to == nullptr) return call(0, size);
  if (!managed->in_arena(from)) {
    return traced_wait(managed->trace(), TraceWait::kDevice, [&] { return call(0, size); });
  }
  if (!managed->can_order(stream)) return copy_unordered(*managed, from, stream, size, call);
  return in_parts(size, [&](std::size_t done, Bytes& part) {
    const BufferCopy wanted{from + done, at(to, done), part, stream, mode, false, {}};
    return submit_routed_copy(*managed, wanted, part,
                              [&](std::size_t count) { return call(done, count); });
  });
}

}  // namespace superpipe
