// The mixer: what a kernel does that no plugin computes. It writes bytes that follow from those
// that it was given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/simgpu/driver/code/module_image.h"

namespace simgpu {

/// The memory that a mixer sees. Source of the real one: operands.h.
class MixerMemory {
 public:
  /// What an 8-byte word of a launch's parameters means as an address.
  enum class Kind {
    kNone,      ///< No device memory: a number, or a host address.
    kLive,      ///< In device memory that kernels may access, up to `Place::end`.
    kUnmapped,  ///< In device address space where nothing is mapped: an access faults.
    /// In device address space where nothing was ever mapped. An access faults as well, but a word
    /// like this in a struct is rather its padding: half of an old pointer beside a small number.
    kNeverMapped,
  };
  struct Place {
    Kind kind = Kind::kNone;
    std::uint64_t begin = 0;  ///< First byte of the allocation or contiguously mapped range.
    std::uint64_t end = 0;    ///< One past its last byte.
  };

  virtual ~MixerMemory() = default;

  /// What `address` lies in, now.
  virtual Place find(std::uint64_t address) const = 0;

  /// Copies `target.size()` bytes from live memory.
  virtual void read(std::uint64_t address, std::span<std::byte> target) const = 0;
};

/// Bytes read and written at a time, and the distance between those read.
inline constexpr std::size_t kMixerBlock = 64;
inline constexpr std::uint64_t kMixerStride = 65536;

/// 64 bytes for a mixer to write: `bytes` go to `address`, as far as `size` says.
struct MixerWrite {
  std::uint64_t address = 0;  ///< Rounded down to 64, but not below its allocation.
  std::size_t size = 0;       ///< 64, or less at the edge of an allocation.
  std::array<std::byte, kMixerBlock> bytes{};
};

/// What one launch of a mixer came to.
struct Mix {
  std::vector<MixerWrite> writes;       ///< In parameter order; empty if a word was unmapped.
  std::vector<std::uint64_t> unmapped;  ///< Parameter words in unmapped device address space.
};

/// Computes what a mixer of kernel `name` writes, given the parameter buffer of one launch.
///
/// Each 8-byte word at a multiple of 8 inside one parameter that is a live device address counts as
/// a pointer. From it the 64 bytes at the address rounded down to 64 are read, and 64 bytes at each
/// further 64 KiB of the same live range; all go into one sum to which zero bytes add nothing. An
/// output is a pointer that a hash of name and position marks (about half, and at least one), never
/// one that `is_const` excludes. What is written to it follows from name, position and sum, and
/// from no address; each of the eight words written is at most 255. `is_const` is
/// const_pointer_parameters(name), of code/kernel_signature.h. Pure: it only reads `memory`. Linear
/// in the words, and in the bytes behind them by 1/1024.
[[nodiscard]] Mix mix(std::string_view name, std::span<const ParameterLayout> parameters,
                      std::span<const std::byte> buffer, const std::vector<bool>& is_const,
                      const MixerMemory& memory);

}  // namespace simgpu
