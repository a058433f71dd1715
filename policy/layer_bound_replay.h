// `superpipeline`: the replay's transfers, in the room that k layers take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/policy_engine.h"
#include "policy/pull_policies.h"
#include "policy/units.h"

namespace superpipe {

/// Bounds how many bytes may be on the device by what k layers take, and leaves to the replay of
/// `auto` which pieces those are. So what fits stays from pass to pass, and only the rest moves.
/// With a budget and no k the budget is the bound, and k tells how many layers fit into it.
///
/// The layers are those of a pass that the replay has seen (layers_of(LivePass)). They are looked
/// for again when passes have become twice as many, and when the replay has lost its place: soon at
/// first, and less and less often as long as that shows no others. A pass in which the place was
/// lost is no whole one, and is looked at only where no other comes. A pass with less than half of
/// the bytes of the layers that are known is passed over. Layers of which less than half is live as
/// a pass begins are forgotten, and looked for as at first.
class LayerBoundReplay final : public ReplayPolicy {
 public:
  /// REQUIRES: as PolicyEngine.
  explicit LayerBoundReplay(const PolicyConfig& config) : k_(config.k) {}

  void on_allocate(BufferId id, Bytes footprint, std::uint32_t pieces) override;
  void on_free(BufferId id) override;
  /// As ReplayPolicy's. Where layers are looked for, the cost is that of group_layers() and of
  /// LaunchReplay::pass().
  [[nodiscard]] Decision on_launch(const Access& access) override;
  [[nodiscard]] PolicyEngine::Learned learned() const override;
  [[nodiscard]] PolicyEngine::Outline outline() const noexcept override;
  [[nodiscard]] std::optional<std::size_t> layer_of(BufferId id) const noexcept override;
  [[nodiscard]] Bytes managed_limit() const override;

 private:
  struct Layers {
    std::vector<Bytes> bytes;              ///< in order of first access; empty: none are known
    std::vector<std::uint32_t> by_buffer;  ///< kNoLayer: in none, or gone
    Bytes all;                             ///< of all of them
    Bytes live;                            ///< of their buffers that are live
    Bytes besides;                         ///< what a pass needs beside them
  };
  /// When the layers were looked for last, and when they are looked for next, in passes.
  struct Looks {
    std::size_t last = 0;      ///< how many passes there were then
    std::size_t next = 1;      ///< how many there have to be
    std::size_t wait = 1;      ///< from the next look to the one after it
    std::size_t patience = 1;  ///< from the last look to one because the place was lost
    std::uint64_t jumps = 0;   ///< the replay's, by the last look
  };

  void on_pass_start();
  void forget_layers();
  void look_for_layers(std::uint64_t begin, std::uint64_t end);
  void schedule();

  std::optional<int> k_;
  std::uint64_t pass_began_ = 0;  ///< the last launch that opened a pass
  std::uint64_t jumps_then_ = 0;  ///< the replay's, by that launch
  Looks looks_;
  Layers layers_;
  std::size_t scheduled_k_ = 0;  ///< k, or how many layers fit; 0 while the layers are unknown
  Bytes bytes_of_k_;             ///< of so many layers
  Bytes scheduled_for_;          ///< what there was to take then
  Bytes present_need_;           ///< of the present launch
  Bytes need_of_pass_;           ///< of the largest launch since a pass began
  Bytes largest_need_;           ///< of the largest launch of that pass and since the last look
  Bytes largest_buffer_;         ///< that came since other layers were found, or of all
};

}  // namespace superpipe
