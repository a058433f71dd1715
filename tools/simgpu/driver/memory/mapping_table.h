// Virtual memory management: reservations, physical handles, and what is mapped where.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/address_range.h"
#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

/// A physical handle of cuMemCreate. `references` counts create and retains; at 0 the handle is no
/// longer valid, but its mappings keep the memory. Work that is under way keeps the bytes, not what
/// the device is charged for them.
struct Handle {
  Handle() = default;
  ~Handle() {
    if (physical != nullptr) physical->give_back();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  CUmemGenericAllocationHandle id = 0;
  PhysicalPtr physical;
  CUmemAllocationProp properties{};
  int references = 0;
};

/// Reservations, handles and mappings. Thread-safe; waits on no device work. Driver codes are those
/// that the calls of virtual memory management document; outputs stay untouched on failure.
class MappingTable {
 public:
  /// At `wanted`, a hint, where that is free; else where SIMGPU_ARENA says.
  CUresult reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wanted,
                   std::uint64_t* address);
  CUresult release_reservation(std::uint64_t address, std::uint64_t size);
  CUmemGenericAllocationHandle add_handle(PhysicalPtr physical,
                                          const CUmemAllocationProp& properties);
  CUresult release_handle(CUmemGenericAllocationHandle id);
  CUresult retain_handle_at(std::uint64_t address, CUmemGenericAllocationHandle* id);
  CUresult handle_properties(CUmemGenericAllocationHandle id, CUmemAllocationProp* properties);
  CUresult map(std::uint64_t address, std::uint64_t size, CUmemGenericAllocationHandle id);
  CUresult unmap(std::uint64_t address, std::uint64_t size);
  /// Locations of `access` are devices, or the host, which only pages on the host can be opened to.
  CUresult set_access(std::uint64_t address, std::uint64_t size, const CUmemAccessDesc* access,
                      std::size_t count);
  CUresult get_access(std::uint64_t address, int device, unsigned long long* flags);
  CUresult get_host_access(std::uint64_t address, unsigned long long* flags);

  /// How many of the `size` bytes from `address` on lie on the host, up to the first gap between
  /// mappings. O(log n + mappings in the range).
  std::uint64_t bytes_on_host(std::uint64_t address, std::uint64_t size);

  /// The one mapping that `address` lies in, accessible or not.
  std::optional<AddressRange> find_mapping(std::uint64_t address);
  /// The contiguously mapped and accessible range that `address` lies in, as far as its reservation
  /// goes (kMapped), else the reservation (kReserved). O(log n + mappings in the range).
  std::optional<AddressRange> find(std::uint64_t address);
  /// As find(), and the memory behind the range at the same moment, as far as `device` may access
  /// it:
  /// `*memory` is only written for kMapped.
  std::optional<AddressRange> find(std::uint64_t address, int device, Resolution* memory);
  /// Whether [address, address + size) touches a reservation.
  bool touches(std::uint64_t address, std::uint64_t size);
  /// The memory behind [address, address + size), as far as `device`, or the device that it lies
  /// on, may access it: the engines of both copy. A negative `device`: as far as any may.
  Resolution resolve(std::uint64_t address, std::uint64_t size, bool write, int device);

 private:
  struct Mapping {
    std::uint64_t size = 0;
    std::shared_ptr<Handle> handle;
    std::uint64_t number = 0;                         ///< unique per call of map()
    std::array<unsigned char, kMaxDevices> access{};  ///< CUmemAccess_flags by device
    unsigned char host_access = 0;                    ///< CUmemAccess_flags of the host
    bool readable = false;                            ///< by a device
    bool writable = false;

    /// Notes what one description says, and makes the program's view follow.
    void note_access(const CUmemAccessDesc& description);
    [[nodiscard]] bool protect(std::uint64_t address) const;
    [[nodiscard]] bool on_host() const { return handle->physical->on_host(); }
    /// Whether a device other than `device` may access it.
    [[nodiscard]] bool is_open_to_others(int device) const;
    [[nodiscard]] bool allows(bool write, int device) const;
    /// Of `device` or the one that the memory lies on, if it lies on one.
    [[nodiscard]] bool allows_copies(bool write, int device) const;
  };
  /// What touches memory.
  enum class User { kKernel, kCopy };
  using Mappings = std::map<std::uint64_t, Mapping>;
  using Reservation = std::map<std::uint64_t, std::uint64_t>::const_iterator;

  Mappings::iterator mapping_at(std::uint64_t address);
  /// @name find() and resolve() for callers that hold the lock
  /// @{
  std::optional<AddressRange> find_locked(std::uint64_t address);
  Resolution resolve_locked(std::uint64_t address, std::uint64_t size, bool write, int device,
                            User user);
  /// @}
  /// The reservation that `address` lies in, or the end.
  [[nodiscard]] Reservation reservation_at(std::uint64_t address) const;
  /// The readable mappings of `reservation` around `mapping` that have no gap between them, as one
  /// range.
  AddressRange readable_range_around(
      Mappings::iterator mapping, const std::pair<const std::uint64_t, std::uint64_t>& reservation);
  /// Whether [address, address + size) is a whole number of mappings, [*first, *last).
  bool whole_mappings(std::uint64_t address, std::uint64_t size, Mappings::iterator* first,
                      Mappings::iterator* last);
  /// Remembers that [address, address + size) has been mapped.
  void note_mapped(std::uint64_t address, std::uint64_t size);
  [[nodiscard]] bool was_mapped(std::uint64_t address) const;
  /// Whether the driver has it that the mappings [first, last) are accessed so.
  [[nodiscard]] static CUresult check_access(Mappings::iterator first, Mappings::iterator last,
                                             const CUmemAccessDesc& access);
  [[nodiscard]] bool inside_reservation(std::uint64_t address, std::uint64_t size) const;

  std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  ///< base to size
  Mappings mappings_;                                    ///< by base
  std::map<std::uint64_t, std::uint64_t> once_mapped_;   ///< of reservations: base to end, disjoint
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Handle>> handles_;
};

}  // namespace simgpu
