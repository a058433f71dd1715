// Has the device compute digests of pages, and keeps the room for their results.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"
#include "residency/content_digest.h"
#include "residency/device_memory.h"
#include "residency/result.h"
#include "residency/streams/event_pool.h"

namespace superpipe {

/// Enqueues digests on a stream of its own, so that they wait for no copy and end in the order in
/// which they began.
///
/// Not thread-safe, except where a function says so: for the worker alone and, once that has ended,
/// for the thread that stops it. Calls the device without a lock and waits for no work of the
/// program.
class Digester {
 public:
  /// Digests that may be under way at once.
  static constexpr std::size_t kSlots = 64;
  /// Where the result of a digest will be.
  using Slot = std::uint16_t;

  Digester(DeviceMemory& device, EventPool& events) : device_(device), events_(events) {}
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;

  /// Gets the device ready. To be called once, before the program has work on the device: the
  /// driver may wait for that. @return whether digests can be had.
  bool prepare() noexcept;

  /// Whether digests can be had: prepare() said so, and no call of the device has failed since. Any
  /// thread.
  [[nodiscard]] bool is_ready() const { return ready_; }

  /// What the bytes [offset, offset + size) of host memory make of its digest, computed by the
  /// calling thread (digest_part_of). REQUIRES: prepare() was true once. Any thread.
  [[nodiscard]] ContentDigest part_of_host(std::span<const std::byte> content, std::size_t offset,
                                           std::size_t size) const {
    return device_.digest_part_of_host(key_, content, offset, size);
  }
  /// The digest of `size` zero bytes. REQUIRES: prepare() was true once.
  [[nodiscard]] ContentDigest of_zeros(Bytes size) const;

  /// What became of a digest.
  struct Enqueued {
    Status status = Status::kOk;
    /// Completes when the result is there, or when what was enqueued of a failed one has ended.
    /// Null: nothing was enqueued, or nothing tells when it ends.
    EventRef done;
    /// The device may read the page, and nothing tells until when: it may never be used for
    /// anything else.
    bool untracked = false;
    /// REQUIRES: status is kOk. To be given back with give_back().
    Slot slot = 0;
  };
  /// Enqueues the digest of `size` bytes at `window`. REQUIRES: is_ready(), and all that
  /// writes to the page has ended. @return kNotYet if as many are under way as can be. After an
  /// error of the device there are no digests any more.
  Enqueued enqueue(Address window, Bytes size);

  /// The result in `slot`. REQUIRES: the event of that digest has completed. @return nullopt if the
  /// device has not written it.
  [[nodiscard]] std::optional<ContentDigest> result(Slot slot) const;
  /// REQUIRES: the event of that digest has completed.
  void give_back(Slot slot) noexcept { free_.push_back(slot); }

  /// Waits for all digests, at most `limit`, and gives up stream and memory. @return kTimedOut, or
  /// the device's error: then nothing is given up.
  Status stop(std::chrono::milliseconds limit);

 private:
  bool get_ready();

  struct alignas(4096) Results {
    std::array<DigestParts, kSlots> parts;
  };

  DeviceMemory& device_;
  EventPool& events_;
  std::atomic<bool> ready_ = false;
  DigestKey key_{};
  StreamHandle stream_{};
  std::unique_ptr<Results> results_;  ///< pinned while there is a stream
  bool pinned_ = false;
  std::array<std::size_t, kSlots> counts_{};  ///< of the parts of each slot
  std::vector<Slot> free_;
};

}  // namespace superpipe
