#include "residency/piece_access.h"

namespace superpipe {

Status PieceAccess::renew() {
  if (core_.abandoned) return Status::kOk;
  const ManagerLock lock(core_.mutex);
  // Cached buffers, too: they come back as they are. Buffers and pieces that come to be meanwhile
  // are mapped for all devices from the start.
  for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
    const BufferId id{i};
    for (std::uint32_t index = 0; index < core_.buffers[id].pieces.size(); ++index) {
      const Status status = renew({id, index});
      if (status != Status::kOk) return status;
    }
  }
  return Status::kOk;
}

// A piece that moves at this moment may have been mapped for the devices of before, which shows
// when it is in place.
Status PieceAccess::renew(PieceId id) {
  constexpr int kAttempts = 3;
  // Of thousands of pieces, the calls alone may take longer than the wait for any one of them may.
  const auto deadline = core_.now() + core_.options.wait_limit;
  const Buffer& buffer = core_.buffers[id.buffer];
  for (int attempt = 1;; ++attempt) {
    while (id.index < buffer.pieces.size() && buffer.pieces[id.index].is_moving()) {
      if (!core_.wait_change(deadline)) return core_.stopped ? Status::kOk : Status::kTimedOut;
    }
    if (id.index >= buffer.pieces.size()) return Status::kOk;
    const Piece& piece = buffer.pieces[id.index];
    if (piece.place != Place::kIn || !piece.page) return Status::kOk;
    const Address address = buffer.address_of(id.index);
    const Bytes bytes = buffer.bytes_of(id.index);
    Status status = Status::kOk;
    {
      const Unlocked unlocked(core_.mutex);
      status = core_.device.renew_access(address, bytes);
    }
    // It may have been unmapped under the call, which is then of no use.
    if (status == Status::kOk || core_.stopped) return Status::kOk;
    if (attempt == kAttempts) return status;
    (void)core_.wait_change(deadline);
  }
}

}  // namespace superpipe
