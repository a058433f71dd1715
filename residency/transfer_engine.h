// Our own copy streams: what moves content between pages and the host store, and in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "residency/device_memory.h"
#include "residency/event_pool.h"
#include "residency/host_store.h"
#include "residency/page_pool.h"
#include "residency/result.h"

namespace superpipe {

/// What became of a transfer.
struct Transferred {
  Status status = Status::kOk;
  /// Completes when the transfer has, or what was enqueued of a failed one; null if nothing was
  /// enqueued, or if the transfer is untracked.
  EventRef done;
  /// The transfer was, or may have been, enqueued, but nothing tells when it ends: neither its page
  /// nor its slab may ever be used for anything else.
  bool untracked = false;
};

/// One stream per direction (the device has a copy engine for each) and one for filling, so that
/// new buffers do not queue behind prefetches. Thread-safe; waits on nothing by itself.
class TransferEngine {
 public:
  TransferEngine(DeviceMemory& device, EventPool& events) : device_(device), events_(events) {}

  /// Creates the streams. @return kDeviceError; what was created is destroyed by stop().
  Status start();
  /// Waits for all transfers, at most `limit`, and destroys the streams.
  Status stop(std::chrono::milliseconds limit);

  /// Copies host[0, size) to the page's window once `after` has completed, and zeroes the window
  /// from `size` to `zero_to`.
  Transferred fetch(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                    std::span<const EventRef> after);
  /// Copies window[0, size) to the slab once `after` has completed.
  Transferred write_back(Address window, const Slab& slab, Bytes size,
                         std::span<const EventRef> after);
  /// Zeroes window[0, size) once `after` has completed. With size 0: joins `after` into one event.
  Transferred fill(Address window, Bytes size, std::span<const EventRef> after);

 private:
  Result<EventRef> prepare(StreamHandle stream, std::span<const EventRef> after);
  Transferred finish(StreamHandle stream, EventRef done, Status enqueued);

  DeviceMemory& device_;
  EventPool& events_;
  StreamHandle to_device_{};
  StreamHandle to_host_{};
  StreamHandle fill_{};
  std::mutex fetching_;
  std::uint64_t fetches_ = 0;  ///< that were enqueued; under fetching_
};

}  // namespace superpipe
