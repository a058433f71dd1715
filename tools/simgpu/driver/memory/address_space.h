// The table behind memory.h: every reservation, mapping, allocation and pinned range of the
// process. Drivers calls change it; copies and kernels ask it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/extents.h"
#include "tools/simgpu/driver/memory/memory.h"
#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

class Context;

/// A physical handle of cuMemCreate. `references` counts create and retains; at 0 the handle is no
/// longer valid, but its mappings keep the memory.
struct Handle {
  CUmemGenericAllocationHandle id = 0;
  PhysicalPtr physical;
  CUmemAllocationProp properties{};
  int references = 0;
};

/// Who made an allocation, and so who may free it how.
enum class AllocationSource { kMemAlloc, kPool };

/// Device memory that cuMemAlloc or a pool made.
struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t size = 0;          ///< as asked for
  std::uint64_t address_size = 0;  ///< of address space, guard page included
  PhysicalPtr physical;
  Context* context = nullptr;
  AllocationSource source = AllocationSource::kMemAlloc;
  CUmemoryPool pool = nullptr;
  std::uint64_t id = 0;    ///< unique per allocation call: CU_POINTER_ATTRIBUTE_BUFFER_ID
  bool freeing = false;    ///< cuMemFreeAsync was called: new work may not name it
  bool accessible = true;  ///< false: freed, and cached in its pool
};

/// Pinned host memory.
struct PinnedRange {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  Context* context = nullptr;
  unsigned flags = 0;
  bool registered = false;  ///< by cuMemHostRegister; else the driver's own
  std::uint64_t id = 0;
};

/// One piece of physical memory behind a range of addresses.
struct Segment {
  unsigned char* bytes = nullptr;  ///< through the window
  std::uint64_t size = 0;
  PhysicalPtr physical;  ///< null for host memory; keeps the bytes alive

  bool operator==(const Segment& other) const {
    return bytes == other.bytes && size == other.size && physical == other.physical;
  }
};

/// What resolve() found.
struct Resolution {
  bool accessible = false;
  std::uint64_t first_bad = 0;    ///< if not accessible
  std::vector<Segment> segments;  ///< in address order
};

/// The registry. One per process, never destroyed. Thread-safe: each function takes its lock; no
/// function waits on the device. Driver codes are those that the calls document.
class AddressSpace {
 public:
  static AddressSpace& instance();

  // Virtual memory management (virtual_memory.cc).
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
  CUresult set_access(std::uint64_t address, std::uint64_t size, const CUmemAccessDesc* access,
                      std::size_t count);
  CUresult get_access(std::uint64_t address, int device, unsigned long long* flags);

  // Allocations.
  /// On the device of `small`, which a small allocation is charged to.
  CUresult allocate(Context& context, const std::shared_ptr<SmallBlocks>& small, std::uint64_t size,
                    AllocationSource source, CUmemoryPool pool, std::uint64_t* address);
  /// Removes the allocation at `base` (live or not) and its memory.
  CUresult remove_allocation(std::uint64_t base);
  /// The live allocation whose base is `address` and which is not being freed.
  std::optional<Allocation> find_allocation_at(std::uint64_t base);
  /// The accessible allocation that contains `address`.
  std::optional<Allocation> find_allocation(std::uint64_t address);
  /// cuMemFreeAsync was called on `base`: new work may not name it. @return its id, 0 if not live.
  std::uint64_t begin_free(std::uint64_t base);
  /// The free of allocation `id` at `base` has executed: nothing may access it, unless it has been
  /// given out again since.
  void finish_free(std::uint64_t base, std::uint64_t id);
  /// Gives a cached block out again.
  void revive(std::uint64_t base, std::uint64_t size, Context& context);
  void remove_allocations_of(const Context& context);
  /// The live pool allocations made in `context`.
  std::vector<Allocation> pool_allocations_of(const Context& context);

  // Pinned host memory.
  /// @return false if a pinned range overlaps.
  bool add_pinned(PinnedRange range);
  std::optional<PinnedRange> remove_pinned(std::uint64_t base, bool registered);
  std::optional<PinnedRange> find_pinned(std::uint64_t address);
  /// Removes and returns what belongs to `context`.
  std::vector<PinnedRange> remove_pinned_of(const Context& context);

  // Queries.
  AddressRange find(std::uint64_t address);
  /// Whether any of [address, address + size) is address space of a device or device memory.
  bool touches_device(std::uint64_t address, std::uint64_t size);
  /// The memory behind [address, address + size), for `device` or any if negative. `submitting`:
  /// memory whose stream-ordered free was already asked for does not count, and a pool's block ends
  /// where the program was told; else it ends where its memory does.
  Resolution resolve(std::uint64_t address, std::uint64_t size, bool write, int device,
                     bool submitting);
  /// A mapping's extent, for pointer attributes.
  std::optional<AddressRange> find_mapping(std::uint64_t address);

 private:
  struct Mapping {
    std::uint64_t size = 0;
    std::shared_ptr<Handle> handle;
    std::array<unsigned char, 64> access{};  ///< CUmemAccess_flags by device
    bool readable = false;
    bool writable = false;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  AddressSpace();
  Mappings::iterator mapping_at(std::uint64_t address);
  Allocation* allocation_at(std::uint64_t address);
  bool whole_mappings(std::uint64_t address, std::uint64_t size, Mappings::iterator* first,
                      Mappings::iterator* last);
  /// Remembers that [address, address + size) has been mapped.
  void note_mapped(std::uint64_t address, std::uint64_t size);
  bool was_mapped(std::uint64_t address) const;
  bool inside_reservation(std::uint64_t address, std::uint64_t size) const;
  void forget(std::map<std::uint64_t, Allocation>::iterator allocation);

  std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> reservations_;  ///< base to size
  Mappings mappings_;
  std::map<std::uint64_t, std::uint64_t> once_mapped_;  ///< of reservations: base to end, disjoint
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Handle>> handles_;
  std::map<std::uint64_t, Allocation> allocations_;
  std::map<std::uint64_t, PinnedRange> pinned_;
  std::uint64_t arena_base_ = 0;  ///< address space of allocations
  std::uint64_t arena_size_ = 0;
  Extents arena_{0, 0};
  std::uint64_t next_id_ = 1;
};

}  // namespace simgpu
