// How much of the device other processes leave to the pages of this one.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "policy/budget.h"
#include "policy/units.h"
#include "residency/tuning.h"

namespace superpipe {

/// Decides, sample by sample, how much of what the budget allows pages give way for what other
/// processes hold, so that the headroom stays free on the device.
///
/// The room shrinks at once, when less than three quarters of the headroom would be left. It grows
/// by half of what came free, sample after sample: two processes that both do so share what a third
/// gave back, instead of both taking all of it and both giving way again. Gains below a fourth of
/// the headroom wait until the room has not shrunk for a second, so that a neighbour that allocates
/// and frees little moves nothing.
///
/// Pure except for its state; not thread-safe: under the manager's mutex.
class DevicePressure {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// `headroom`: bytes of the device to leave free. `granule`: of pages.
  DevicePressure(Bytes headroom, Bytes granule)
      : headroom_(headroom),
        band_(headroom.count() / 4),
        least_gain_(std::max(band_, 4 * granule)) {}

  /// The device has `total` bytes, of which `besides` are in use that are in no page of ours; the
  /// budget would let pages take `allowed`. @return whether the room is another one now.
  bool note(Bytes total, Bytes besides, Bytes allowed, TimePoint now) noexcept {
    const Bytes left = saturating_subtract(total, besides + headroom_);
    const Bytes room = std::min(room_.value_or(allowed), allowed);
    if (left + band_ < room) {
      room_ = left;
      shrunk_at_ = now;
      return true;
    }
    const Bytes gain = saturating_subtract(std::min(left, allowed), room);
    const bool is_settled = now - shrunk_at_ >= tuning::kDevicePressureSettled;
    if (!room_ || (gain < least_gain_ && !is_settled)) return false;
    const Bytes grown = room + std::min(gain, std::max(Bytes{gain.count() / 2}, least_gain_));
    if (grown >= allowed) {
      room_.reset();
      claimed_ = Bytes{};
    } else {
      room_ = grown;
    }
    return grown > room;
  }

  /// One launch needs `bytes` of pages: from now on, and until nothing is yielded any more, they
  /// are not given way with. @return whether that is more than there was room for.
  bool claim(Bytes bytes) noexcept {
    if (!room_ || bytes <= std::max(*room_, claimed_)) return false;
    claimed_ = bytes;
    return true;
  }

  /// How much of what the budget allows is left to other processes.
  [[nodiscard]] Bytes yielded(Bytes allowed) const noexcept {
    return room_ ? saturating_subtract(allowed, std::max(*room_, claimed_)) : Bytes{};
  }

 private:
  Bytes headroom_;
  Bytes band_;
  Bytes least_gain_;
  std::optional<Bytes> room_;  ///< nullopt: all that the budget allows
  Bytes claimed_;              ///< the most that one launch needed since there was less
  TimePoint shrunk_at_{};
};

}  // namespace superpipe
