#include "residency/streams/shared_uses.h"

#include <new>
#include <utility>

namespace superpipe {

void SharedUses::note(Use use) noexcept {
  // An event recorded after an earlier use of the same stream was noted covers that use as well,
  // recorded or not. One that another thread recorded meanwhile is kept beside it.
  const std::uint64_t covered = use.event == nullptr ? 0
                                : use.thread != 0    ? use.noted
                                                     : use.event->seq;
  std::erase_if(uses_, [&](const Use& earlier) {
    return is_complete(earlier) || (earlier.stream == use.stream && earlier.thread == use.thread &&
                                    earlier.noted <= covered);
  });
  if (uses_.size() >= kMost) {
    is_lost_ = true;
    return;
  }
  try {
    uses_.push_back(std::move(use));
  } catch (const std::bad_alloc&) {
    is_lost_ = true;
  }
}

bool SharedUses::covered(std::vector<EventRef>& events) const {
  if (is_lost_) return false;
  for (const Use& use : uses_) {
    if (use.event == nullptr) return false;
    if (!is_complete(use)) events.push_back(use.event);
  }
  return true;
}

std::uint64_t SharedUses::completed_to(std::uint64_t seq) const {
  for (const Use& use : uses_) {
    if (!is_complete(use)) seq = std::min(seq, use.noted - 1);
  }
  return seq;
}

bool SharedUses::lacks_event(StreamHandle stream) const {
  return std::ranges::any_of(
      uses_, [stream](const Use& use) { return use.stream == stream && use.event == nullptr; });
}

bool SharedUses::lacks_event() const {
  return std::ranges::any_of(uses_, [](const Use& use) { return use.event == nullptr; });
}

void SharedUses::retire(StreamHandle stream, const EventRef& end) noexcept {
  for (Use& use : uses_) {
    if (use.stream != stream) continue;
    if (use.event == nullptr) use.event = end;
    use.stream = StreamHandle{};
    use.thread = use.noted;  // of no other use, so that none takes its place
  }
}

std::vector<EventRef> SharedUses::next_to_ask(std::size_t most) {
  std::vector<EventRef> events;
  for (std::size_t looked = 0; looked < uses_.size() && events.size() < most; ++looked) {
    const Use& use = uses_[next_++ % uses_.size()];
    if (use.event != nullptr && !is_complete(use)) events.push_back(use.event);
  }
  if (!uses_.empty()) next_ %= uses_.size();
  return events;
}

}  // namespace superpipe
