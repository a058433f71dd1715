// How long launches take when AutoPolicy moves pieces: a simulation, without residency.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/timing_model.h"
#include "policy/units.h"

namespace superpipe::testing {

/// A device with room for some pieces, one link to it and one engine that computes, and a host that
/// announces a launch when the one before it begins.
///
/// A launch begins when its predecessor has ended and all pieces of its buffers have arrived. The
/// link brings one piece after the other: what a launch waits for first, and while no launch waits,
/// what the policy asks for. What goes takes no time (it is clean), and may not go while one of the
/// last two launches names it. Deterministic.
class PieceSimulation {
 public:
  static constexpr Bytes kPiece = 8_MiB;

  /// A device of `room` bytes, and a link.
  PieceSimulation(Bytes room, Bandwidth host_to_device)
      : room_(room.count() / kPiece.count()), link_(host_to_device) {}

  /// A buffer whose content is on the host.
  BufferId allocate(Bytes bytes);
  /// A buffer that is written on the device: it is there at once. REQUIRES: there is, or can be,
  /// room.
  BufferId make(Bytes bytes);
  void free(BufferId id);
  /// A launch on `stream` that computes for `compute`, behind all before it. REQUIRES: its buffers
  /// fit into the room.
  void launch(std::uint64_t kernel, const std::vector<BufferId>& buffers, Seconds compute,
              std::uint8_t stream = 0);

  /// When the last launch ends.
  [[nodiscard]] Seconds end() const { return end_; }
  /// Bytes brought so far.
  [[nodiscard]] Bytes brought() const { return brought_; }
  /// Whether pieces were ever more than the room.
  [[nodiscard]] bool exceeded() const { return exceeded_; }
  [[nodiscard]] const AutoPolicy& policy() const { return policy_; }

 private:
  struct Buffer {
    std::uint32_t pieces = 0;
    std::uint32_t there = 0;
    Bytes bytes;
  };

  [[nodiscard]] bool is_in_use(BufferId id) const;
  bool find_room(std::uint64_t before);
  void place(BufferId id);
  void bring(BufferId id);
  void bring_ahead(Seconds until);

  const std::uint64_t room_;  ///< pieces
  const Bandwidth link_;
  AutoPolicy policy_;
  std::vector<Buffer> buffers_;  ///< by id
  std::vector<BufferId> free_ids_;
  std::vector<BufferId> running_;    ///< buffers of the last launch
  std::vector<BufferId> finishing_;  ///< buffers of the one before
  std::uint64_t there_ = 0;
  bool exceeded_ = false;
  Bytes brought_;
  Seconds link_free_{};
  Seconds begin_{};  ///< of the last launch
  Seconds end_{};
};

}  // namespace superpipe::testing
