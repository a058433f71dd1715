// Which buffers have host memory set aside for their content, and which stay on the device instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "policy/budget.h"
#include "policy/units.h"
#include "residency/host/host_store.h"
#include "residency/pieces/buffer_table.h"
#include "residency/thread_annotations.h"

namespace superpipe {

/// Sets host memory aside for buffers, from when the live ones no longer fit the device together.
///
/// Until then none has to leave, and none needs any. From then on a live buffer is *backed*, so
/// that it can leave at any time, or *stays* on the device, as those do that are pinned for ever
/// wherever there is room for them. So a program may have as much as the device and the host store
/// hold together, except a part of the device that is kept for what comes and goes. Host memory
/// that comes free is not handed to what stays, or a program that frees a buffer and makes it anew
/// in each pass might not get it again.
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

  /// Of `limit` bytes of pages, what buffers that stay may take: three quarters, and so much that
  /// the largest buffer there ever was fits beside them. The rest is for the launches that name
  /// backed ones.
  [[nodiscard]] Bytes most_staying(Bytes limit) const REQUIRES(manager_lock) {
    return std::min(part_for_staying(limit, granule_), saturating_subtract(limit, largest_));
  }
  /// The three quarters.
  [[nodiscard]] static constexpr Bytes part_for_staying(Bytes limit, Bytes granule) {
    const std::uint64_t granules = limit.count() / granule.count();
    return Bytes{(granules - (granules + 3) / 4) * granule.count()};
  }

  /// The live buffers exceed `limit` bytes of pages, or are about to: all are backed, except some
  /// that stay. O(buffers). @return false if host memory is too short for that.
  bool shrink_to(Bytes limit) REQUIRES(manager_lock);
  [[nodiscard]] bool has_begun() const REQUIRES(manager_lock) { return has_begun_; }

  /// A share for a new buffer of `size` bytes with pages of `footprint`, where pages may take
  /// `limit` bytes in all; begins if it has to, which is O(buffers). @return nullopt: there is not
  /// enough, and all is as it was.
  std::optional<Share> reserve(Bytes size, Bytes footprint, Bytes limit) REQUIRES(manager_lock);
  /// The buffer has come to nothing.
  void give_back(const Share& share, Bytes footprint) noexcept REQUIRES(manager_lock);

  /// A buffer begins its life with a share; ends it.
  void begin_life(Buffer& buffer, const Share& share) REQUIRES(manager_lock);
  void end_life(Buffer& buffer) noexcept REQUIRES(manager_lock);

  /// The buffer is pinned for the rest of its life: it stays, and what was set aside for its
  /// content is given back, as far as buffers that stay may take so much of `limit` bytes of pages.
  /// Not where the host has content of it, or is about to.
  void keep_pinned(Buffer& buffer, Bytes limit) noexcept REQUIRES(manager_lock);

  /// Sets host memory aside for the content of a buffer, if it has none yet. @return false: the
  /// host store has not enough.
  bool back(Buffer& buffer) REQUIRES(manager_lock);

  /// What buffers that stay take, in bytes of pages.
  [[nodiscard]] Bytes staying() const REQUIRES(manager_lock) { return staying_; }
  /// Whether any buffer had to stay because host memory was short.
  [[nodiscard]] bool was_short() const REQUIRES(manager_lock) { return was_short_; }

  /// What could be allocated, in buffers that are small, beside `live` bytes of them, where pages
  /// may take `limit` bytes: what all fits on the device, or host memory and what may stay besides.
  [[nodiscard]] Bytes obtainable(Bytes live, Bytes limit) const REQUIRES(manager_lock);

 private:
  static constexpr Bytes kNeverRefused{~std::uint64_t{0}};

  bool begin(Bytes most) REQUIRES(manager_lock);
  bool back_below(Bytes& refused, Buffer& buffer) REQUIRES(manager_lock);
  void back_until(Bytes most, bool pinned) REQUIRES(manager_lock);
  void keep(Buffer& buffer) REQUIRES(manager_lock);
  void take_all_back() noexcept REQUIRES(manager_lock);

  BufferTable& buffers_;
  HostStore& host_;
  const Bytes granule_;
  bool has_begun_ GUARDED_BY(manager_lock) = false;
  bool was_short_ GUARDED_BY(manager_lock) = false;
  Bytes staying_ GUARDED_BY(manager_lock);
  Bytes largest_ GUARDED_BY(manager_lock);  ///< footprint of a buffer so far
};

}  // namespace superpipe
