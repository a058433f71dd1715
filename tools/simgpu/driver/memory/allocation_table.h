// Device memory that cuMemAlloc or a pool made, by address.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/memory/address_range.h"
#include "tools/simgpu/driver/memory/extents.h"
#include "tools/simgpu/driver/memory/physical_memory.h"

namespace simgpu {

class Context;
class MemoryPool;

/// What made an allocation, which decides how it is freed.
enum class AllocationSource { kMemAlloc, kPool };

/// Operations that come before something in stream order. Thread-safe: workers of several streams
/// ask.
class EarlierOperations {
 public:
  explicit EarlierOperations(std::vector<CompletionPtr> operations)
      : operations_(std::move(operations)) {}

  /// Whether all of them are settled. It forgets those that are, so that it costs one load once it
  /// has returned true; until then it is linear in the operations that are left.
  [[nodiscard]] bool settled();

 private:
  std::atomic<bool> settled_{false};
  std::mutex mutex_;
  std::vector<CompletionPtr> operations_;  ///< under the mutex
};

/// The bytes of one allocation, for as long as it lives. The table owns it, and a stream-ordered
/// free until it is executed; work that is queued only watches it (Claim). The same bytes may
/// become another allocation afterwards, and even, for the host, which runs ahead, before.
struct AllocationLife {
  std::uint64_t base = 0;
  std::uint64_t size = 0;    ///< as asked for
  PhysicalPtr physical;      ///< which they lie in
  std::uint64_t offset = 0;  ///< in `physical`
  /// What the allocation comes after in stream order, as far as it had not completed when the
  /// program asked for it; null: nothing.
  std::shared_ptr<EarlierOperations> after{};

  /// Whether the allocation has come in stream order. The host knows the address before that, and
  /// work that nothing orders behind the allocation may start before that.
  [[nodiscard]] bool begun() const { return after == nullptr || after->settled(); }
};

/// Device memory that cuMemAlloc or a pool made.
struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t size = 0;          ///< as asked for
  std::uint64_t address_size = 0;  ///< of address space, guard page included; 0: a pool's chunk
  std::shared_ptr<const AllocationLife> life;
  Context* context = nullptr;
  AllocationSource source = AllocationSource::kMemAlloc;
  std::shared_ptr<MemoryPool> pool;  ///< that it came from, or null
  std::uint64_t id = 0;              ///< unique per call: CU_POINTER_ATTRIBUTE_BUFFER_ID

  [[nodiscard]] Device& device() const { return life->physical->device(); }
};

/// Whether an address names memory of a pool that is no allocation's.
enum class FreeBlock {
  kNo,
  kPerhaps,  ///< It is where a block began that was freed, and where an allocation ends.
  kYes,
};

/// The allocations, and the address space that they and the chunks of pools lie in. Thread-safe;
/// waits on no device work.
///
/// An allocation is in the table from the call that makes it to the call that frees it, whichever
/// order of a stream that free has: no new work may name it from then on.
class AllocationTable {
 public:
  AllocationTable();

  /// Allocates `size` bytes in `context`, on the device of `small`, which a small allocation is
  /// charged to. @return CUDA_ERROR_OUT_OF_MEMORY; `*address` is then untouched.
  CUresult allocate(Context& context, const std::shared_ptr<SmallBlocks>& small, std::uint64_t size,
                    std::uint64_t* address);
  /// Removes what allocate() made at `base`, with its memory.
  /// @return CUDA_ERROR_INVALID_VALUE if there is none.
  CUresult remove(std::uint64_t base);
  /// Removes what allocate() made in `context`.
  void remove_all_of(const Context& context);

  /// @name For pools
  /// @{
  /// Maps `memory` at addresses of its own. @return the first one; nullopt if none is free.
  std::optional<std::uint64_t> map_chunk(const PhysicalPtr& memory);
  void unmap_chunk(std::uint64_t base, std::uint64_t size);
  /// Adds an allocation of `pool`, made in `context`. REQUIRES that its bytes are of a chunk and of
  /// no other allocation in the table.
  void add_block(Context& context, std::shared_ptr<MemoryPool> pool, AllocationLife life);
  /// Takes the allocation of `pool` at `base` out of the table.
  /// @return its life, which ends when the caller lets go of it; null if there is none.
  std::shared_ptr<const AllocationLife> remove_block(const MemoryPool& pool, std::uint64_t base);
  /// The allocations that pools made in `context`.
  std::vector<Allocation> pool_allocations_of(const Context& context);
  /// @}

  /// The allocation whose base is `base`.
  std::optional<Allocation> find_at(std::uint64_t base);
  /// The allocation that `address` lies in.
  std::optional<Allocation> find(std::uint64_t address);
  /// Whether `address` lies in a pool's chunk, where the bytes are mapped, but in no allocation.
  /// Not counted is the padding behind an allocation, up to the next multiple of kPoolBlock, and
  /// what lies right behind that, unless a block began there that was freed.
  FreeBlock free_block_at(std::uint64_t address);
  /// Whether [address, address + size) touches the address space of allocations, used or not.
  [[nodiscard]] bool touches(std::uint64_t address, std::uint64_t size) const;

 private:
  using Allocations = std::map<std::uint64_t, Allocation>;

  /// REQUIRES: the mutex. @return nullopt if no address space is free or it cannot be mapped.
  std::optional<std::uint64_t> map_locked(const PhysicalPtr& memory);
  void unmap_locked(std::uint64_t base, std::uint64_t address_size);
  void erase(Allocations::iterator allocation);
  /// Forgets which freed blocks began in [begin, end). REQUIRES: the mutex.
  void forget_freed(std::uint64_t begin, std::uint64_t end);

  std::shared_mutex mutex_;
  Allocations allocations_;                        ///< by base
  std::map<std::uint64_t, std::uint64_t> chunks_;  ///< of pools: base to size
  /// Where blocks began that were freed, until another block covers the address or ends there, or
  /// its chunk goes: at most one for each kPoolBlock bytes of the chunks.
  std::set<std::uint64_t> freed_;
  std::uint64_t arena_base_ = 0;
  std::uint64_t arena_size_ = 0;
  Extents arena_{0, 0};  ///< what is free of [arena_base_, arena_base_ + arena_size_)
};

}  // namespace simgpu
