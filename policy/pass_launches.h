// The launches of one recorded pass: what the windowed bound of a run is computed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/launch_sequence.h"
#include "policy/layer_grouping.h"
#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe {

/// Which persistent buffers each launch of a pass named, and how many bytes it named in all.
///
/// Keeps sizes, and nothing of the buffers themselves: it stays true when the program has freed
/// them. Takes four bytes for each access, twenty for each launch and eight for each buffer.
/// Immutable, so that threads may share it.
class PassLaunches {
 public:
  /// `pass`: its launches, in order. `persistent`: the footprint of each persistent buffer by id,
  /// zero for all others. `footprints`: the same of all buffers; those that are transient tell only
  /// how much a launch computes. Neither is retained. O(accesses + buffers).
  PassLaunches(std::span<const LaunchRecord> pass, std::span<const Bytes> persistent,
               std::span<const Bytes> footprints);

  /// How many launches there are.
  [[nodiscard]] std::size_t size() const { return named_.size(); }

  /// How many accesses to persistent buffers there are.
  [[nodiscard]] std::size_t accesses() const { return buffers_.size(); }

  /// The bytes of all persistent buffers that the pass names.
  [[nodiscard]] Bytes persistent_bytes() const;

  /// The most that transient buffers take at once, each from the first launch of the pass that
  /// names it to the last. An id that serves for two buffers in the pass counts as one.
  [[nodiscard]] Bytes transient_peak() const { return transient_peak_; }

  /// The footprint of each persistent buffer that the pass names, by its number in
  /// estimated_launches(). Valid as long as this object.
  [[nodiscard]] std::span<const Bytes> buffer_bytes() const { return buffer_bytes_; }

  /// The bytes of each layer that group_layers() finds in it, in order of first access. Cost as
  /// group_layers().
  [[nodiscard]] std::vector<Bytes> layer_bytes() const;

  /// The launches, which compute for `compute` together, each for as long as is estimated: 3 us, or
  /// its even share where that is less, and of the rest a share in proportion to the bytes that it
  /// names, as kernels take that read each byte once.
  ///
  /// So the sum is right and the distribution is a guess: a product of matrices with many rows
  /// computes longer than it says, and an optimizer's step for less time. A bound that is computed
  /// from it cannot be trusted further than that where compute and link take about as long; where
  /// either of them takes most of the pass it hardly matters which of them computes. Refers to this
  /// object. O(launches).
  [[nodiscard]] std::vector<TimedLaunch> estimated_launches(Seconds compute) const;

 private:
  /// The persistent buffers of `launch`, which begin where those of the one before end.
  [[nodiscard]] std::span<const BufferId> buffers_of(std::size_t launch) const {
    const std::size_t begin = launch == 0 ? 0 : ends_[launch - 1];
    return std::span(buffers_).subspan(begin, ends_[launch] - begin);
  }

  std::vector<KernelId> kernels_;    // by launch
  std::vector<Bytes> named_;         // by launch: of all buffers that it names
  std::vector<BufferId> buffers_;    // of all launches, numbered in order of first access
  std::vector<std::uint32_t> ends_;  // of each launch's buffers in buffers_
  std::vector<Bytes> buffer_bytes_;  // by those numbers
  Bytes transient_peak_;
};

}  // namespace superpipe
