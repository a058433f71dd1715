// Which buffers have host memory set aside for their content, and which stay on the device instead.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/units.h"
#include "residency/buffer_table.h"
#include "residency/host_store.h"
#include "residency/thread_annotations.h"

namespace superpipe {

/// Sets host memory aside for buffers, from when the live ones no longer fit the device together.
///
/// Until then none has to leave, and none needs any. From then on a live buffer is *backed*, so
/// that it can leave at any time, or *stays*: it is not evicted until host memory is free for it.
/// So a program may have as much as the device and the host store hold together, but for a part of
/// the device that is kept for what comes and goes.
///
/// A part of the manager: all calls are serialised by its mutex, and none calls the device.
class HostBacking {
 public:
  /// `granule`: pages are multiples of it.
  HostBacking(BufferTable& buffers, HostStore& host, Bytes granule)
      : buffers_(buffers), host_(host), granule_(granule) {}

  /// What was set aside for the content of one buffer.
  struct Share {
    Bytes backing;       ///< host memory; 0: none
    bool stays = false;  ///< the buffer stays on the device instead
  };

  /// Of `limit` bytes of pages, what buffers that stay may take: three quarters. The rest is for
  /// the launches that name backed ones.
  [[nodiscard]] Bytes most_staying(Bytes limit) const {
    const std::uint64_t granules = limit.count() / granule_.count();
    return Bytes{(granules - (granules + 3) / 4) * granule_.count()};
  }

  /// The live buffers exceed the device, or are about to: all are backed, but for some that stay
  /// and take `most_staying` bytes of pages at most. O(buffers) the first time.
  /// @return false if host memory is too short for that: then all is as it was.
  bool begin(Bytes most_staying) REQUIRES(manager_lock);
  [[nodiscard]] bool has_begun() const REQUIRES(manager_lock) { return has_begun_; }

  /// A share for a new buffer of `size` bytes with pages of `footprint`, where pages may take
  /// `limit` bytes in all; begins if it has to. @return nullopt: there is not enough, and all is as
  /// it was.
  std::optional<Share> reserve(Bytes size, Bytes footprint, Bytes limit) REQUIRES(manager_lock);
  /// The buffer has come to nothing.
  void give_back(const Share& share, Bytes footprint) noexcept REQUIRES(manager_lock);

  /// A buffer begins its life with a share; ends it: then others that stay may get its host memory.
  static void begin_life(Buffer& buffer, const Share& share) REQUIRES(manager_lock);
  void end_life(Buffer& buffer) noexcept REQUIRES(manager_lock);

  /// Sets host memory aside for the content of a buffer, if it has none yet. @return false: the
  /// host store has not enough.
  bool back(Buffer& buffer) REQUIRES(manager_lock);

  /// What buffers that stay take, in bytes of pages.
  [[nodiscard]] Bytes staying() const REQUIRES(manager_lock) { return staying_; }

  /// The largest allocation that would be admitted beside `live` bytes of buffers, as far as host
  /// memory is concerned, where pages may take `limit` bytes.
  [[nodiscard]] Bytes obtainable(Bytes live, Bytes limit) const REQUIRES(manager_lock);

 private:
  /// So many buffers are looked at when host memory comes free.
  static constexpr std::uint32_t kMostLookedAt = 16;

  void back_some() noexcept REQUIRES(manager_lock);
  void take_all_back() noexcept REQUIRES(manager_lock);

  BufferTable& buffers_;
  HostStore& host_;
  const Bytes granule_;
  bool has_begun_ GUARDED_BY(manager_lock) = false;
  Bytes staying_ GUARDED_BY(manager_lock);
  std::uint32_t next_ GUARDED_BY(manager_lock) = 0;  ///< where back_some() looks next
};

}  // namespace superpipe
