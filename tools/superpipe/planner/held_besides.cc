#include "tools/superpipe/planner/held_besides.h"

#include <algorithm>

#include "policy/budget.h"

namespace superpipe::cli {
namespace {

// Whether two moments, of which the trace may be anyone's, are further apart than `most`.
bool are_apart(std::int64_t earlier, std::int64_t later, std::int64_t most) {
  return later / 2 - earlier / 2 > most / 2;
}

// The driver takes whole granules. Less than one is what was allocated since the device was asked
// last, but for the first one.
std::uint32_t granules_in(Bytes passthrough, Bytes granule, bool asks) {
  const Bytes whole = asks && passthrough >= granule ? passthrough : round_up(passthrough, granule);
  return static_cast<std::uint32_t>(whole.count() / granule.count());
}

}  // namespace

bool HeldBesides::tell(std::int64_t time, Bytes pages, Bytes passthrough, Bytes budget) {
  constexpr Bytes kMost = 1024_GiB;  // no device has more
  passthrough = std::min(passthrough, kMost);
  const Bytes before = told_.empty() ? Bytes{} : told_.back().passthrough;
  told_.push_back({time, pages, passthrough, budget, passthrough != before});
  return told_.back().is_change;
}

HeldBesides::Answer HeldBesides::answer(Bytes granule, bool asks, std::int64_t end) const {
  Answer answer;
  Bytes before;
  for (std::size_t i = 0, next = 0; i < told_.size(); i = next) {
    next = i + 1;
    while (next < told_.size() && told_[next].passthrough == told_[i].passthrough) ++next;
    const Bytes most = most_held(i, next, before, end);
    for (std::size_t k = i; k < next; ++k) {
      const std::uint32_t granules =
          granules_in(std::min(least_until_asked(k), most), granule, asks);
      const Bytes held = granule * granules;
      answer.most = std::max(answer.most, held);
      answer.peak_device = std::max(
          answer.peak_device, told_[k].pages + std::min(held, most_held(k, k + 1, before, end)));
      if (told_[k].is_change) answer.granules.push_back(granules);
    }
    before = std::min(least_until_asked(i), most);
  }
  return answer;
}

// The least that was told soon behind told_[at].
Bytes HeldBesides::least_until_asked(std::size_t at) const {
  constexpr std::int64_t kUntilAsked = 20'000'000;
  constexpr std::size_t kMostBetween = 32;
  Bytes least = told_[at].passthrough;
  for (std::size_t later = at + 1; later < std::min(at + kMostBetween, told_.size()); ++later) {
    if (are_apart(told_[at].time, told_[later].time, kUntilAsked)) break;
    least = std::min(least, told_[later].passthrough);
  }
  return least;
}

// The most that the driver can have held while told_[first, last) were the same, where it had held
// `before`: superpipe has pages make room, so what has grown fits the budget beside them before
// long. What was told for longer than the device is not asked is what it holds in any case.
Bytes HeldBesides::most_held(std::size_t first, std::size_t last, Bytes before,
                             std::int64_t end) const {
  constexpr std::int64_t kAskedAgain = 2'000'000'000;
  const Bytes told = told_[first].passthrough;
  Bytes room;
  for (std::size_t k = first; k < last; ++k) {
    if (told_[k].budget == Bytes{}) return told;
    room = std::max(room, saturating_subtract(told_[k].budget, told_[k].pages));
  }
  const std::int64_t until = last < told_.size() ? told_[last].time : end;
  if (are_apart(told_[first].time, until, kAskedAgain)) return told;
  return std::min(told, std::max(room, before));
}

}  // namespace superpipe::cli
