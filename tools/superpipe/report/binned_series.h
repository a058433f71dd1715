// Series over time in so many points, however long they become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace superpipe::cli {

/// The width of the first bins of every series, in nanoseconds: a power of two, and so are all
/// later widths. Series with as many bins that cover the same end therefore have the same bins.
inline constexpr std::uint64_t kFirstBinNs = 1024;
/// Times beyond 146 years are damage: what is later counts as then.
inline constexpr std::uint64_t kLatestBinNs = std::uint64_t{1} << 62;

/// Amounts that happened at times, such as bytes, summed up by time.
///
/// Bins are of equal width; as soon as a time lies behind the last bin, neighbours are added
/// together and the width doubles. The sum over all bins is the sum of what was added, to within
/// what a double holds. Times need no order. Amortised O(1) for each amount, and O(bins that it
/// covers).
class BinnedSums {
 public:
  /// REQUIRES: most_bins is even and at least 2.
  explicit BinnedSums(std::size_t most_bins) : most_bins_(most_bins) {}

  void add(std::uint64_t time, double amount);
  /// Adds `amount` in equal parts between `begin` and `end`; at `begin` if that is not before
  /// `end`.
  void spread(std::uint64_t begin, std::uint64_t end, double amount);
  /// Makes bins up to and with the one that `end` lies in.
  void cover(std::uint64_t end);

  /// In nanoseconds.
  [[nodiscard]] std::uint64_t width() const { return width_; }
  [[nodiscard]] std::span<const double> bins() const { return bins_; }

 private:
  std::size_t most_bins_;
  std::uint64_t width_ = kFirstBinNs;
  std::vector<double> bins_;
};

/// A level that changes at times, such as memory in use, by time: of each bin the least, the most
/// and the mean. Nothing that was set is lost to the least and the most, however often the width
/// doubled. The level is 0 before it is first set. Otherwise as BinnedSums.
class BinnedLevel {
 public:
  struct Bin {
    std::uint64_t least = 0;
    std::uint64_t most = 0;
    double integral = 0;  ///< of the level over time, in its unit times nanoseconds
  };

  /// REQUIRES: most_bins is even and at least 2.
  explicit BinnedLevel(std::size_t most_bins) : most_bins_(most_bins) {}

  /// The level is `value` from `time` on. A time before the last one counts as the last one: events
  /// of different threads come nearly in order.
  void set(std::uint64_t time, std::uint64_t value);
  /// The level stays as it is until `end`: makes bins up to and with the one that `end` lies in.
  void cover(std::uint64_t end);

  [[nodiscard]] std::uint64_t value() const { return value_; }
  /// The highest value so far, and when it was first reached.
  [[nodiscard]] std::uint64_t peak() const { return peak_; }
  [[nodiscard]] std::uint64_t peak_time() const { return peak_time_; }
  /// In nanoseconds.
  [[nodiscard]] std::uint64_t width() const { return width_; }
  [[nodiscard]] std::span<const Bin> bins() const { return bins_; }

 private:
  void halve();

  std::size_t most_bins_;
  std::uint64_t width_ = kFirstBinNs;
  std::uint64_t time_ = 0;  ///< up to which the bins are right
  std::uint64_t value_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t peak_time_ = 0;
  std::vector<Bin> bins_;
};

}  // namespace superpipe::cli
