// How long our part of a launch takes, sampled.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

namespace superpipe {

/// A histogram of nanoseconds, with a resolution of an eighth of each power of two. Thread-safe,
/// lock-free.
class LaunchOverhead {
 public:
  /// One launch in so many is timed: four clock readings on each would cost as much as the hook.
  static constexpr std::uint32_t kOneIn = 64;
  /// Longer than this the launch had to wait for a transfer; that is stall, not overhead.
  static constexpr std::chrono::nanoseconds kLongestOverhead = std::chrono::microseconds(50);

  /// Whether the calling thread's launch is one to be timed.
  [[nodiscard]] static bool is_sampled() noexcept { return (launches_++ % kOneIn) == kOneIn - 1; }

  void add(std::chrono::nanoseconds time) noexcept {
    if (time > kLongestOverhead || time.count() < 0) return;
    buckets_[bucket_of(static_cast<std::uint64_t>(time.count()))].fetch_add(
        1, std::memory_order_relaxed);
  }

  /// The value below which `share` (0 to 1) of the samples lie, in ns; 0 without samples.
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

  /// Adds the samples of `other`.
  void merge(const LaunchOverhead& other) noexcept {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      buckets_[i].fetch_add(other.buckets_[i].load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
    }
  }

 private:
  static constexpr unsigned kParts = 8;

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

  static inline constinit thread_local std::uint32_t launches_
      __attribute__((tls_model("initial-exec"))) = 0;
  std::array<std::atomic<std::uint64_t>, 16 * kParts> buckets_{};
};

}  // namespace superpipe
