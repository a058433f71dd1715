// The timeline of residency as text, for people and for scripts/residency_svg.py.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "policy/units.h"
#include "profiler/timeline_event.h"

namespace superpipe {

/// `events` as CSV, by time: `time_ms,event,buffer,layer,bytes`, times in milliseconds since the
/// first.
///
/// A buffer belongs to a layer if it was ever fetched or evicted; layers are numbered in order of
/// first launch. Such buffers make up one layer for as long as their footprints add up to
/// `layer_bytes` (what policy learned); where they do not, each is a layer by itself. Pure. O(n log
/// n).
[[nodiscard]] std::string timeline_csv(std::span<const TimelineEvent> events,
                                       const std::vector<Bytes>& layer_bytes);

}  // namespace superpipe
