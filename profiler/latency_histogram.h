// Short times, counted so that their quantiles can be told afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace superpipe {

/// A histogram of times from 0 to kRange, whose buckets are an eighth of a power of two wide: a
/// quantile is at most an eighth above the true one. Longer times count as just below kRange.
///
/// Thread-safe and lock-free; a quantile taken while others add sees some of their samples.
class LatencyHistogram {
 public:
  /// The first time that is too long to be told from longer ones.
  static constexpr std::chrono::nanoseconds kRange{1 << 18};

  /// Counts one sample; leaves out one that is negative.
  void add(std::chrono::nanoseconds time) noexcept {
    if (time.count() < 0) return;
    const auto counted = std::min(time, kRange - std::chrono::nanoseconds{1});
    buckets_[bucket_of(static_cast<std::uint64_t>(counted.count()))].fetch_add(
        1, std::memory_order_relaxed);
  }

  /// The sample of rank `share` * (samples - 1), rounded down; ranks count from 0 at the shortest.
  /// `share`: 0 to 1. @return its bucket's end in ns; 0 without samples. O(buckets).
  [[nodiscard]] double quantile(double share) const noexcept {
    std::uint64_t total = 0;
    for (const auto& bucket : buckets_) total += bucket.load(std::memory_order_relaxed);
    if (total == 0) return 0;
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total - 1));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i].load(std::memory_order_relaxed);
      if (seen > wanted) return upper_bound_of(i);
    }
    return upper_bound_of(buckets_.size() - 1);
  }

 private:
  static constexpr unsigned kParts = 8;  ///< buckets for each power of two

  static std::size_t bucket_of(std::uint64_t nanoseconds) noexcept {
    if (nanoseconds < kParts) return nanoseconds;
    const auto exponent = static_cast<unsigned>(std::bit_width(nanoseconds)) - 4;
    return (exponent + 1) * kParts + ((nanoseconds >> exponent) - kParts);
  }
  static double upper_bound_of(std::size_t bucket) noexcept {
    if (bucket < kParts) return static_cast<double>(bucket);
    const auto exponent = static_cast<unsigned>(bucket / kParts - 1);
    return static_cast<double>(((bucket % kParts + kParts + 1) << exponent) - 1);
  }

  std::array<std::atomic<std::uint64_t>, 16 * kParts> buckets_{};  // the last ends at kRange
};

}  // namespace superpipe
