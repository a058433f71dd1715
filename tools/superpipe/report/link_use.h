// How a direction of the link was used over time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "policy/units.h"
#include "tools/superpipe/report/binned_series.h"

namespace superpipe::cli {

/// The bytes that transfers of one direction carried, by time.
///
/// Transfers run one after another, in the order of their numbers. A trace says when each was
/// enqueued and when it was seen to have ended: it is taken to have run from the moment when it was
/// enqueued, or the one before it had ended, until then. Ends that are seen in one look (kLookNs)
/// share the time up to it. The sum over all bins is bytes().
class LinkUse {
 public:
  explicit LinkUse(std::size_t most_bins) : carried_(most_bins) {}

  void enqueue(std::uint64_t number, std::uint64_t time, Bytes size);
  /// Transfer `number`, and all before it, had ended by `time`. @return false: it is none of those
  /// under way here.
  bool end(std::uint64_t number, std::uint64_t time);
  /// After all events. Transfers whose end was not told count where they were enqueued.
  void finish(std::uint64_t time);

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// How long at least one transfer was under way, in nanoseconds.
  [[nodiscard]] std::uint64_t busy() const { return busy_; }
  /// In bytes.
  [[nodiscard]] const BinnedSums& carried() const { return carried_; }

  /// Ends that are seen less than this apart were seen in one look.
  static constexpr std::uint64_t kLookNs = 20'000;
  /// More transfers than this are never under way: what is older has ended unseen.
  static constexpr std::size_t kMostUnderWay = 65'536;

 private:
  struct Transfer {
    std::uint64_t number = 0;
    std::uint64_t enqueued = 0;
    std::uint64_t bytes = 0;
  };
  void spread_ended();

  BinnedSums carried_;
  std::deque<Transfer> under_way_;  ///< by number
  Bytes bytes_;
  std::uint64_t busy_ = 0;
  // What has ended in the last look.
  bool has_ended_ = false;
  std::uint64_t ended_bytes_ = 0;
  std::uint64_t began_ = 0;      ///< the first of them
  std::uint64_t look_ = 0;       ///< the last of them ended
  std::uint64_t free_from_ = 0;  ///< when all before them had ended
};

}  // namespace superpipe::cli
