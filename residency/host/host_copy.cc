#include "residency/host/host_copy.h"

#include <utility>

namespace superpipe {

void HostCopy::note(HostOperation operation) noexcept {
  if (operation.done != nullptr && operation.slot != StreamTable::kShared) {
    // An event that another thread recorded meanwhile may end later: its operation stays.
    std::erase_if(operations, [&](const HostOperation& earlier) {
      const bool covered = earlier.slot == operation.slot && earlier.stream == operation.stream &&
                           earlier.noted <= operation.done->seq;
      operation.writes = operation.writes || (covered && earlier.writes);
      return covered;
    });
  }
  operations.push_back(std::move(operation));
}

void HostCopy::forget_writes() noexcept {
  std::erase_if(operations, [](const HostOperation& operation) { return operation.writes; });
}

void HostCopy::forget_completed() noexcept {
  std::erase_if(operations, [](const HostOperation& operation) {
    return operation.done != nullptr && operation.done->is_known();
  });
}

bool HostCopy::append_ends(const EventRef& freed, std::vector<EventRef>& events) const {
  bool known = !is_untracked;
  if (freed != nullptr) events.push_back(freed);
  for (const HostOperation& operation : operations) {
    known = known && (operation.done != nullptr || freed != nullptr);
    if (operation.done != nullptr) events.push_back(operation.done);
  }
  return known;
}

}  // namespace superpipe
