#include "policy/order_follower.h"

#include <algorithm>

namespace superpipe {
namespace {

constexpr double kFollowedStep = 1.0 / 16;
// A launch of a layer that one of the last two visits was of is late (it comes from another
// stream); the program has not gone all the way round to it.
constexpr std::uint64_t kStragglerVisits = 2;

}  // namespace

void OrderFollower::start(const PassOrder& order) {
  *this = {};
  for (const Visit& visit : order.visits) layers_.push_back(visit.layer);
  layer_ = layers_.front();
  may_end_pass_ = layers_.size() == 1;
}

void OrderFollower::stop() { *this = {}; }

OrderFollower::Step OrderFollower::step_to(std::uint32_t home,
                                           const std::vector<bool>& is_empty) const {
  const std::uint64_t visits = layers_.size();
  const auto layer_at = [&](std::uint64_t ahead) { return layers_[(position_ + ahead) % visits]; };
  // Whether each visit that is passed over is of an empty layer or of the present one.
  bool only_blank = true;
  for (std::uint64_t ahead = 1; ahead < visits; ++ahead) {
    const std::uint32_t layer = layer_at(ahead);
    if (layer == home) {
      if (only_blank) return {ahead, true};
      for (std::uint64_t behind = 1; behind <= std::min(kStragglerVisits, visits); ++behind) {
        if (2 * ahead > visits && layer_at(visits - behind) == home) return {0, false};
      }
      return {ahead, false};
    }
    only_blank = only_blank && (layer == layer_ || is_empty[layer]);
  }
  return {0, true};
}

bool OrderFollower::advance(const Step& step) {
  visit_ += step.visits;
  position_ += step.visits;
  const bool pass_began = position_ >= layers_.size();
  if (pass_began) position_ -= layers_.size();
  layer_ = layers_[position_];
  may_end_pass_ = position_ + 1 == layers_.size() && layers_.front() == layer_;
  confidence_ += kFollowedStep * ((step.predicted ? 1.0 : 0.0) - confidence_);
  return pass_began;
}

}  // namespace superpipe
