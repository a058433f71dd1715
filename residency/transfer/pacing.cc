#include "residency/transfer/pacing.h"

#include <algorithm>
#include <utility>

#include "residency/tuning.h"

namespace superpipe {
namespace {

// Of streams that are replayed apart it is not known when they launch.
bool knows_when(const AutoPolicy& policy) {
  return policy.launches() > 0 && policy.replay().horizon() > 0;
}

}  // namespace

std::optional<Pacing::TimePoint> Pacing::link_rest(AutoPolicy& policy, double link,
                                                   TimePoint now) const {
  if (!knows_when(policy)) return std::nullopt;
  const MissingBytes* const missing = policy.missing();
  if (missing == nullptr) return std::nullopt;
  const auto slack = pace_.slack(*missing, link, now);
  if (!slack || *slack <= Duration{0}) return std::nullopt;
  return now + std::min<Duration>(*slack, tuning::kRestLongestLook);
}

bool Pacing::launch_rests(Rest& rest, const Demand& demand, AutoPolicy* policy, double link,
                          TimePoint now) {
  if (rest.is_over) return false;
  if (rest.lasts(now)) return true;
  const Duration left = demand.is_alone ? time_left(demand, policy, link, now) : Duration{0};
  if (left <= Duration{0} || (!rest.began && !trust_.may_begin())) {
    end_rest(rest, now);
    return false;
  }
  if (!rest.began) {
    rest.began = now;
    rest.completed = pace_.completed();
  }
  rest.until = now + std::min<Duration>(left, tuning::kRestLongestLook);
  let_rest(rest.until);
  return true;
}

// How long nothing need be chosen; 0 or less: something must, or it is not known. Only where all
// that is missing has content to be brought: what goes for a new buffer may have to be written back
// first, for which there is no estimate.
Pacing::Duration Pacing::time_left(const Demand& demand, AutoPolicy* policy, double link,
                                   TimePoint now) const {
  constexpr Duration kNone{0};
  const bool is_foreseen = policy != nullptr && knows_when(*policy) && policy->foresaw_present();
  if (!is_foreseen || demand.fetched < demand.pages) return kNone;
  const MissingBytes* const others = policy->missing();
  if (others == nullptr) return kNone;
  return pace_.slack_of_demand(demand.fetched, policy->present(), *others, link, now)
      .value_or(kNone);
}

void Pacing::end_rest(Rest& rest, TimePoint now) {
  if (std::exchange(rest.is_over, true) || !rest.began) return;
  const bool went_on = pace_.completed() > rest.completed;
  if (went_on || now - *rest.began >= tuning::kRestInVain) trust_.note_end(went_on);
}

bool Pacing::must_wake(TimePoint now) {
  if (!wakes_at_ || now < *wakes_at_) return false;
  wakes_at_.reset();
  return true;
}

}  // namespace superpipe
