// The layers of the passes that a replay has seen, and how much they and the launches take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "policy/buffer_history.h"
#include "policy/live_pass.h"
#include "policy/pass_order.h"
#include "policy/policy_engine.h"
#include "policy/stream_replays.h"
#include "policy/units.h"

namespace superpipe {

/// Looks for layers in passes that are over.
///
/// The layers are those of a pass that the replay has seen (order_of(LivePass)). They are looked
/// for again when passes or launches have become twice as many, and when the replay has lost its
/// place: soon at first, and less and less often as long as that shows no others. A pass in which
/// the place was lost is no whole one, and is looked at only where no other comes. A pass with less
/// than half of the bytes of the layers that are known is passed over, and one that is a layer of
/// the first pass, and names mostly what was never named before. Layers of which less than half is
/// live as a pass begins are forgotten, and looked for as at first. Pure, not thread-safe.
class LayerFinder {
 public:
  /// A buffer of `footprint` bytes exists from now on.
  void on_allocate(Bytes footprint);
  /// A buffer of `footprint` bytes is gone. O(1).
  void on_free(BufferId id, Bytes footprint);

  /// What a launch changed.
  enum class Change {
    kNothing,
    kConfirmed,  ///< the same layers as before; besides() may be another
    kFound,      ///< other layers than before, or none before
    kForgotten,  ///< none are known any more
  };
  /// A launch that names `need` bytes was announced; `replay` and `history` have it already. O(1),
  /// and where layers are looked for as group_layers() and LaunchReplay::pass().
  [[nodiscard]] Change on_launch(const StreamReplays& replay, const BufferHistory& history,
                                 Bytes need);

  /// How many layers are known; 0: none are. O(1).
  [[nodiscard]] std::size_t count() const { return bytes_.size(); }
  /// The bytes of each layer when it was found, in order of first access.
  [[nodiscard]] const std::vector<Bytes>& bytes() const { return bytes_; }
  /// Layers, and the visits of a pass; without buffers that are gone as of drop_gone().
  [[nodiscard]] const PassOrder& order() const { return order_; }
  /// Counts the buffers of layers that have gone, so that it tells whether order() has changed.
  [[nodiscard]] std::uint64_t gone() const { return gone_; }
  /// Takes the buffers that are gone out of order(). O(buffers of layers and visits).
  void drop_gone();
  /// What the pass that was looked at needed beside its layers.
  [[nodiscard]] Bytes besides() const { return besides_; }
  /// The layer of a buffer; kNoLayer: none. O(1).
  [[nodiscard]] std::uint32_t layer_of(BufferId id) const {
    return index_of(id) < layer_of_.size() ? layer_of_[index_of(id)] : kNoLayer;
  }
  /// The same; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> found_layer_of(BufferId id) const {
    const std::uint32_t layer = layer_of(id);
    return layer == kNoLayer ? std::nullopt : std::optional<std::size_t>(layer);
  }

  /// Says in `learned` which layers are known; nothing if none are.
  void tell(PolicyEngine::Learned& learned) const;

  /// The bytes that `k` layers need, of which `scheduled` are known and take `bytes`: no less than
  /// the largest launch, and more where there are not k layers yet, since larger ones may come.
  [[nodiscard]] Bytes need_of(int k, std::size_t scheduled, Bytes bytes) const;

 private:
  /// When the layers were looked for last, and when they are looked for next, in passes.
  struct Looks {
    std::size_t last = 0;  ///< how many passes there were then
    std::size_t next = 1;  ///< how many there have to be
    std::size_t wait = 1;  ///< from the next look to the one after it
    /// Or so many launches.
    std::uint64_t launches = std::numeric_limits<std::uint64_t>::max();
    std::size_t patience = 1;              ///< from the last look to one because the place was lost
    std::optional<std::size_t> due_since;  ///< so many passes: since then it waits for a whole one
    std::uint64_t jumps = 0;               ///< the replay's, by the last look
  };

  [[nodiscard]] Change on_pass_start(const StreamReplays& replay, const BufferHistory& history);
  void forget(const StreamReplays& replay, const BufferHistory& history);
  void note_look(const StreamReplays& replay, bool because_of_jump);
  [[nodiscard]] Change look(const LivePass& pass, Bytes used);

  std::uint64_t pass_began_ = 0;  ///< the last launch that opened a pass
  std::uint64_t jumps_then_ = 0;  ///< the replay's, by that launch
  Looks looks_;
  PassOrder order_;
  std::vector<Bytes> bytes_;             ///< by layer; empty: none are known
  std::vector<std::uint32_t> layer_of_;  ///< by buffer
  Bytes all_;                            ///< of all layers
  Bytes live_;                           ///< of their buffers that are live
  Bytes besides_;
  std::uint64_t gone_ = 0;
  Bytes present_need_;    ///< of the present launch
  Bytes need_of_pass_;    ///< of the largest launch since a pass began
  Bytes largest_need_;    ///< of the largest launch of that pass and since the last look
  Bytes largest_buffer_;  ///< that came since other layers were found, or of all
};

}  // namespace superpipe
