#include "policy/order_follower.h"

#include <algorithm>

namespace superpipe {
namespace {

constexpr double kConfident = 0.5;
constexpr double kKnownByHeart = 0.9;
constexpr int kMaxRehearsals = 64;
// A launch of a layer that one of the last two visits was of is late (it comes from another
// stream); the program has not gone all the way round to it.
constexpr std::uint64_t kStragglerVisits = 2;

}  // namespace

void OrderFollower::start(const PassOrder& order) {
  layers_.clear();
  for (const Visit& visit : order.visits) layers_.push_back(visit.layer);
  visit_ = 0;
  position_ = 0;
  layer_ = layers_.front();
  may_end_pass_ = layers_.size() == 1;
  // The table is taught the order before the first visit, so that its confidence begins high.
  successors_.clear();
  for (int time = 0; time < kMaxRehearsals; ++time) {
    if (time >= 2 && successors_.confidence() >= kKnownByHeart) break;
    for (const std::uint32_t layer : layers_) successors_.observe(layer);
  }
  successors_.observe(layer_);
}

void OrderFollower::stop() {
  layers_.clear();
  successors_.clear();
  layer_ = kNoLayer;
  may_end_pass_ = false;
}

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

bool OrderFollower::advance(std::uint64_t visits) {
  visit_ += visits;
  position_ += visits;
  const bool pass_began = position_ >= layers_.size();
  if (pass_began) position_ -= layers_.size();
  layer_ = layers_[position_];
  may_end_pass_ = position_ + 1 == layers_.size() && layers_.front() == layer_;
  successors_.observe(layer_);
  return pass_began;
}

std::vector<std::uint64_t> OrderFollower::visits_ahead(std::size_t layers) const {
  std::vector<std::uint64_t> ahead(layers, kNeverVisited);
  for (std::uint64_t step = 0; step < layers_.size(); ++step) {
    std::uint64_t& nearest = ahead[layers_[(position_ + step) % layers_.size()]];
    nearest = std::min(nearest, step);
  }
  return ahead;
}

bool OrderFollower::is_confident() const { return successors_.confidence() >= kConfident; }

}  // namespace superpipe
