// How long a pass took, and the least time that it could have taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "profiler/run_figures.h"

namespace superpipe {

/// The median pass, and what it could have been. Times in milliseconds.
///
/// A median is over launches: passes of half of them take no longer. So what seems to repeat while
/// a program's real pass is not known, or within it, does not count for much, nor does a pass in
/// which the program waited for its user.
struct PassTimes {
  double pass_ms = 0;        ///< 0 if no pass was seen
  double pass_launches = 0;  ///< that policy was told of in such a time, at the median rate
  double stall_ms = 0;       ///< of that, how long launches waited for fetches
  /// The physical bound; nullopt if no pass was seen, if its launches are not known, or if not all
  /// fits and the link was never measured.
  std::optional<double> bound_ms;
  /// The windowed bound, at least `bound_ms`; nullopt if that is, or if the pass has more than
  /// 131,072 launches or two million accesses.
  std::optional<double> windowed_bound_ms;
  /// The share of `stall_ms`, in [0, 1], that neither bound explains; nullopt without stalls or
  /// bounds.
  std::optional<double> avoidable_stall_share;
  /// How many passes were about as long, in launches, as the median one. Of those that are not
  /// remembered any more, the same share is taken to have been.
  std::uint64_t passes = 0;
};

/// How many launches the median pass has: half of all launches are in passes that have no more. 0
/// without passes. Pure, except that it allocates: throws std::bad_alloc.
[[nodiscard]] std::uint64_t median_launches(std::span<const MeasuredPass> passes);

/// Whether `pass` has about as many launches as a median pass, which has `median`. Before a
/// program's real pass is known, what repeats within it is measured as passes of a few launches.
[[nodiscard]] bool is_about_as_long(const MeasuredPass& pass, std::uint64_t median);

/// The pass that stands for all: of the passes that qualify, the one that took most nearly the
/// median time of all. A pass qualifies if none of its launches, nor of as many before them, is
/// before `first_remembered`. Pure, except that it allocates: throws std::bad_alloc. @return
/// nullopt if there is none, or none that took about as long.
[[nodiscard]] std::optional<MeasuredPass> typical_pass(std::span<const MeasuredPass> passes,
                                                       std::uint64_t first_remembered);

/// The least time, in milliseconds, that `pass` could have taken, as far as it is cheap to tell:
/// max(its time without stalls, (W - `limit` - `padding`) / link) for `pass_bytes`, W, the
/// persistent bytes of a pass; 0: not known. `padding`: ResidencyCounters::peak_padding. Below the
/// physical bound of pass_times() by what transients take of the limit. Pure; O(1). @return nullopt
/// if W is not known, or not all fits and the link was never measured.
[[nodiscard]] std::optional<double> least_pass_ms(const MeasuredPass& pass, Bytes pass_bytes,
                                                  Bytes limit, Bytes padding,
                                                  std::optional<double> link_bytes_per_second);

/// The bounds are policy's (docs/design.md, "Layers and policies"), with what the run itself
/// showed:
///
/// - physical_bound(), max(compute, (W - fit) / link). W are the persistent bytes of the pass whose
///   launches are known (PolicyEngine::Learned); fit is the managed limit less the peak of its
///   transients, and all of W under policy `resident`; compute is the median pass without its
///   stalls, so that it contains what the device waits for the program. W counts whole pages, of
///   which what is past the ends of buffers never crosses the link: where not all fits, the most
///   that there was of that (ResidencyCounters::peak_padding) is taken off what has to.
/// - windowed_bound_per_pass() for those launches and the same compute, which
///   PassLaunches::estimated_launches() divides among them. The sum is measured. How much of it
///   each launch computes is an estimate, and so is this bound, as far as compute matters in it.
///
/// Pure, except that it allocates: throws std::bad_alloc. Takes up to 0.2 s for passes of 100,000
/// launches.
[[nodiscard]] PassTimes pass_times(const RunFigures& figures);

}  // namespace superpipe
