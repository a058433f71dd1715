// What two runs are compared by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace superpipe::cli {

enum class Quantity : std::uint8_t {
  kPassTime,
  kStallTime,
  kLaunchWait,
  kDeviceWait,
  kCopyWait,
  kToDevice,
  kToHost,
  kFetches,
  kDemandFetches,
  kEvictions,
  kWriteBacks,
  kCopiedIn,
  kCopiedOut,
  kLinkToDevice,
  kLinkToHost,
  kPeakDevice,
  kPinnedHost,
  kManaged,
  kPassthrough,
  kBudget,
  kLaunches,
  kAllocations,
  kErrors,
  kDroppedEvents,
};

inline constexpr std::size_t kQuantities = static_cast<std::size_t>(Quantity::kDroppedEvents) + 1;

/// What a quantity is called, counted in, and which way it is worse.
struct QuantityKind {
  enum class Unit : std::uint8_t { kMilliseconds, kBytes, kCount, kGigabytesPerSecond };
  enum class Worse : std::uint8_t { kMore, kLess, kNeither };

  Quantity id{};
  std::string_view name;   ///< as statistics have it where they have it; --fail-above takes it
  std::string_view label;  ///< in a table
  Unit unit{};
  Worse worse{};
  bool is_sum = false;  ///< grows with the length of a run

  /// Whether --fail-above can limit it.
  [[nodiscard]] bool can_be_limited() const { return worse == Worse::kMore; }
};

/// All of them, in the order of a table.
[[nodiscard]] const std::array<QuantityKind, kQuantities>& all_quantities();
[[nodiscard]] const QuantityKind& kind_of(Quantity quantity);
/// nullptr: there is no such name.
[[nodiscard]] const QuantityKind* find_quantity(std::string_view name);

/// A quantity as it was measured: once, or as the median of several passes.
struct Measured {
  double value = 0;
  /// Where the median lies with 95 % confidence; of less than six passes, the least and the most.
  /// Not known of less than two.
  struct Spread {
    double low = 0;
    double high = 0;
  };
  std::optional<Spread> spread;
};

/// The median of `passes` and its spread, by order statistics: passes are taken to be
/// independent, and to have any distribution. Pure.
/// REQUIRES: !passes.empty(). O(n log n).
/// Source: Conover, Practical Nonparametric Statistics, the confidence interval of a quantile;
/// exact for up to 1000 passes, and by the normal approximation for more.
[[nodiscard]] Measured median_of(std::vector<double> passes);

}  // namespace superpipe::cli
