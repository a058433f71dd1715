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
inline constexpr unsigned kDigestMaximumBlocks = 1024;
/// Blocks for each multiprocessor: two have 64 KiB of reads under way, twice what fills the time
/// that a read takes, and leave three quarters of the threads to the program's kernels.
inline constexpr unsigned kDigestBlocksPerMultiprocessor = 2;
/// The address of the content is a multiple of so many bytes.
inline constexpr std::size_t kDigestAlignment = 16;

/// Device memory in which the blocks of a launch put their parts together. All zero before the
/// first launch; afterwards each launch leaves it ready for the next one. Launches that share it
/// must not overlap.
struct DigestScratch {
  std::array<ContentDigest, kDigestMaximumBlocks> parts;
  unsigned blocks_done;
};

/// The kernel's parameters, in their order. Addresses are the device's.
struct DigestParameters {
  std::uint64_t content;  ///< a multiple of kDigestAlignment
  std::uint64_t size;     ///< of the content in bytes, not 0; nothing behind it is read
  std::uint64_t key;      ///< of a DigestKey
  std::uint64_t scratch;  ///< of a DigestScratch
  std::uint64_t result;   ///< of a ContentDigest; may be pinned host memory

  /// What cuLaunchKernel takes. Points into this.
  [[nodiscard]] std::array<void*, 5> pointers() {
    return {&content, &size, &key, &scratch, &result};
  }
};

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
