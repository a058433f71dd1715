// Marks on the program's streams: which slot a stream has, and events behind what was submitted.
#pragma once

#include <cstdint>
#include <vector>

#include "residency/device_memory.h"
#include "residency/host/host_copy.h"
#include "residency/manager_mutex.h"
#include "residency/residency_core.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/stream_table.h"

namespace superpipe {

/// Records events on the program's streams, never on one that is captured or about to be destroyed.
///
/// A part of the manager, under its mutex; each function that records opens it meanwhile. Waits on
/// no stream.
class StreamMarker {
 public:
  explicit StreamMarker(ResidencyCore& core) : core_(core) {}

  /// Whether the program is capturing `stream`, so that an operation on it becomes a part of a
  /// graph. Asked only where anything ever moves. An event on the legacy stream would break the
  /// capture of another one: the device answers for that as well.
  [[nodiscard]] Result<bool> is_capturing(StreamHandle stream) const {
    if (!core_.moves || core_.waits.abandoned) return false;
    return core_.device.is_capturing(stream);
  }

  /// The slot of `stream`, entered if it is new. Throws std::bad_alloc.
  Slot slot_of(StreamHandle stream) REQUIRES(manager_lock);

  /// Marks the present end of the streams of `slots`, which are not destroyed meanwhile: the
  /// program is made to wait with that. Throws std::bad_alloc.
  void mark_ends(std::uint64_t slots) REQUIRES(manager_lock);

  /// The same for all streams that were used since they were marked last, as far as host memory
  /// allows: those of the shared slot are marked behind each use.
  void mark_all_ends() noexcept REQUIRES(manager_lock);

  /// The place of an operation that was submitted in the order of uses and, if it was to be marked
  /// and could be, an event behind it.
  struct OperationEnd {
    std::uint64_t seq;
    EventRef event;
  };
  /// The calling thread has submitted an operation to `stream`, which has `slot`, or has failed to.
  OperationEnd end_operation(StreamHandle stream, Slot slot, bool marks) noexcept
      REQUIRES(manager_lock) {
    if (!marks) [[likely]] {
      return {++core_.seq, nullptr};
    }
    return mark_operation(stream, slot);
  }

  /// Whether events cover the uses of a buffer on `slot`; if so, appends what to wait for.
  bool covered(const Buffer& buffer, Slot slot, std::vector<EventRef>& events) const
      REQUIRES(manager_lock) {
    if (slot == StreamTable::kShared) return buffer.rare->marked.covered(events);
    return core_.streams.covered(slot, buffer.last_use, events);
  }

  /// Appends what marks the ends of pending operations on `copy`, including those that come while
  /// the mutex is open. REQUIRES: a piece of the buffer is moving, which admits no more, or the
  /// caller has pinned the copy. @return kDeviceError, or kCapturing, where an end cannot be
  /// marked.
  Status resolve(HostCopy& copy, bool writes_only, std::vector<EventRef>& events) noexcept
      REQUIRES(manager_lock);

  /// The program is about to destroy `stream`, whose end can be marked now and never again. Waits,
  /// bounded, for threads that are about to mark it.
  void retire(StreamHandle stream) noexcept REQUIRES(manager_lock);

 private:
  OperationEnd mark_operation(StreamHandle stream, Slot slot) noexcept REQUIRES(manager_lock);
  Slot reuse_slot(StreamHandle stream) REQUIRES(manager_lock);
  Result<EventRef> end_of(const HostOperation& operation) noexcept REQUIRES(manager_lock);
  EventRef mark_last_end(StreamHandle stream) noexcept REQUIRES(manager_lock);

  ResidencyCore& core_;
};

}  // namespace superpipe
