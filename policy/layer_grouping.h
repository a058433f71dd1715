// Which persistent buffers belong together: layers, from the launches of one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/units.h"

namespace superpipe {

/// One launch of a recorded pass: its kernel and the buffers it named. Not owned.
struct LaunchRecord {
  KernelId kernel;
  std::span<const BufferId> buffers;
};

/// `count` consecutive copies of `period` tokens, from `begin` on.
struct TandemRepeat {
  std::size_t begin = 0;
  std::size_t period = 0;
  std::size_t count = 0;

  [[nodiscard]] std::size_t coverage() const { return period * count; }
};

/// The tandem repeat (count >= 2) that covers the most tokens; the smallest period, then the
/// earliest, on a tie. Pure. O(n * min(n, 512)).
/// @return nullopt if nothing is repeated.
[[nodiscard]] std::optional<TandemRepeat> find_tandem_repeat(std::span<const std::uint64_t> tokens);

/// The layers of a pass, and what belongs to none.
struct LayerGroups {
  std::vector<std::vector<BufferId>> layers;  ///< in order of first access; none is empty
  std::vector<BufferId> shared;               ///< named by launches of more than two layers
};

/// Groups the persistent buffers that the launches of one pass name into layers (docs/design.md,
/// "Layers and policies").
///
/// In order of first access, with (kernel, footprint, ordinal in the launch) as a token, the tandem
/// repeat of the largest coverage is sought: each of its repetitions is one layer. A buffer outside
/// it that a launch names together with buffers of exactly one layer joins that layer (gradients,
/// optimizer states). What is left is searched for further repeats. A stretch of buffers that then
/// lies before, between or behind repetitions belongs to the layer before it, or at first behind
/// it, if it has fewer buffers (an embedding, a head); else it is layers of its own, no larger than
/// repetitions. If repetitions hold less than half of the bytes, the layers are contiguous runs of
/// about equal bytes instead. A buffer that launches of more than two layers name (a workspace, a
/// global scale), or that is used alone after each of them, is shared.
///
/// `pass`: the launches in order. `footprints`: indexed by buffer id; a buffer of zero bytes, or
/// beyond the end, is not persistent and is ignored. Pure. O(launches' buffers + n * min(n, 512))
/// for n persistent buffers.
[[nodiscard]] LayerGroups group_layers(std::span<const LaunchRecord> pass,
                                       std::span<const Bytes> footprints);

/// In tables of layers by buffer: no layer.
inline constexpr std::uint32_t kNoLayer = ~std::uint32_t{0};

/// Adds up how many bytes a launch names of each layer, to tell to which one it belongs. Keeps its
/// table from launch to launch. Not thread-safe.
class LayerShares {
 public:
  /// The launch names a buffer of `layer`, of `bytes` bytes. Amortised O(1), with a table as long
  /// as there are layers.
  void add(std::uint32_t layer, Bytes bytes);

  /// The layer of which the launch names the most bytes, the lowest on a tie; kNoLayer if it names
  /// none. The next add() is of another launch. O(calls of add() since the last launch).
  [[nodiscard]] std::uint32_t take_home();

 private:
  std::vector<Bytes> bytes_;          // by layer; zero between launches
  std::vector<std::uint32_t> named_;  // layers of the present launch
};

}  // namespace superpipe
