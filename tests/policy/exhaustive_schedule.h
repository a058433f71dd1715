// The best schedule there is, by trying all of them: what bounds and reference figures of small
// programs are tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/launch_sequence.h"
#include "policy/units.h"

namespace superpipe {

/// A launch for the exhaustive search.
struct SmallLaunch {
  int compute = 0;  ///< seconds
  std::vector<BufferId> buffers;
};

/// A program that is small enough. Its buffers consist of pieces, which are moved one by one.
struct SmallProgram {
  std::vector<int> pieces;  ///< by buffer; at most 10 together
  std::vector<SmallLaunch> launches;
};

/// The first buffers of a program, to write one down with.
inline constexpr BufferId kFirst{0};
inline constexpr BufferId kSecond{1};
inline constexpr BufferId kThird{2};

/// One piece, for bounds: divisible by every small number, so that means are whole bytes.
inline constexpr Bytes kPiece{720720};
/// One piece in a second.
inline constexpr Bandwidth kOnePiecePerSecond{720720.0};

/// `program` as the policy layer sees it. REQUIRES: `program` outlives it.
class SmallSequence {
 public:
  explicit SmallSequence(const SmallProgram& program);
  /// Valid as long as this.
  [[nodiscard]] LaunchSequence get() const { return {launches_, buffer_bytes_}; }

 private:
  std::vector<TimedLaunch> launches_;
  std::vector<Bytes> buffer_bytes_;
};

/// How many pieces the device holds: `fit`, or the largest working set where that is more.
[[nodiscard]] int device_pieces(const SmallProgram& program, int fit);

/// The least seconds in which any schedule runs `program`, from the best content of the device on.
///
/// Time goes in seconds. In each second a launch whose pieces are all there may start or wait, the
/// running one goes on, and the link is idle or brings one piece, for which another is evicted
/// where there is no room. The pieces of the running launch stay. A piece takes its room from the
/// beginning of its second. Exponential in the pieces.
[[nodiscard]] int least_time(const SmallProgram& program, int fit);

/// The least mean seconds of a pass when `pass` is repeated without end: the least mean of a cycle
/// among the contents that the device can have when a pass ends (Karp, Discrete Mathematics 23,
/// 1978). REQUIRES: `pass` has a launch.
[[nodiscard]] double least_time_per_pass(const SmallProgram& pass, int fit);

/// The fewest pieces that any schedule fetches, from an empty device on.
[[nodiscard]] int fewest_fetches(const SmallProgram& program, int fit);

/// The least mean pieces of a pass when `pass` is repeated without end. REQUIRES: as above.
[[nodiscard]] double fewest_fetches_per_pass(const SmallProgram& pass, int fit);

}  // namespace superpipe
