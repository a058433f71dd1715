#include "tools/simgpu/driver/launch/occupancy.h"

#include <algorithm>

namespace simgpu {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterGranule = 256;  // registers are given to a warp in steps of this
constexpr std::size_t kSharedGranule = 128;

int blocks_by_threads(const BlockDemand& demand, const MultiprocessorLimits& limits) {
  if (demand.threads < 1 || demand.threads > limits.threads_per_block) return 0;
  const int warps = (demand.threads + kWarp - 1) / kWarp;
  int blocks = std::min(limits.blocks, limits.threads / (warps * kWarp));
  if (demand.registers > 0) {
    const int per_warp =
        (demand.registers * kWarp + kRegisterGranule - 1) / kRegisterGranule * kRegisterGranule;
    blocks = std::min(blocks, limits.registers / per_warp / warps);
  }
  return blocks;
}

}  // namespace

int resident_blocks(const BlockDemand& demand, const MultiprocessorLimits& limits) {
  const int blocks = blocks_by_threads(demand, limits);
  const std::size_t shared =
      (demand.shared_bytes + static_cast<std::size_t>(limits.reserved_shared_bytes) +
       kSharedGranule - 1) /
      kSharedGranule * kSharedGranule;
  const std::size_t by_shared = static_cast<std::size_t>(limits.shared_bytes) / shared;
  return static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(blocks), by_shared));
}

std::size_t shared_bytes_for(int blocks, const BlockDemand& demand,
                             const MultiprocessorLimits& limits) {
  if (blocks < 1 || blocks > blocks_by_threads(demand, limits)) return 0;
  const int each = limits.shared_bytes / blocks / static_cast<int>(kSharedGranule) *
                   static_cast<int>(kSharedGranule);
  return static_cast<std::size_t>(std::max(each - limits.reserved_shared_bytes, 0));
}

}  // namespace simgpu
