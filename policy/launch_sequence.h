// Launches in order with their compute times: what bounds and reference figures are computed from.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe {

/// One launch: what it computes and which buffers it names. Not owned.
struct TimedLaunch {
  Seconds compute{};                  ///< with all its buffers on the device
  std::span<const BufferId> buffers;  ///< in any order; one that is named twice counts once
  /// Those of `buffers` whose content begins with this launch, whatever they had before.
  std::span<const BufferId> makes{};
};

/// Launches that run one after another, each when the one before it has ended. Not owned.
///
/// Content that no launch of the sequence makes comes from the host. Where a caller does not know
/// which launches make which transient buffers, these have zero bytes here, and the caller takes
/// what they need off the device bytes; reference figures (reference_traffic.h) know no others.
struct LaunchSequence {
  std::span<const TimedLaunch> launches;
  std::span<const Bytes> buffer_bytes;  ///< by buffer id; zero for ids beyond the end
};

/// The working sets of a sequence: for each launch the buffers that it names, each once, without
/// those of zero bytes. Owns its tables; `sequence` is not retained.
class WorkingSets {
 public:
  /// O(accesses + buffers).
  explicit WorkingSets(const LaunchSequence& sequence);

  /// How many launches there are.
  [[nodiscard]] std::size_t launches() const { return bytes_.size(); }

  /// The buffers of `launch`, in the order in which it names them first. O(1).
  [[nodiscard]] std::span<const BufferId> buffers(std::size_t launch) const {
    return std::span{buffers_}.subspan(begins_[launch], begins_[launch + 1] - begins_[launch]);
  }

  /// The position of the first buffer of `launch` in a table with one row per access. O(1).
  [[nodiscard]] std::size_t first_access(std::size_t launch) const { return begins_[launch]; }

  /// Whether the launch of an access makes the buffer that it names. `access`: a row of the table
  /// of first_access(). O(1).
  [[nodiscard]] bool makes(std::size_t access) const { return makes_[access]; }

  /// The bytes of all buffers of `launch` together. O(1).
  [[nodiscard]] Bytes bytes(std::size_t launch) const { return bytes_[launch]; }

  /// How many accesses there are.
  [[nodiscard]] std::size_t accesses() const { return buffers_.size(); }

  /// The bytes of the largest working set: with less on the device, some launch cannot run.
  [[nodiscard]] Bytes largest() const { return largest_; }

 private:
  std::vector<BufferId> buffers_;
  std::vector<bool> makes_;             // by access
  std::vector<std::size_t> begins_{0};  // of each launch's buffers in buffers_, and the end
  std::vector<Bytes> bytes_;
  Bytes largest_;
};

}  // namespace superpipe
