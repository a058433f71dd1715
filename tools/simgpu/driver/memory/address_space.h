// The process's device memory and pinned host memory, by address.
#pragma once

#include <cstdint>

#include "tools/simgpu/driver/memory/address_range.h"
#include "tools/simgpu/driver/memory/allocation_table.h"
#include "tools/simgpu/driver/memory/mapping_table.h"
#include "tools/simgpu/driver/memory/pinned_table.h"

namespace simgpu {

/// Three tables, which driver calls change, and the questions that concern all of them, which
/// copies and kernels ask. One per process, never destroyed. Thread-safe: each table has a lock of
/// its own, and an address stays in one table for as long as the program may use it. Waits on no
/// device work.
class AddressSpace {
 public:
  static AddressSpace& instance();

  [[nodiscard]] AllocationTable& allocations() { return allocations_; }
  [[nodiscard]] MappingTable& mappings() { return mappings_; }
  [[nodiscard]] PinnedTable& pinned() { return pinned_; }

  /// What `address` lies in. A freed allocation's address is unknown (kUnknown).
  AddressRange find(std::uint64_t address);
  /// Whether [address, address + size) touches address space of device memory, used or not.
  bool touches_device(std::uint64_t address, std::uint64_t size);
  /// @name For calls that submit work
  /// @{
  /// Memory whose stream-ordered free was already asked for is none.
  Claim claim(std::uint64_t address);
  /// The memory behind [address, address + size), for `device` or any if negative.
  Resolution resolve(std::uint64_t address, std::uint64_t size, bool write, int device);
  /// @}

  /// For work that runs: the memory behind `size` bytes from `claim.address` on. An allocation is
  /// accessible from where it comes in stream order until its free is executed.
  Resolution resolve(const Claim& claim, std::uint64_t size, bool write, int device);

 private:
  AddressSpace() = default;

  AllocationTable allocations_;
  MappingTable mappings_;
  PinnedTable pinned_;
};

}  // namespace simgpu
