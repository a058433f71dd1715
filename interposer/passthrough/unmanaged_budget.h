// What the driver's own share of the device costs the budget of the managed state.
#pragma once

#include <cstdint>
#include <optional>

#include "interposer/driver/driver_device_memory.h"
#include "interposer/passthrough/code_memory.h"
#include "interposer/passthrough/memory_pools.h"
#include "interposer/passthrough/page_accounts.h"
#include "interposer/passthrough/unmanaged_memory.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// Counts what is left to the driver, asks the driver for what only it knows, and has the residency
/// manager make room for it. Thread-safe. See docs/residency.md, "What is left to the driver".
class UnmanagedBudget {
 public:
  /// `device` holds `baseline` bytes so far. Both references must outlive this.
  UnmanagedBudget(ResidencyManager& residency, const DriverDeviceMemory& device, Bytes baseline);
  UnmanagedBudget(const UnmanagedBudget&) = delete;
  UnmanagedBudget& operator=(const UnmanagedBudget&) = delete;

  /// Takes out of the budget what an allocation that is left to the driver adds.
  /// @return false if it does not fit even after evicting.
  bool take(const UnmanagedMemory::Allocation& allocation) noexcept;
  /// The driver has answered a call for memory from `pool`: asks how much the pool holds by now.
  void settle(const MemoryPoolPtr& pool) noexcept;
  /// Gives it back: the allocation failed, or was freed.
  void give_back(const UnmanagedMemory::Allocation& allocation) noexcept;

  /// The allocation succeeded: its free, at `key`, will give the bytes back.
  void remember(std::uint64_t key, const UnmanagedMemory::Allocation& allocation) noexcept;
  /// What was remembered under `key` is about to be freed, and to be given back when it has been;
  /// nullopt if it was not counted.
  std::optional<UnmanagedMemory::Allocation> forget(std::uint64_t key) noexcept;

  /// `pool` may hold less than before: asks how much.
  void note_pool(const MemoryPoolPtr& pool) noexcept;
  /// `pool` has been destroyed.
  void forget_pool(const MemoryPoolPtr& pool) noexcept;

  /// Code may be about to be loaded or unloaded: makes room for some. end_code() has to follow.
  void begin_code(CodeChange change) noexcept;
  /// That has been done: counts what has come, or gone.
  void end_code(CodeChange change) noexcept;

  /// The program's own physical pages; their bytes are given back when they go.
  [[nodiscard]] PageAccounts& pages() noexcept { return pages_; }
  [[nodiscard]] const UnmanagedMemory& memory() const noexcept { return memory_; }

 private:
  void note(const UnmanagedChange& change) noexcept;
  bool note_pools() noexcept;
  [[nodiscard]] std::optional<std::int64_t> uncounted() const noexcept;

  ResidencyManager& residency_;
  const DriverDeviceMemory& device_;
  UnmanagedMemory memory_;
  CodeCensus code_census_;
  PageAccounts pages_{[this](Bytes size) { give_back({size}); }};
};

}  // namespace superpipe
