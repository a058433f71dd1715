// The host's copy of one buffer: its memory, and what still reads or writes it.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/units.h"
#include "residency/device_memory.h"
#include "residency/host/host_store.h"
#include "residency/streams/event_pool.h"
#include "residency/streams/stream_table.h"

namespace superpipe {

/// An operation of the program on a host copy, submitted and perhaps not complete.
struct HostOperation {
  Slot slot;
  StreamHandle stream;
  bool writes;
  EventRef done;  ///< null: could not be recorded; what needs it must record on `stream` first
  std::uint64_t noted = 0;  ///< the sequence under which it was noted
};

/// What backs one buffer in the host store.
///
/// `pins` counts operations of the program that were given the copy's address and have not ended:
/// no fetch may begin meanwhile. Pieces that are in place may be written back to their own parts of
/// the slab: operations get no part of those. `is_mapping`: a thread is getting it its slab. Not
/// thread-safe: under the manager's mutex.
struct HostCopy {
  Slab slab;
  Bytes backing;  ///< reserved in the host store
  std::vector<HostOperation> operations;
  std::uint32_t pins = 0;
  bool is_mapping = false;
  bool is_untracked = false;  ///< a transfer of ours on the slab has an end that no event marks

  /// Whether the buffer's content has a place on the host that it can be copied to. Whether it is
  /// there, Buffer::has_host_content() says.
  [[nodiscard]] bool has_home() const { return static_cast<bool>(slab); }
  /// Whether it has one, or a thread is getting it one.
  [[nodiscard]] bool has_or_gets_home() const { return has_home() || is_mapping; }
  /// Whether something works on it at this moment, so that no fetch may begin.
  [[nodiscard]] bool is_busy() const { return pins > 0 || is_mapping; }

  /// Makes sure that note() allocates nothing for the operations that are pinned now, and one more.
  /// Throws std::bad_alloc.
  void reserve_operations() { operations.reserve(operations.size() + pins + 1); }

  /// Notes an operation. Earlier ones of the same stream that its event covers are dropped: it
  /// stands for them. REQUIRES: reserve_operations() while it was pinned.
  void note(HostOperation operation) noexcept;

  /// A fetch now waits for every write: forgets them.
  void forget_writes() noexcept;

  /// Forgets the operations that are known to have completed.
  void forget_completed() noexcept;

  /// Appends the events after which nothing of ours or of the program touches the slab any more.
  /// `freed`: lies behind every operation of the program, and is appended too; null: there is no
  /// such event. Throws std::bad_alloc. @return false if there is an end that no event marks.
  bool append_ends(const EventRef& freed, std::vector<EventRef>& events) const;
};

}  // namespace superpipe
