// When launches came, or the device was done with them, over the last passes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "residency/tuning.h"

namespace superpipe {

/// Remembers when there had been how many launches, and reads off how long those took that followed
/// the present one in each of the last passes. Not thread-safe. Allocates nothing.
class LaunchTimes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  /// There have been `launches` by `now`. A pass has `pass` of them; 0: not known. To be called
  /// often: what comes between two calls is taken to have come evenly.
  void note(TimePoint now, std::uint64_t launches, std::uint64_t pass) {
    if (launches < launches_) count_ = 0;  // it is another policy that counts
    pass_ = pass;
    if (launches == launches_ && count_ > 0) {
      still_at_ = now;
      return;
    }
    const std::uint64_t spacing = std::max<std::uint64_t>(1, pass / kSamplesOfPass);
    // Nothing came for a while: the launches before it did not take longer for that.
    const bool paused = count_ > 0 && still_at_ - seen_at_ > time_of(spacing);
    if (paused) {
      add({launches_, seen_at_});
      add({launches_, still_at_});
    }
    launches_ = launches;
    seen_at_ = still_at_ = now;
    if (paused || count_ == 0 || launches - newest().launches >= spacing) add({launches, now});
  }

  /// How many there had been when note() was called last, and since when, as far as it was.
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  [[nodiscard]] TimePoint since() const { return seen_at_; }

  /// One of the last passes, from where the present one is.
  class Past {
   public:
    /// The seconds from there until there had been `ahead` more, but never more than are known. For
    /// growing numbers.
    double seconds_to(std::uint64_t ahead) {
      return at(std::min(times_.launches_, base_ + ahead)) - present_;
    }

   private:
    friend class LaunchTimes;
    Past(const LaunchTimes& times, std::uint64_t base)
        : times_(times), base_(base), next_(times.first()), present_(at(base)) {}

    /// In seconds from any time. Between two samples launches are taken to have come evenly.
    double at(std::uint64_t launches) {
      while (next_ < times_.count_ && times_.sample(next_).launches < launches) ++next_;
      const Sample present{times_.launches_, times_.seen_at_};
      const Sample& after = next_ < times_.count_ ? times_.sample(next_) : present;
      if (next_ == times_.first() || after.launches <= launches) return since_first(after.at);
      const Sample& before = times_.sample(next_ - 1);
      const double share = static_cast<double>(launches - before.launches) /
                           static_cast<double>(after.launches - before.launches);
      const double begin = since_first(before.at);
      return begin + share * (since_first(after.at) - begin);
    }
    [[nodiscard]] double since_first(TimePoint time) const {
      return std::chrono::duration<double>(time - times_.oldest().at).count();
    }

    const LaunchTimes& times_;
    const std::uint64_t base_;
    std::size_t next_;
    const double present_;
  };

  /// Calls `visit` with each of the last passes that is known (Past), the last one first, while it
  /// returns true. O(kSamples) for each.
  template <typename Visit>
  void visit_past(const Visit& visit) const {
    for (std::uint64_t back = 1; back <= tuning::kPassesLookedBack; ++back) {
      const std::uint64_t offset = back * pass_;
      const bool is_known =
          pass_ > 0 && count_ > 0 && launches_ >= offset && launches_ - offset >= oldest().launches;
      if (!is_known || !visit(Past(*this, launches_ - offset))) return;
    }
  }

 private:
  /// Samples of a pass, without the three at each pause. A pass has at most as many pauses.
  static constexpr std::uint64_t kSamplesOfPass = 64;
  static constexpr std::size_t kSamples = 1024;

  struct Sample {
    std::uint64_t launches = 0;
    TimePoint at;
  };
  [[nodiscard]] const Sample& sample(std::size_t number) const {
    return samples_[number % kSamples];
  }
  [[nodiscard]] std::size_t first() const { return count_ < kSamples ? 0 : count_ - kSamples; }
  [[nodiscard]] const Sample& newest() const { return sample(count_ - 1); }
  [[nodiscard]] const Sample& oldest() const { return sample(first()); }

  void add(const Sample& sample) { samples_[count_++ % kSamples] = sample; }
  /// What so many launches took on the average of those that are known.
  [[nodiscard]] Duration time_of(std::uint64_t launches) const {
    const auto known = static_cast<std::int64_t>(newest().launches - oldest().launches);
    if (known == 0) return Duration{0};
    return (newest().at - oldest().at) / known * static_cast<std::int64_t>(launches);
  }

  std::uint64_t pass_ = 0;
  std::uint64_t launches_ = 0;
  TimePoint seen_at_;   ///< when there were first so many, as far as note() was told
  TimePoint still_at_;  ///< and when there were still no more
  std::array<Sample, kSamples> samples_{};
  std::size_t count_ = 0;  ///< of samples that were ever taken
};

}  // namespace superpipe
