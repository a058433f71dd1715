// The free blocks of a memory pool: how they split, merge, and come to be free for everybody.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/streams/stream_order.h"

namespace simgpu {

/// The granularity of a pool's blocks.
inline constexpr std::uint64_t kPoolBlock = 512;

/// Where a block was freed. It is free for everybody once `done` is null.
struct FreePoint {
  StreamPoint point;   ///< the free, in the order of its stream
  CompletionPtr done;  ///< of the free

  [[nodiscard]] bool complete() const { return done == nullptr || done->complete(); }
};

/// What is free of a pool's chunks. Blocks are carved out of chunks, which are never adjacent.
/// Knows addresses only, no memory. Not thread-safe. Every call is O(free blocks).
class PoolBlocks {
 public:
  /// Whether an allocation may use a block that was freed at such a point.
  using Usable = std::function<bool(const FreePoint&)>;

  struct Taken {
    std::uint64_t address = 0;
    bool fresh = false;                  ///< never used since its chunk was added
    std::vector<CompletionPtr> pending;  ///< frees that have not completed
  };
  struct Chunk {
    std::uint64_t base = 0;
    std::uint64_t size = 0;
  };

  /// A new chunk, all of it free for everybody and fresh.
  void add_chunk(Chunk chunk);
  /// Takes `size` bytes out of the smallest run of adjacent blocks that are all usable; of several,
  /// the lowest. REQUIRES a multiple of kPoolBlock.
  std::optional<Taken> take(std::uint64_t size, const Usable& usable);
  /// Gives back what take() gave, freed at `freed`.
  void give_back(std::uint64_t address, std::uint64_t size, FreePoint freed);
  /// Makes the blocks for which `is_free` says so free for everybody; neighbours then merge.
  void free_for_everybody(const Usable& is_free);
  /// The frees that have not completed.
  [[nodiscard]] std::vector<CompletionPtr> pending() const;

  /// The chunks of which no byte is taken, and whose blocks are all usable.
  [[nodiscard]] std::vector<Chunk> idle_chunks(const Usable& usable) const;
  /// Removes one of idle_chunks().
  void remove_chunk(std::uint64_t base);

 private:
  struct Block {
    std::uint64_t size = 0;
    FreePoint freed;
    bool fresh = false;

    [[nodiscard]] bool for_everybody() const { return freed.done == nullptr; }
  };
  using Blocks = std::map<std::uint64_t, Block>;

  /// Takes `size` bytes from the run of blocks that begins at `block`.
  Taken carve(Blocks::iterator block, std::uint64_t size);

  std::map<std::uint64_t, std::uint64_t> chunks_;  ///< base to size
  Blocks blocks_;                                  ///< by address
};

}  // namespace simgpu
