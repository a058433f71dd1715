// What `superpipe top` knows of the processes: rates, their history, the order of rows, the choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/superpipe/live_watch.h"

namespace superpipe::cli {

/// How fast counts grew between two looks; each is a number per second.
struct Rates {
  double seconds = 0;       ///< between the looks
  double h2d = 0, d2h = 0;  ///< bytes
  double launches = 0;
  double passes = 0;
  double fetches = 0, evictions = 0;
  double stall = 0;  ///< seconds of waiting per second, added up over streams; may exceed 1
};

/// The rates from `before` to `after`, by the process's own clock. @return nullopt if no time has
/// passed, or a count has become less: then the process began to count anew, or lies.
[[nodiscard]] std::optional<Rates> rates_between(const LiveFigures& before,
                                                 const LiveFigures& after);

/// The latest values of a figure, the oldest first.
class History {
 public:
  /// So many values are kept: as many as the widest bar shows.
  static constexpr std::size_t kLength = 120;

  void add(double value);
  [[nodiscard]] const std::deque<double>& values() const { return values_; }
  /// 0 if there are none.
  [[nodiscard]] double largest() const;

 private:
  std::deque<double> values_;
};

/// One process, as it is shown.
struct TopRow {
  ProcessLook look;
  std::optional<Rates> rates{};  ///< nullopt until two answers are there
  History fetch{};               ///< bytes per second
  History stall{};               ///< Rates::stall
  History pages{};               ///< bytes

  /// How many times as long as its bound the last pass took; nullopt if either is not known.
  [[nodiscard]] std::optional<double> over_bound() const;
};

/// What rows are ordered by. Numbers come the largest first; equal rows, and those of which nothing
/// is known, by process.
enum class TopOrder { kPid, kPages, kFetch, kStall };

/// "process", "pages", "fetch rate", "stall".
[[nodiscard]] std::string_view name_of(TopOrder order);

/// Pure: no clock, no terminal. Not thread-safe.
class TopModel {
 public:
  /// Takes another look; processes that are not in it are forgotten. Figures that are not newer
  /// than the last ones change no rate.
  void update(const std::vector<ProcessLook>& looks);

  /// In order.
  [[nodiscard]] const std::vector<TopRow>& rows() const { return rows_; }
  [[nodiscard]] TopOrder order() const { return order_; }
  void next_order();

  /// The index of the chosen row, 0 if there is none. The choice stays with its process while that
  /// is there.
  [[nodiscard]] std::size_t chosen_index() const { return chosen_; }
  /// Null if there are no rows.
  [[nodiscard]] const TopRow* chosen() const { return rows_.empty() ? nullptr : &rows_[chosen_]; }
  /// Chooses the row `steps` below the chosen one, or above, if negative; stops at the ends.
  void move_choice(int steps);

 private:
  void sort();

  std::vector<TopRow> rows_;
  TopOrder order_ = TopOrder::kPid;
  std::size_t chosen_ = 0;
};

}  // namespace superpipe::cli
