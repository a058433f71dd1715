// What the driver's own share of the device costs the budget of the managed state.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "interposer/code_memory.h"
#include "interposer/cuda_api.h"
#include "interposer/driver_device_memory.h"
#include "interposer/page_accounts.h"
#include "interposer/unmanaged_memory.h"
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
  void settle(CUmemoryPool pool) noexcept;
  /// Gives it back: the allocation failed, or was freed.
  void give_back(const UnmanagedMemory::Allocation& allocation) noexcept;

  /// The allocation succeeded: its free, at `key`, will give the bytes back.
  void remember(std::uint64_t key, const UnmanagedMemory::Allocation& allocation) noexcept;
  /// What was remembered under `key` is about to be freed, and to be given back when it has been;
  /// nullopt if it was not counted.
  std::optional<UnmanagedMemory::Allocation> forget(std::uint64_t key) noexcept;

  /// `pool` may hold less than before: asks how much.
  void note_pool(CUmemoryPool pool) noexcept;
  /// Destroys `pool` through `destroy`, and stops asking the driver about it.
  template <typename Destroy>
  CUresult destroy_pool(CUmemoryPool pool, const Destroy& destroy) noexcept {
    note(memory_.begin_destroying(pool));
    CUresult result = CUDA_SUCCESS;
    {
      const std::unique_lock lock(pools_alive_);
      result = destroy();
    }
    note(memory_.end_destroying(pool, result == CUDA_SUCCESS));
    if (result != CUDA_SUCCESS) note_pool(pool);
    return result;
  }

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
  std::shared_mutex pools_alive_;  ///< held while the driver is asked about one unbidden
  PageAccounts pages_{[this](Bytes size) { give_back({size}); }};
};

}  // namespace superpipe
