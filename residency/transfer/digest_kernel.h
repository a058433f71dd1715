// The kernel that digests device memory: what its launches and the kernel agree on.
//
// digest_kernel.cu has the kernel, which computes what digest_of() does on the host; digest_image.h
// has it compiled. interposer/kernel_plugin.cc stands for it on a simulated device.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "residency/content_digest.h"

namespace superpipe {

/// The kernel's name in its image.
inline constexpr char kDigestKernel[] = "superpipe_digest";
/// Threads of a block, all in x.
inline constexpr unsigned kDigestThreads = 256;
/// The most blocks of a launch, all in x.
inline constexpr unsigned kDigestMaximumBlocks = kMostDigestParts;
/// Blocks for each multiprocessor: four have 64 KiB of reads under way, twice what fills the time
/// that a read takes, and leave half of the threads to the program's kernels.
inline constexpr unsigned kDigestBlocksPerMultiprocessor = 4;
/// The address of the content is a multiple of so many bytes.
inline constexpr std::size_t kDigestAlignment = 16;

/// The kernel's parameters, in their order. Addresses are the device's. With the key among them a
/// digest needs no device memory.
struct DigestParameters {
  std::uint64_t content;  ///< a multiple of kDigestAlignment
  std::uint64_t size;     ///< of the content in bytes, not 0; nothing behind it is read
  DigestKey key;
  std::uint64_t parts;  ///< of DigestParts, a part for each block; may be pinned host memory

  /// What cuLaunchKernel takes. Points into this.
  [[nodiscard]] std::array<void*, 4> pointers() { return {&content, &size, &key, &parts}; }
};
static_assert(sizeof(DigestParameters) <= 4096, "the most that all drivers take");

/// How many blocks digest `size` bytes on a device of so many multiprocessors: at least 1, at most
/// kDigestMaximumBlocks. REQUIRES: size > 0.
[[nodiscard]] inline unsigned digest_blocks(std::uint64_t size, unsigned multiprocessors) {
  // A warp takes a chunk at a time.
  constexpr std::uint64_t kBytesOfBlock =
      kDigestThreads / 32 * kDigestChunkWords * sizeof(std::uint32_t);
  const std::uint64_t most = std::min<std::uint64_t>(
      std::uint64_t{kDigestBlocksPerMultiprocessor} * multiprocessors, kDigestMaximumBlocks);
  const std::uint64_t useful = (size + kBytesOfBlock - 1) / kBytesOfBlock;
  return static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(useful, most)));
}

}  // namespace superpipe
