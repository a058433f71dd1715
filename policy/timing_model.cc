#include "policy/timing_model.h"

#include <algorithm>

#include "policy/budget.h"

namespace superpipe {

Seconds physical_bound(const PassCost& cost, Bytes fit) {
  const Bytes streamed = saturating_subtract(cost.persistent, fit);
  return std::max(cost.compute, cost.host_to_device.time_for(streamed));
}

}  // namespace superpipe
