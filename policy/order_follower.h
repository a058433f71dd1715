// Where in its pass a program is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/pass_order.h"

namespace superpipe {

/// Follows the visits of a learned pass, over and over, and resynchronises when they are not as
/// predicted. Not thread-safe.
class OrderFollower {
 public:
  /// Starts at the first visit of `order`, which is remembered by its visits alone.
  /// REQUIRES: at least one visit.
  void start(const PassOrder& order);

  /// Forgets the order.
  void stop();

  /// The layer of the present visit; kNoLayer where there is no order. O(1).
  [[nodiscard]] std::uint32_t layer() const { return layer_; }

  /// The present visit, counted over the endless sequence since start(). O(1).
  [[nodiscard]] std::uint64_t visit() const { return visit_; }

  /// Whether the next visit opens a pass and is of the same layer as the present one, so that only
  /// its first launch tells them apart. O(1).
  [[nodiscard]] bool may_end_pass() const { return may_end_pass_; }

  /// How far ahead a launch lies.
  struct Step {
    std::uint64_t visits = 0;  ///< 0: it belongs to no visit, or to one that is over
    bool predicted = true;     ///< the order had it there
  };

  /// Where a launch of `home`, which is not layer(), belongs: the nearest visit ahead that has its
  /// layer. Passing over visits of layers for which `is_empty` is predicted; a layer of the last
  /// two visits is a straggler of another stream. O(visits).
  [[nodiscard]] Step step_to(std::uint32_t home, const std::vector<bool>& is_empty) const;

  /// Moves on by `step`. REQUIRES: 1 <= step.visits <= visits of a pass. O(1).
  /// @return whether a pass began.
  bool advance(const Step& step);

  /// Whether at least half of the recent steps were predicted: an exponential mean over 16. O(1).
  [[nodiscard]] bool is_confident() const { return confidence_ >= 0.5; }

 private:
  std::vector<std::uint32_t> layers_;  // by visit of a pass
  std::uint64_t visit_ = 0;
  std::uint64_t position_ = 0;  // in the pass
  std::uint32_t layer_ = kNoLayer;
  bool may_end_pass_ = false;
  double confidence_ = 1.0;
};

}  // namespace superpipe
