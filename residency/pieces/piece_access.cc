#include "residency/pieces/piece_access.h"

#include <algorithm>

#include "residency/tuning.h"

namespace superpipe {

Status PieceAccess::renew() {
  if (core_.waits.abandoned) return Status::kOk;
  const ManagerLock lock(core_.mutex);
  std::chrono::nanoseconds patience = core_.options.wait_limit;
  // Cached buffers, too: they come back as they are. Buffers and pieces that come to be meanwhile
  // are mapped for all devices from the start.
  for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
    const BufferId id{i};
    for (std::uint32_t index = 0; index < core_.buffers[id].pieces.size(); ++index) {
      const Status status = renew({id, index}, patience);
      if (status != Status::kOk) return status;
    }
  }
  return Status::kOk;
}

// Waits until something has changed, for `patience` at most, of which it takes off what that took.
// The calls of the device do not count: of thousands of pieces they alone may take longer than any
// wait may. @return false: there is none left, or the manager has ended.
bool PieceAccess::wait_change(std::chrono::nanoseconds& patience) {
  const auto begun = core_.now();
  const bool waited = core_.wait_change(begun + patience);
  patience -= std::min<std::chrono::nanoseconds>(patience, core_.now() - begun);
  return waited;
}

// A piece that moves at this moment may have been mapped for the devices of before, which shows
// when it is in place.
Status PieceAccess::renew(PieceId id, std::chrono::nanoseconds& patience) {
  const Buffer& buffer = core_.buffers[id.buffer];
  for (int attempt = 1;; ++attempt) {
    while (id.index < buffer.pieces.size() && buffer.pieces[id.index].is_moving()) {
      if (!wait_change(patience)) return core_.waits.stopped ? Status::kOk : Status::kTimedOut;
    }
    if (id.index >= buffer.pieces.size()) return Status::kOk;
    const Piece& piece = buffer.pieces[id.index];
    if (!piece.is_in()) return Status::kOk;
    const Address address = buffer.address_of(id.index);
    const Bytes bytes = buffer.bytes_of(id.index);
    Status status = Status::kOk;
    {
      const Unlocked unlocked(core_.mutex);
      status = core_.device.renew_access(address, bytes);
    }
    // It may have been unmapped under the call, which is then of no use.
    if (status == Status::kOk || core_.waits.stopped) return Status::kOk;
    if (attempt == tuning::kAccessAttempts) return status;
    (void)wait_change(patience);
  }
}

}  // namespace superpipe
