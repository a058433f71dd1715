#include "residency/room/overfull_launches.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace superpipe {
namespace {

using Ids = std::vector<BufferId>;

Ids sorted(std::span<const BufferId> ids) {
  Ids copy(ids.begin(), ids.end());
  std::ranges::sort(copy);
  return copy;
}

Ids common(const Ids& one, const Ids& other) {
  Ids both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  return both;
}

}  // namespace

void OverfullLaunches::note(KernelId kernel, std::span<const BufferId> operands,
                            std::span<const BufferId> others) {
  Launch launch{sorted(operands), sorted(others), {}};
  const auto before = last_.find(kernel);
  if (before == last_.end()) {
    last_.emplace(kernel, std::move(launch));
    return;
  }
  // The same operands tell nothing about what is named beside them.
  const bool tells = launch.operands != before->second.operands;
  launch.suspects = common(launch.others, tells ? before->second.others : before->second.suspects);
  before->second = std::move(launch);
}

bool OverfullLaunches::is_suspect(KernelId kernel, BufferId id) const {
  const auto last = last_.find(kernel);
  return last != last_.end() && std::ranges::binary_search(last->second.suspects, id);
}

}  // namespace superpipe
