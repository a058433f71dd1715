// Whether it pays that launches rest on the host while the device comes near to them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "residency/tuning.h"

namespace superpipe {

/// Learns from rests in which the device did nothing. Its work may wait for the very thread that
/// rests, and each rest then seems to give the next one more time. So after such a rest a number of
/// launches does not rest, twice as many each time, until the device goes on during one.
///
/// Not thread-safe. Allocates nothing.
class RestTrust {
 public:
  /// A launch would rest. @return whether it may.
  bool may_begin() {
    if (left_out_ >= leaves_out_) return true;
    ++left_out_;
    return false;
  }
  /// A rest is over. Meanwhile the device `went_on`, or did nothing.
  void note_end(bool went_on) {
    leaves_out_ =
        went_on ? 0 : std::clamp<std::uint32_t>(2 * leaves_out_, 1, tuning::kRestMostLeftOut);
    left_out_ = 0;
  }

 private:
  std::uint32_t leaves_out_ = 0;
  std::uint32_t left_out_ = 0;
};

}  // namespace superpipe
