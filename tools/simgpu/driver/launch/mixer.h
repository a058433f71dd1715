// The mixer: what a kernel does that no plugin computes. It writes bytes that follow from those
// that it was given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tools/simgpu/driver/code/kernel_words.h"

namespace simgpu {

/// The memory that a mixer sees. Source of the real one: operands.h.
class MixerMemory {
 public:
  virtual ~MixerMemory() = default;

  /// Copies `target.size()` bytes from live memory.
  virtual void read(std::uint64_t address, std::span<std::byte> target) const = 0;
};

/// Memory that a launch names.
struct MixerOperand {
  std::uint64_t address = 0;   ///< as the parameter says
  std::uint64_t begin = 0;     ///< First byte of the allocation or contiguously mapped range.
  std::uint64_t end = 0;       ///< One past its last byte.
  std::uint64_t position = 0;  ///< of the word in the parameter buffer, in words
  Role role = Role::kInput;
  ResultType type = ResultType::kSmallIntegers;
  std::uint64_t bytes = 0;  ///< that the launch uses from the address on; 0: not known
};

/// Bytes read and written at a time, and the distance between them.
inline constexpr std::size_t kMixerBlock = 64;
inline constexpr std::uint64_t kMixerStride = 65536;
/// What whoever manages memory rounds sizes up to. Source: CUDA Driver API,
/// cuMemGetAllocationGranularity.
inline constexpr std::uint64_t kMixerGranule = std::uint64_t{2} << 20;

/// 64 bytes for a mixer to write: `bytes` go to `address`, as far as `size` says.
struct MixerWrite {
  std::uint64_t address = 0;
  std::size_t size = 0;  ///< 64, or less where an operand ends
  std::array<std::byte, kMixerBlock> bytes{};
};

/// What one launch of a kernel looks like to the mixer.
struct MixerLaunch {
  std::string_view kernel;    ///< mangled
  std::uint64_t threads = 1;  ///< of all blocks; at most 2^48
};

/// Computes what a mixer writes.
///
/// Of each operand that the kernel may read, 64 bytes are read at the address and at each further
/// 64 KiB of its memory; from the middle of an allocation on, of the first 128 bytes for each
/// thread only, since memory that others share changes in an order that nothing makes. All go into
/// one sum to which zero bytes add nothing, nor do words that look like addresses: a table of
/// pointers is another in each run. In each operand that it writes, 64 bytes are written at
/// the same places, but not in all of its memory. What is written follows from name, position, sum
/// and place, and from no address.
///
/// Of an operand whose bytes are known, nothing else is touched, and its last 64 bytes are, too.
/// Of others, writes end where another operand begins, and at the latest at the beginning of the
/// last granule. Superpipe maps memory in whole granules, wherever the program's data end in them,
/// and the driver allocates as many bytes as it is asked for: a kernel has to write the same in
/// both. Memory that several tensors of a program share (a caching allocator's, XLA's for its
/// intermediate results) is much larger than what one kernel writes. So the rest of an allocation
/// is only written to by a launch that names its beginning and has threads enough to write it all:
/// 128 bytes each, or 16 for kernels whose names have no signature (XLA's), which come from a
/// compiler and whose threads compute four numbers at most. Any other launch writes to the first 16
/// bytes for each thread; 8 for halves, and 4 without a signature.
///
/// Pure: it only reads `memory`. Linear in the bytes of the operands, by 1/1024, and quadratic in
/// the number of operands.
[[nodiscard]] std::vector<MixerWrite> mix(const MixerLaunch& launch,
                                          std::span<const MixerOperand> operands,
                                          const MixerMemory& memory);

}  // namespace simgpu
