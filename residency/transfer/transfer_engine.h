// Our own copy streams: what moves content between pages and the host store, and in which order.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "residency/device_memory.h"
#include "residency/host/host_store.h"
#include "residency/pieces/page_pool.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"
#include "residency/tuning.h"

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
/// new buffers do not queue behind prefetches. What is behind work of the program, which may not
/// end, gets a stream of its own. The events of what comes behind such work, by what it waits for
/// or by what its stream does before, say so (RecordedEvent::follows_program). Thread-safe; waits
/// on nothing by itself.
class TransferEngine {
 public:
  /// So many fetches may be under way apart from the others.
  static constexpr auto kMostApart = tuning::kFetchesApart;

  TransferEngine(DeviceMemory& device, EventPool& events) : device_(device), events_(events) {}

  /// Creates the streams. @return kDeviceError; what was created is destroyed by stop().
  Status start();
  /// Waits for all transfers, at most `limit`, and destroys the streams.
  Status stop(std::chrono::milliseconds limit);

  /// Copies host[0, size) to the page's window once `after` has completed, and zeroes the window
  /// from `size` to `zero_to`.
  Transferred fetch(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                    std::span<const EventRef> after);
  /// The same where `after` comes behind work of the program: no other transfer waits for it. If
  /// there is no stream for that, behind other fetches after all.
  Transferred fetch_apart(Address window, const Slab& slab, Bytes size, Bytes zero_to,
                          std::span<const EventRef> after);
  /// Whether there is a stream for fetch_apart(). Asks the device whether earlier ones have ended.
  bool may_fetch_apart();
  /// Whether all transfers are known to have ended. Asks the device; waits for no transfer.
  bool is_idle() noexcept;
  /// Copies window[0, size) to the slab once `after` has completed.
  Transferred write_back(Address window, const Slab& slab, Bytes size,
                         std::span<const EventRef> after);
  /// Zeroes window[0, size) once `after` has completed. With size 0: joins `after` into one event.
  Transferred fill(Address window, Bytes size, std::span<const EventRef> after);

 private:
  /// A stream for one fetch at a time.
  struct Apart {
    StreamHandle stream{};  ///< created when it is needed first
    EventRef last;          ///< null: it is idle
    bool is_lost = false;   ///< it is not known when its last fetch ends
  };

  Apart* idle_apart();
  Transferred copy_in(StreamHandle stream, Address window, const Slab& slab, Bytes size,
                      Bytes zero_to, std::span<const EventRef> after);
  Status stop(StreamHandle& stream, std::chrono::steady_clock::time_point deadline);
  Result<EventRef> prepare(StreamHandle stream, std::span<const EventRef> after);
  EventRef* end_of(StreamHandle stream) noexcept;
  Transferred finish(StreamHandle stream, EventRef done, Status enqueued);
  void note_end(StreamHandle stream, const EventRef& end) noexcept;

  DeviceMemory& device_;
  EventPool& events_;
  StreamHandle to_device_{};
  StreamHandle to_host_{};
  StreamHandle fill_{};
  std::mutex fetching_;
  std::uint64_t fetches_ = 0;  ///< that were enqueued; under fetching_, as what follows
  std::array<Apart, kMostApart> apart_;
  std::mutex filling_;
  std::mutex ending_;
  /// Of what was enqueued last, to the device, to the host and to fill; under ending_.
  std::array<EventRef, 3> ends_;
  bool is_lost_ = false;  ///< it is not known when a transfer of these ends; under ending_
};

}  // namespace superpipe
