// What a program did in an earlier run, up to the end of its first pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// Allocations and launches from the program's beginning to the end of its first pass, as policy
/// saw them. Buffers are numbered in the order of their allocation, each life by itself.
struct RecordedRun {
  struct Launch {
    KernelId kernel{};
    std::uint32_t first = 0;  ///< its buffers in `names`
    std::uint32_t count = 0;
  };

  std::vector<Bytes> footprints;     ///< by buffer
  std::vector<Launch> launches;      ///< those that name managed buffers, in order
  std::vector<std::uint32_t> names;  ///< numbers of buffers; of each launch, each once
  /// Host memory that evictions took until then and that no earlier one had given back: the sizes
  /// of slabs, in the order in which they were needed.
  std::vector<Bytes> slabs;
  /// A piece of a buffer.
  struct PieceOf {
    std::uint32_t buffer = 0;  ///< its number
    std::uint32_t piece = 0;   ///< its number in the buffer, from the first byte on
    bool operator==(const PieceOf&) const = default;
  };
  /// Pieces that the first pass evicted with content that only the device had, in the order of
  /// their evictions; a piece may be among them again.
  std::vector<PieceOf> write_backs;
  std::size_t pass_begin = 0;  ///< the launch that opens the pass which ends with the last

  /// The buffers of a launch, in the order of its arguments. REQUIRES: it is one of `launches`.
  [[nodiscard]] std::span<const std::uint32_t> names_of(const Launch& launch) const {
    return std::span(names).subspan(launch.first, launch.count);
  }
};

/// The slabs that two runs need between them: those of `latest`, and behind them those of `earlier`
/// that are more of their size.
[[nodiscard]] std::vector<Bytes> merged_slabs(std::span<const Bytes> latest,
                                              std::span<const Bytes> earlier);

/// How far a run has followed the one that was recorded.
struct PlanFollowing {
  std::uint64_t recorded = 0;  ///< launches of the recorded run; 0: none was given
  std::uint64_t followed = 0;  ///< launches of this run that were the recorded ones
  bool is_over = false;        ///< it came to the recorded end, and goes on by its own past
  bool is_left = false;        ///< it does something else, and what was recorded is of no use
  std::uint64_t left_at = 0;   ///< the number of the launch at which that was seen

  /// Whether it was left because this is another program, as far as one can tell: not even half of
  /// its launches up to there were as recorded.
  [[nodiscard]] bool is_other_program() const { return is_left && 2 * followed <= left_at; }
  /// Whether more of the recorded run is expected.
  [[nodiscard]] bool goes_on() const { return recorded > 0 && !is_over && !is_left; }
};

}  // namespace superpipe
