// Physical memory: extents of one sparse memory file for each device, and of one for the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

class Device;
class MemoryFile;
class SmallBlocks;

/// The granularity of physical handles, mappings and reservations.
inline constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;
/// The host's page size, of which small allocations are made.
inline constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Physical memory of a device or of the host. Fresh, a device's reads as unwritten memory does
/// (unwritten.h), and the host's as zero. Its bytes stay until the last holder (handle, mapping,
/// running copy or kernel) lets go.
class Physical {
 public:
  /// Whole granules, each charged in full: cuMemCreate and allocations above half a granule.
  /// Smaller ones take pages, and are charged to `small`, as a driver packs them.
  /// @return null if the device of `small` is full.
  static std::shared_ptr<Physical> create(const std::shared_ptr<SmallBlocks>& small,
                                          std::uint64_t size);
  /// Whole granules of the host's memory, which a device reaches over its link.
  /// @return null if the host has no more of it (HostPages).
  static std::shared_ptr<Physical> create_on_host(std::uint64_t size);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  /// The program has no way to reach the bytes any more: whoever they are charged to can give them
  /// to others. Whoever still holds this, such as a kernel that was launched on adjoining memory,
  /// may look at the bytes until it lets go. Idempotent; thread-safe.
  void give_back();

  /// Whether it lies on the host, and on no device.
  [[nodiscard]] bool on_host() const { return small_ == nullptr; }
  /// REQUIRES: !on_host().
  [[nodiscard]] Device& device() const;
  /// The ordinal of the device that it lies on; -1 on the host.
  [[nodiscard]] int ordinal() const;
  /// Bytes that can be mapped: the size asked for, rounded up to pages or granules.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The bytes by the window that maps the whole file, for copies: valid while this
  /// lives, whatever is mapped where.
  [[nodiscard]] unsigned char* window() const;
  /// Maps the extent into the program's view at `address`, replacing what is there; device code may
  /// do with it what `protection` (mmap's) says.
  [[nodiscard]] bool map_at(std::uint64_t address, int protection) const;
  /// Maps `size` bytes from `offset` on at `address`, replacing what is there: what is written
  /// there stays there, and is not seen here. All three are multiples of the page size.
  [[nodiscard]] bool map_private_at(std::uint64_t address, std::uint64_t offset,
                                    std::uint64_t size) const;

 private:
  Physical(MemoryFile& file, std::shared_ptr<SmallBlocks> small, std::uint64_t size,
           std::uint64_t small_bytes, std::uint64_t offset);

  MemoryFile& file_;
  const std::shared_ptr<SmallBlocks> small_;  ///< null: on the host
  const std::uint64_t size_;
  const std::uint64_t small_bytes_;  ///< what a small allocation is charged for; 0: whole granules
  const std::uint64_t offset_;       ///< in the file
  std::atomic<bool> is_charged_{true};  ///< against the device's capacity, or the host's
};

using PhysicalPtr = std::shared_ptr<Physical>;

}  // namespace simgpu
