#include "policy/eviction.h"

#include <algorithm>
#include <cstddef>

namespace superpipe {
namespace {

bool goes_before(const ResidentBuffer* left, const ResidentBuffer* right) {
  if (left->next_use != right->next_use) return left->next_use > right->next_use;
  if (left->last_use != right->last_use) return left->last_use < right->last_use;
  return index_of(left->id) < index_of(right->id);
}

}  // namespace

std::optional<std::vector<BufferId>> plan_eviction(std::span<const ResidentBuffer> candidates,
                                                   Bytes needed) {
  if (needed == Bytes{}) return std::vector<BufferId>{};
  std::vector<const ResidentBuffer*> order;
  order.reserve(candidates.size());
  for (const ResidentBuffer& buffer : candidates) {
    if (buffer.footprint > Bytes{}) order.push_back(&buffer);
  }
  std::sort(order.begin(), order.end(), goes_before);

  Bytes freed;
  std::size_t count = 0;
  while (count < order.size() && freed < needed) freed += order[count++]->footprint;
  if (freed < needed) return std::nullopt;
  order.resize(count);

  // Drops victims that the others make needless, beginning with the one that is used next.
  for (std::size_t at = order.size(); at-- > 0;) {
    if (freed - order[at]->footprint < needed) continue;
    freed -= order[at]->footprint;
    order[at] = nullptr;
  }
  std::vector<BufferId> victims;
  victims.reserve(order.size());
  for (const ResidentBuffer* buffer : order) {
    if (buffer != nullptr) victims.push_back(buffer->id);
  }
  return victims;
}

std::vector<BufferId> plan_eviction_or_all(std::span<const ResidentBuffer> candidates,
                                           Bytes needed) {
  Bytes all;
  for (const ResidentBuffer& buffer : candidates) all += buffer.footprint;
  return plan_eviction(candidates, std::min(needed, all)).value_or(std::vector<BufferId>{});
}

}  // namespace superpipe
