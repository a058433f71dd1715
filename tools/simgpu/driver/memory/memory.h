// The registry of all memory: physical handles, reservations, mappings, allocations, pinned host
// memory. It answers "what is this address" for copies, kernels and pointer attributes.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

class Context;
class Device;

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
  std::uint64_t base = 0;   ///< first byte of the allocation (exact size), pinned range, or of the
                            ///< whole contiguously mapped and accessible range around the address
  std::uint64_t size = 0;   ///< bytes; for kReserved: of the reservation
  int device = -1;          ///< owner; -1 for host memory
  bool writable = true;     ///< false: some of the range is mapped read-only
  bool once_mapped = true;  ///< false: kReserved, and nothing was ever mapped at the address

  [[nodiscard]] std::uint64_t end() const { return base + size; }
  /// Device memory that kernels may access.
  [[nodiscard]] bool accessible() const {
    return kind == MemoryKind::kAllocated || kind == MemoryKind::kMapped;
  }
};

/// What `address` lies in. A freed allocation's address is kReserved while the driver keeps the
/// address space. Thread-safe (shared lock), O(log n + mappings in the range).
AddressRange find_range(std::uint64_t address);

/// Whether `address` is live device memory: accessible(). Source for the mixers' "is this parameter
/// word a pointer".
bool is_device_address(std::uint64_t address);

/// Whether all of [address, address + size) is accessible device memory now (writable if `write`).
/// On false `*first_bad` is the first address that is not. size 0 is accessible.
bool is_accessible(std::uint64_t address, std::uint64_t size, bool write,
                   std::uint64_t* first_bad = nullptr);

/// Allocates device memory in `context`, freed by free_device(). @return CUDA_ERROR_OUT_OF_MEMORY.
CUresult allocate_device(Context& context, std::uint64_t size, std::uint64_t* address);

/// The same for a module's variables, whose small blocks hold nothing else.
CUresult allocate_for_module(Context& context, std::uint64_t size, std::uint64_t* address);

/// Frees what these two gave. Does not synchronise. @return CUDA_ERROR_INVALID_VALUE if it
/// is not the base of a live allocation.
CUresult free_device(std::uint64_t address);

/// Copies between device memory and memory of ours at once, outside the timeline (module globals'
/// initial values). @return false if the range is not all accessible.
bool write_device(std::uint64_t address, const void* source, std::uint64_t size);
bool read_device(void* target, std::uint64_t address, std::uint64_t size);

}  // namespace simgpu
