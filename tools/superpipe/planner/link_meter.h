// How fast a traced run's link was, each way, by the transfers in its trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::cli {

/// Estimates how many bytes a second one direction of a link carries.
///
/// Transfers of a direction run one after another. A trace says when each was enqueued and when it
/// was seen to have ended, so one is taken to have run from the moment when it was enqueued, or the
/// one before was seen to end, until its own end was seen. That is too long where it waited for an
/// event, or its end was seen late, and too short where the end before it was. What is measured
/// most is right: the answer is the middle of where speeds lie closest together (Bickel and
/// Frühwirth, "On a fast, robust estimator of the mode", 2006). Not thread-safe.
class LinkMeter {
 public:
  /// Fewer transfers tell nothing.
  static constexpr std::size_t kFewest = 16;
  /// More are not looked at.
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  /// Ends that are seen less than this apart were seen in one look.
  static constexpr double kLookNs = 20'000;

  /// Transfer `number` was enqueued at `time`, in ns. Numbers mostly ascend.
  void enqueue(std::uint64_t number, std::int64_t time, Bytes size);
  /// It, and all before it, were seen to have ended by `time`. Of another direction's nothing is
  /// noted.
  void end(std::uint64_t number, std::int64_t time);
  /// nullopt: fewer than kFewest transfers of a size that counts, half of the largest or more, were
  /// seen to end. The last look does not count yet. O(n log n).
  [[nodiscard]] std::optional<Bandwidth> speed() const;

 private:
  struct Transfer {
    std::uint64_t number = 0;
    std::int64_t enqueued = 0;
    Bytes size;
  };
  struct Sample {
    Bytes largest;  ///< of the transfers whose ends were seen in one look
    double bytes_per_second = 0;
  };
  /// The transfers whose ends are seen in one look.
  struct Look {
    std::int64_t begin = 0;  ///< when the first of them is taken to have begun
    std::int64_t end = 0;    ///< when the last of them was seen
    Bytes bytes;
    Bytes largest;
  };
  /// More are never under way: what is older has ended unseen.
  static constexpr std::size_t kMostUnderWay = 65'536;

  void take_sample();

  std::deque<Transfer> under_way_;
  std::optional<Look> look_;    ///< the last one, to which more may belong
  std::int64_t free_from_ = 0;  ///< when the look before it was
  std::vector<Sample> samples_;
};

}  // namespace superpipe::cli
