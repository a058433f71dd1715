// What an address can be: the kind of memory that it lies in, and the bytes behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

struct AllocationLife;

/// The host's pointer to `address`: device memory and its host share one address space.
inline void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

/// The kinds of memory an address can lie in.
enum class MemoryKind {
  kUnknown,    ///< pageable host memory, or nothing at all
  kPinned,     ///< cuMemAllocHost, cuMemHostAlloc, cuMemHostRegister
  kAllocated,  ///< a live allocation: cuMemAlloc, cuMemAllocAsync
  kMapped,     ///< mapped by cuMemMap and accessible
  kReserved,   ///< device address space with nothing accessible there: an access faults
};

/// What an address lies in.
struct AddressRange {
  MemoryKind kind = MemoryKind::kUnknown;
  std::uint64_t base = 0;  ///< first byte of the allocation (exact size), pinned range, or of the
                           ///< whole contiguously mapped and accessible range around the address
  std::uint64_t size = 0;  ///< bytes; for kReserved: of the reservation
  int device = -1;         ///< owner; -1 for memory on the host, mapped or not
  bool writable = true;    ///< false: some of the range is mapped read-only
  bool open_to_host = false;  ///< some of it is memory of the host's that host code may use, too
  bool once_mapped = true;    ///< false: kReserved, and nothing was ever mapped at the address

  [[nodiscard]] std::uint64_t end() const { return base + size; }
  /// Device memory that kernels may access.
  [[nodiscard]] bool accessible() const {
    return kind == MemoryKind::kAllocated || kind == MemoryKind::kMapped;
  }
};

/// One piece of physical memory behind a range of addresses.
struct Segment {
  unsigned char* bytes = nullptr;  ///< through the window
  std::uint64_t size = 0;
  PhysicalPtr physical;  ///< null for host memory; keeps the bytes alive
  /// Which call of cuMemMap made it visible: no two calls have the same number. 0: none did.
  std::uint64_t mapping = 0;

  bool operator==(const Segment& other) const {
    return bytes == other.bytes && size == other.size && physical == other.physical &&
           mapping == other.mapping;
  }
};

/// Calls `use(bytes, size, offset)` for the parts of [offset, offset + size) of the range that
/// `segments` are, in their order.
template <typename Use>
void for_each_part(const std::vector<Segment>& segments, std::uint64_t offset, std::uint64_t size,
                   const Use& use) {
  std::uint64_t begin = 0;  // of the segment, in the range
  for (const Segment& segment : segments) {
    const std::uint64_t from = std::max(offset, begin);
    const std::uint64_t to = std::min(offset + size, begin + segment.size);
    if (from < to) use(segment.bytes + (from - begin), to - from, from - offset);
    begin += segment.size;
  }
}

/// The memory that a call which submits work names, as the call found it. When the work runs, the
/// host may be far ahead: it may have freed a pool's block in stream order and been given the same
/// bytes again, as another allocation. The work still uses what the call named, until the free of
/// that is executed.
struct Claim {
  std::uint64_t address = 0;
  bool allocated = false;  ///< in an allocation; if not, in mapped memory or in none
  std::uint64_t base = 0;  ///< of the allocation
  std::weak_ptr<const AllocationLife>
      life;  ///< of the allocation; work that is queued only watches
};

/// What resolve() found.
struct Resolution {
  bool accessible = false;
  std::uint64_t first_bad = 0;    ///< if not accessible
  std::vector<Segment> segments;  ///< in address order
};

}  // namespace simgpu
