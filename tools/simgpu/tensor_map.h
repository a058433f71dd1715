// simgpu's tensor maps, for its driver and for plugins of host kernels.
//
// A plugin finds a map that is (in) a parameter replaced: its first 8 bytes are the address of the
// tensor, which can be dereferenced as other addresses among the arguments can. Of a map in device
// memory, address_of_tensor() tells the address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simgpu {

/// Bytes of a tensor map. A device takes it only from addresses that kTensorMapAlignment divides.
inline constexpr std::size_t kTensorMapBytes = 128;
inline constexpr std::size_t kTensorMapAlignment = 64;

/// What the 128 bytes say. Where NVIDIA's driver keeps the address is its own affair, so simgpu's
/// does not lie there as it is: who relies on finding it is wrong about simgpu, too.
struct TensorMap {
  static constexpr std::uint64_t kMark = 0x70616D2D726F736EULL;
  static constexpr std::uint64_t kMask = 0x5A5A'C3C3'9696'0F0FULL;

  std::uint64_t hidden;  ///< address_of() reads it
  std::uint64_t mark;    ///< kMark: these bytes are a tensor map
  std::uint64_t shape;   ///< a digest of everything else that was encoded
  std::uint64_t unused[13];
};
static_assert(sizeof(TensorMap) == kTensorMapBytes);

/// Makes `map` one of the tensor at `address`.
inline void set_address(TensorMap& map, std::uint64_t address) {
  map.hidden = (address << 21 | address >> 43) ^ TensorMap::kMask;
}

/// The address of the tensor whose map lies at `bytes`; 0 if that is no tensor map.
inline std::uint64_t address_of_tensor(const void* bytes) {
  TensorMap map;
  std::memcpy(&map, bytes, sizeof(map));
  if (map.mark != TensorMap::kMark) return 0;
  const std::uint64_t turned = map.hidden ^ TensorMap::kMask;
  return turned >> 21 | turned << 43;
}

}  // namespace simgpu
