#include "tools/superpipe/planner/kernel_times.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace superpipe::cli {
namespace {

constexpr std::size_t kFewest = 4;
constexpr float kMostOfMedian = 4;
constexpr float kNear = 1.05F;

}  // namespace

void replace_outliers(std::span<float> times) {
  if (times.size() < kFewest) return;
  std::vector<float> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const float median = sorted[sorted.size() / 2];
  const auto is_alone = [&sorted](float time) {
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), time / kNear);
    return std::upper_bound(first, sorted.end(), time * kNear) - first < 2;
  };
  for (float& time : times) {
    if (time > kMostOfMedian * median && is_alone(time)) time = median;
  }
}

}  // namespace superpipe::cli
