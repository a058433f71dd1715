// What is counted while a program runs under superpipe.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/units.h"
#include "profiler/timeline_event.h"

namespace superpipe {

/// What the managed buffers of one device did since they came under management; bytes are
/// superpipe's own transfers (docs/design.md, "Settings and statistics").
struct ResidencyCounters {
  std::uint64_t launches = 0, accesses = 0;
  Bytes peak_device_bytes;  ///< managed, cached, pooled and pass-through together
  Bytes managed_bytes, passthrough_bytes;
  Bytes peak_passthrough_bytes;
  Bytes peak_managed_demand;  ///< what all live buffers together would have taken
  Bytes h2d_bytes, d2h_bytes;
  std::uint64_t demand_fetches = 0, prefetches = 0;
  std::uint64_t clean_evictions = 0, write_backs = 0;
  double stall_ms = 0;
  Bytes pinned_host_bytes;
  Bytes managed_limit;
  std::uint64_t errors = 0;
};

/// The counters, and the figures that take host memory: those are empty where it has run out.
struct ResidencyStats : ResidencyCounters {
  std::vector<double> pass_ms;  ///< device time between starts of passes, as the worker saw them
  PolicyEngine::Learned learned;
  std::vector<TimelineEvent> timeline;  ///< empty unless it is recorded
};

}  // namespace superpipe
