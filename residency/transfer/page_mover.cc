#include "residency/transfer/page_mover.h"

#include <algorithm>
#include <span>

namespace superpipe {

PageMover::Filled PageMover::fill(const Place& place, Content& content, Mapping mapping) {
  // So that operations which are over need not be waited for by the next piece.
  if (content.asks) (void)events_.all_complete(content.after);
  Filled filled;
  filled.copy = copy_in(place, content);
  filled.status = filled.copy.status;
  if (filled.status != Status::kOk) return filled;
  const EventRef& done = filled.copy.done;
  const bool may_wait = done != nullptr && !done->is_known() && !any_follows_program({&done, 1});
  if (mapping == Mapping::kOnArrival && may_wait) return filled;
  filled.status = map(place);
  filled.is_mapped = filled.status == Status::kOk;
  return filled;
}

// Enqueues what gives the page its content; with nothing to copy and nothing to zero it only joins
// what the page waits for.
Transferred PageMover::copy_in(const Place& place, const Content& content) {
  const Bytes zero_to = content.zeroed.value_or(Bytes{});
  const std::vector<EventRef>& after = content.after;
  const auto is_over = [](const EventRef& event) { return event->is_known(); };
  if (content.slab && std::ranges::all_of(std::span(after).subspan(content.own), is_over)) {
    return transfers_.fetch(place.window, content.slab, content.slab.size, zero_to, after);
  }
  if (content.slab) {
    return transfers_.fetch_apart(place.window, content.slab, content.slab.size, zero_to, after);
  }
  if (content.zeroed || after.size() > 1) return transfers_.fill(place.window, zero_to, after);
  Transferred nothing;
  if (!after.empty()) nothing.done = after.front();
  return nothing;
}

PageMover::Left PageMover::take(const Place& place, const Leave& leave) {
  Left left;
  left.status = device_.unmap(place.address, place.bytes);
  left.is_mapped = left.status != Status::kOk;
  if (left.is_mapped) return left;
  if (leave.digests) left.digest = digester_.enqueue(place.window, leave.content);
  if (left.digest.untracked) {
    left.status = left.digest.status;
    left.is_mapped = map(place) == Status::kOk;
    return left;
  }
  const bool waits = leave.awaits_digest && left.has_digest();
  if (leave.slab && !waits) write_back(place, leave, left);
  return left;
}

PageMover::Left PageMover::write_back(const Place& place, const Leave& leave) {
  Left left;
  left.is_mapped = false;
  write_back(place, leave, left);
  return left;
}

void PageMover::write_back(const Place& place, const Leave& leave, Left& left) {
  if (leave.asks) (void)events_.all_complete(leave.after);
  left.written = transfers_.write_back(place.window, leave.slab, leave.slab.size, leave.after);
  left.status = left.written.status;
  if (left.status != Status::kOk) left.is_mapped = map(place) == Status::kOk;
}

}  // namespace superpipe
