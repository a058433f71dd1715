// Device memory that cuMemAlloc or a pool made, by address.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/extents.h"
#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

class Context;

/// What made an allocation, which decides how it is freed.
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

/// The allocations, and the address space that they lie in. Thread-safe; waits on no device work.
///
/// An allocation is live from allocate() on. One of a pool is freed in two steps, since its free
/// has a place in a stream's order, and stays in the table, inaccessible, while its pool keeps the
/// block.
class AllocationTable {
 public:
  AllocationTable();

  /// Allocates `size` bytes in `context`, on the device of `small`, which a small allocation is
  /// charged to. @return CUDA_ERROR_OUT_OF_MEMORY; `*address` is then untouched.
  CUresult allocate(Context& context, const std::shared_ptr<SmallBlocks>& small, std::uint64_t size,
                    AllocationSource source, CUmemoryPool pool, std::uint64_t* address);
  /// Removes the allocation at `base`, accessible or not, with its memory.
  /// @return CUDA_ERROR_INVALID_VALUE if there is none.
  CUresult remove(std::uint64_t base);
  /// Removes what cuMemAlloc made in `context`.
  void remove_all_of(const Context& context);

  /// The allocation whose base is `base`, unless it is being freed or is inaccessible.
  std::optional<Allocation> find_at(std::uint64_t base);
  /// The allocation that `address` lies in, unless it is being freed or is inaccessible.
  std::optional<Allocation> find(std::uint64_t address);
  /// The allocation that `address` lies in, unless it is inaccessible: kernels may still use one
  /// that is being freed.
  std::optional<Allocation> find_accessible(std::uint64_t address);
  /// Whether the allocation at `base` has `memory`, and is accessible. Of a pool's block, it may be
  /// another life than that in which somebody learned of it.
  bool holds(std::uint64_t base, const PhysicalPtr& memory);
  /// The allocations that pools made in `context` and that are not being freed.
  std::vector<Allocation> pool_allocations_of(const Context& context);
  /// Whether [address, address + size) touches the address space of allocations, used or not.
  [[nodiscard]] bool touches(std::uint64_t address, std::uint64_t size) const;

  /// cuMemFreeAsync was called on `base`: new work may not name it.
  /// @return the allocation's id; 0 if find_at(base) would find none.
  std::uint64_t begin_free(std::uint64_t base);
  /// The free of allocation `id` at `base` was executed: nothing may access it, unless it has been
  /// given out again since.
  void finish_free(std::uint64_t base, std::uint64_t id);
  /// Gives a freed block out again, as a new allocation of `size` bytes.
  void revive(std::uint64_t base, std::uint64_t size, Context& context);

 private:
  using Allocations = std::map<std::uint64_t, Allocation>;

  Allocation* accessible_at(std::uint64_t address);
  void erase(Allocations::iterator allocation);

  std::shared_mutex mutex_;
  Allocations allocations_;  ///< by base
  std::uint64_t arena_base_ = 0;
  std::uint64_t arena_size_ = 0;
  Extents arena_{0, 0};  ///< what is free of [arena_base_, arena_base_ + arena_size_)
};

}  // namespace simgpu
