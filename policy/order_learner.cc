#include "policy/order_learner.h"

namespace superpipe {
namespace {

constexpr std::uint64_t kMultiplier = 0xD6E8FEB86659FD93U;

// Each word is multiplied before the next is mixed in: kernels and ids are small numbers, and must
// not cancel each other.
std::uint64_t token_of(KernelId kernel, std::span<const BufferId> buffers) {
  std::uint64_t token = (static_cast<std::uint64_t>(kernel) + 1) * kMultiplier;
  for (const BufferId id : buffers) {
    token ^= token >> 32;
    token = (token + index_of(id) + 1) * kMultiplier;
  }
  return token ^ (token >> 32);
}

}  // namespace

OrderLearner::OrderLearner(std::size_t max_launches)
    : history_(max_launches), weights_(max_launches), everything_(max_launches) {
  everything_.detector.require_longer_match();
  everything_.detector.require_longer_match();
}

std::optional<OrderLearner::Pass> OrderLearner::watch(Watch& watch, KernelId kernel,
                                                      std::span<const BufferId> buffers) {
  const std::uint64_t token = token_of(kernel, buffers);
  if (buffers.empty() || !watch.detector.would_count(token)) return std::nullopt;
  watch.launch_of.push_back(static_cast<std::uint32_t>(history_.size() - 1));
  const auto period = watch.detector.observe(token);
  if (!period) return std::nullopt;
  return Pass{watch.launch_of[period->first], watch.launch_of[period->first + period->period]};
}

std::optional<OrderLearner::Pass> OrderLearner::observe(KernelId kernel,
                                                        std::span<const BufferId> buffers,
                                                        std::span<const BufferId> written) {
  if (!history_.record(kernel, buffers)) {
    reset();
    if (!history_.record(kernel, buffers)) return std::nullopt;
  }
  const auto by_weights = watch(weights_, kernel, written);
  const auto by_everything = watch(everything_, kernel, buffers);
  if (history_.size() < resume_at_) return std::nullopt;
  return by_weights ? by_weights : by_everything;
}

void OrderLearner::reset() {
  history_.clear();
  for (Watch* const watch : {&weights_, &everything_}) {
    watch->detector.clear();
    watch->launch_of.clear();
  }
  resume_at_ = 0;
}

void OrderLearner::reset_after_failure() {
  reset();
  weights_.detector.require_longer_match();
  everything_.detector.require_longer_match();
}

}  // namespace superpipe
