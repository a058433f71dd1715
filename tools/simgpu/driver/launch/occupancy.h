// How many blocks of a kernel a multiprocessor holds.
#pragma once

#include <cstddef>

namespace simgpu {

/// What one multiprocessor offers. Source: CUDA programming guide, technical specifications per
/// compute capability, 9.0.
struct MultiprocessorLimits {
  int threads = 2048;
  int blocks = 32;
  int registers = 65536;
  int shared_bytes = 233472;
  int reserved_shared_bytes = 1024;  ///< per block, for the system
  int threads_per_block = 1024;
};

/// What one block of a kernel takes.
struct BlockDemand {
  int threads = 1;               ///< at least 1
  int registers = 0;             ///< per thread; 0: unknown, not a limit
  std::size_t shared_bytes = 0;  ///< static and dynamic
};

/// Blocks that a multiprocessor runs at the same time; 0 if not even one fits. Pure.
[[nodiscard]] int resident_blocks(const BlockDemand& demand,
                                  const MultiprocessorLimits& limits = {});

/// The most shared memory a block can have, in bytes, if `blocks` blocks of `threads` threads are
/// to fit; 0 if they do not fit anyway. Pure.
[[nodiscard]] std::size_t shared_bytes_for(int blocks, const BlockDemand& demand,
                                           const MultiprocessorLimits& limits = {});

}  // namespace simgpu
