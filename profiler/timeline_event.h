// One entry of the record from which a picture of residency is drawn.
#pragma once

#include <chrono>
#include <cstdint>

#include "policy/units.h"

namespace superpipe {

/// One thing that happened to one buffer.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kLaunch, kFetchBegin, kFetchEnd, kEvictBegin, kEvictEnd };
  std::chrono::steady_clock::time_point time;
  Kind kind = Kind::kLaunch;
  BufferId buffer{};
  Bytes size;
};

}  // namespace superpipe
