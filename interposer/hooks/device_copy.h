// Copies from device memory to device memory, of which some bytes may be in host copies.
#pragma once

#include <algorithm>
#include <cstddef>

#include "interposer/contexts/managed_context.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/hooks/gates.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/routed_copy.h"
#include "interposer/hooks/submit.h"
#include "interposer/hooks/traced.h"
#include "residency/device_memory.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// A copy of `size` bytes between device addresses, in the order of `stream`.
struct DeviceCopy {
  CUdeviceptr to;
  CUdeviceptr from;
  std::size_t size;
  StreamHandle stream;

  /// `count` bytes of it, from byte `offset` on.
  [[nodiscard]] DeviceCopy part(std::size_t offset, std::size_t count) const {
    return {to + offset, from + offset, count, stream};
  }
};

/// One end of a copy, and the use of its buffer. Memory that is no buffer is on the device.
class CopyEnd {
 public:
  /// `is_written`: it is the copy's target. Uses nothing yet.
  CopyEnd(ManagedContext& managed, CUdeviceptr address, StreamHandle stream, bool is_written)
      : managed_(managed), address_(address), stream_(stream), is_written_(is_written) {}

  /// Begins to use the first bytes of `size`, where they are. Nothing is brought to the device for
  /// it, so that the other end may be in use meanwhile.
  /// @return as ResidencyManager::begin_copy_where_it_is().
  Status begin_where_it_is(Bytes size) noexcept;
  /// Begins to use all of `size` on the device. @return as ResidencyManager::begin_copy_in_place().
  Status begin_on_device(Bytes size) noexcept;
  /// `submitted`: the stream has work that uses them.
  void end(bool submitted) noexcept;

  [[nodiscard]] CUdeviceptr address() const { return address_; }
  /// The bytes in their host copy; null: they are on the device.
  [[nodiscard]] void* host() const { return route_.host; }
  /// How many bytes are in use.
  [[nodiscard]] Bytes size() const { return route_.size; }
  /// The first `count` of them are about to be copied.
  void trace(std::size_t count) const noexcept;

 private:
  Status note(const Result<CopyRoute>& route) noexcept;

  ManagedContext& managed_;
  CUdeviceptr address_;
  StreamHandle stream_;
  bool is_written_;
  CopyRoute route_{};
  UseToken token_;
};

/// A part of a copy whose buffers do not fit on the device together: each end is used where it is.
class DeviceCopyPart {
 public:
  DeviceCopyPart(ManagedContext& managed, const DeviceCopy& copy)
      : copy_(copy),
        from_(managed, copy.from, copy.stream, false),
        to_(managed, copy.to, copy.stream, true) {}

  /// Begins to use both ends. @return as CopyEnd; kNotYet if they can only be used on the device
  /// together.
  Status begin() noexcept;
  /// How many of the first bytes can go in one way.
  [[nodiscard]] std::size_t size() const noexcept {
    return std::min(from_.size(), to_.size()).count();
  }
  [[nodiscard]] bool is_on_device() const noexcept {
    return from_.host() == nullptr && to_.host() == nullptr;
  }
  /// Submits the copy of size() bytes. REQUIRES: one end is in a host copy.
  CUresult submit() noexcept;
  void end(bool submitted) noexcept;
  /// The copy of size() bytes is about to be submitted.
  void trace() const noexcept;

 private:
  Status begin_both(CopyEnd* first) noexcept;

  const DeviceCopy& copy_;
  CopyEnd from_;
  CopyEnd to_;
  HostFunctionPermit permit_;  ///< where both ends are on the host
};

/// Makes `copy` through `call`, which hands a DeviceCopy to the driver, with its buffers on the
/// device together. @return as submit_using().
template <typename Call>
CUresult copy_as_a_whole(const DeviceCopy& copy, const Call& call) noexcept {
  UsedWords used;
  used.add_reads(copy.from);
  used.add_writes(copy.to);
  return submit_using(used, copy.stream, [&] { return call(copy); });
}

/// Makes `copy` by parts. `call` hands a DeviceCopy to the driver, both ends of which are on the
/// device. REQUIRES: events order the stream. @return what the driver said, or why a part could not
/// be used where it is; then the parts before it are done.
template <typename Call>
CUresult copy_device_in_parts(ManagedContext& managed, const DeviceCopy& copy,
                              const Call& call) noexcept {
  return in_parts(copy.size, [&](std::size_t done, Bytes& left) {
    const DeviceCopy rest = copy.part(done, left.count());
    DeviceCopyPart part(managed, rest);
    const Status status =
        traced_wait(managed.trace(), TraceWait::kLaunch, [&] { return part.begin(); });
    if (status == Status::kNotYet) return copy_as_a_whole(rest, call);
    if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
    left = Bytes{part.size()};
    part.trace();
    const CUresult result = part.is_on_device() ? call(rest.part(0, part.size())) : part.submit();
    part.end(result == CUDA_SUCCESS);
    return result;
  });
}

/// Makes `copy` through `call`, which hands a DeviceCopy to the driver: as a whole where its
/// buffers fit on the device together, else by parts.
template <typename Call>
CUresult copy_device(const DeviceCopy& copy, const Call& call) noexcept {
  UsedWords used;
  used.add_reads(copy.from);
  used.add_writes(copy.to);
  return submit_using(
      used, copy.stream, [&] { return call(copy); },
      [&] { return copy_device_in_parts(*used.managed(), copy, call); });
}

}  // namespace superpipe
