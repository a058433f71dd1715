// How long what is missing may still stay out.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "policy/missing_bytes.h"
#include "policy/units.h"

namespace superpipe {

/// Knows how long fetches take, by the link's speed and by the calls that each takes of its own
/// thread, and when launches come, by when they came in the last passes. So it tells how long the
/// link may rest without anything coming late.
///
/// Launches that wait for fetches come later than they could, so that in the next pass there seems
/// to be more time than there is; but who begins too late waits less than the time by which the
/// pass was longer, so that this settles. Not thread-safe. Allocates nothing.
class FetchPace {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;
  using Duration = std::chrono::nanoseconds;

  /// A fetch of `bytes` has been enqueued by calls that took `calls`.
  void note_fetch(Duration calls, Bytes bytes) {
    const double step = fetches_++ == 0 ? 1.0 : kStep;
    bytes_ += step * (static_cast<double>(bytes.count()) - bytes_);
    calls_ += step * (seconds(calls + evictions_) - calls_);
    evictions_ = Duration{0};
  }
  /// The same of an eviction, for which a fetch will have to wait.
  void note_eviction(Duration calls) { evictions_ += calls; }

  /// So many launches have been announced by `now`. A pass has `pass` of them; 0: nobody knows. To
  /// be called often: what comes between two calls is taken to have come evenly.
  void note_launches(TimePoint now, std::uint64_t launches, std::uint64_t pass) {
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

  /// How long the link may rest, if it brings `link` bytes a second, so that all of `missing` comes
  /// in time; 0 or less: it may not. nullopt: nobody knows yet. O(kSamples +
  /// MissingBytes::kGroups).
  [[nodiscard]] std::optional<Duration> slack(const MissingBytes& missing, double link,
                                              TimePoint now) const {
    if (fetches_ < kLeastFetches || link <= 0 || pass_ == 0) return std::nullopt;
    const double rate = bytes_ / std::max(bytes_ / link, calls_);
    std::optional<double> least;
    for (std::uint64_t back = 1; back <= kPasses; ++back) {
      const std::uint64_t offset = back * pass_;
      if (count_ == 0 || launches_ < offset || launches_ - offset < oldest().launches) break;
      Reader then(*this);
      const double present = then.at(launches_ - offset);
      missing.for_each_sum([&](std::uint64_t launch, Bytes due) {
        const std::uint64_t ahead = launch + 1 - missing.next_launch();
        const double left = then.at(std::min(launches_, launches_ - offset + ahead)) - present;
        const double takes = kMargin * static_cast<double>(due.count()) / rate + kReserve;
        least = std::min(least.value_or(std::numeric_limits<double>::max()), left - takes);
      });
      if (!least) return Duration::max();  // nothing is missing
    }
    if (!least) return std::nullopt;
    const auto elapsed = now - seen_at_;
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*least)) - elapsed;
  }

 private:
  /// Fetches take as if they were so many times as long, for others may use the link, and those
  /// that have to go for them may be in use.
  static constexpr double kMargin = 2;
  /// What it takes until somebody begins, in seconds.
  static constexpr double kReserve = 300e-6;
  /// The weight of a fetch in the mean of all.
  static constexpr double kStep = 1.0 / 16;
  static constexpr std::uint64_t kLeastFetches = 8;
  /// The passes of which the one counts that leaves the least time: a program that waited for its
  /// user in one of them need not the next time.
  static constexpr std::uint64_t kPasses = 3;
  /// Samples of a pass, but for three at each pause, of which a pass has at most as many.
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

  /// Reads off when so many launches had been announced, for growing numbers of them.
  class Reader {
   public:
    explicit Reader(const FetchPace& pace) : pace_(pace), next_(pace.first()) {}
    /// In seconds from any time. Between two samples launches are taken to have come evenly.
    double at(std::uint64_t launches) {
      while (next_ < pace_.count_ && pace_.sample(next_).launches < launches) ++next_;
      const Sample present{pace_.launches_, pace_.seen_at_};
      const Sample& after = next_ < pace_.count_ ? pace_.sample(next_) : present;
      if (next_ == pace_.first() || after.launches <= launches) return since_first(after.at);
      const Sample& before = pace_.sample(next_ - 1);
      const double share = static_cast<double>(launches - before.launches) /
                           static_cast<double>(after.launches - before.launches);
      const double begin = since_first(before.at);
      return begin + share * (since_first(after.at) - begin);
    }

   private:
    [[nodiscard]] double since_first(TimePoint time) const {
      return seconds(time - pace_.oldest().at);
    }
    const FetchPace& pace_;
    std::size_t next_;
  };

  void add(const Sample& sample) { samples_[count_++ % kSamples] = sample; }
  /// What so many launches took on the average of those that are known.
  [[nodiscard]] Duration time_of(std::uint64_t launches) const {
    const auto known = static_cast<std::int64_t>(newest().launches - oldest().launches);
    if (known == 0) return Duration{0};
    return (newest().at - oldest().at) / known * static_cast<std::int64_t>(launches);
  }

  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  std::uint64_t fetches_ = 0;
  double bytes_ = 0;  ///< of a fetch, on the average of the last ones
  double calls_ = 0;  ///< seconds that calls took for one and for what had to go
  Duration evictions_{0};
  std::uint64_t pass_ = 0;
  std::uint64_t launches_ = 0;  ///< announced
  TimePoint seen_at_;           ///< when there were first so many, as far as anybody looked
  TimePoint still_at_;          ///< and when there were still no more
  std::array<Sample, kSamples> samples_{};
  std::size_t count_ = 0;  ///< of samples that were ever taken
};

}  // namespace superpipe
