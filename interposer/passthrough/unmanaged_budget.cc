#include "interposer/passthrough/unmanaged_budget.h"

#include <algorithm>
#include <new>

#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "interposer/passthrough/device_changes.h"

namespace superpipe {
namespace {

/// How much `pool` holds of its device; nullopt if it is destroyed or the driver does not say.
std::optional<Bytes> reserved_by(const MemoryPool& pool) noexcept {
  std::optional<Bytes> found;
  pool.ask([&found](CUmemoryPool handle) {
    cuuint64_t reserved = 0;
    const CUresult result =
        driver().cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    if (result == CUDA_SUCCESS) found = Bytes{reserved};
  });
  return found;
}

}  // namespace

UnmanagedBudget::UnmanagedBudget(ResidencyManager& residency, const DriverDeviceMemory& device,
                                 Bytes baseline)
    : residency_(residency),
      device_(device),
      code_census_(static_cast<std::int64_t>(baseline.count())) {}

bool UnmanagedBudget::take(const UnmanagedMemory::Allocation& allocation) noexcept {
  for (bool asked_pools = false;; asked_pools = true) {
    const UnmanagedChange added = memory_.take(allocation);
    if (added == UnmanagedChange{}) return true;
    const Bytes size{static_cast<std::uint64_t>(std::max<std::int64_t>(added.taken, 0))};
    if (residency_.admits_passthrough(size)) {
      if (size > Bytes{}) residency_.on_passthrough_allocation(size);
      return true;
    }
    // Zero, unless other threads took or gave back in the same blocks meanwhile.
    note(added + memory_.refuse(allocation));
    if (asked_pools || !note_pools()) return false;
  }
}

void UnmanagedBudget::settle(const MemoryPoolPtr& pool) noexcept {
  const std::uint64_t version = memory_.version_of(pool);
  note(memory_.settle(pool, reserved_by(*pool), version));
}

void UnmanagedBudget::give_back(const UnmanagedMemory::Allocation& allocation) noexcept {
  note(memory_.give_back(allocation));
}

void UnmanagedBudget::remember(std::uint64_t key,
                               const UnmanagedMemory::Allocation& allocation) noexcept {
  if (!memory_.remember(key, allocation)) {
    log_line(LogLevel::kDebug, "out of memory: a pass-through allocation stays counted");
  }
}

std::optional<UnmanagedMemory::Allocation> UnmanagedBudget::forget(std::uint64_t key) noexcept {
  return memory_.forget(key);
}

void UnmanagedBudget::note_pool(const MemoryPoolPtr& pool) noexcept {
  const std::uint64_t version = memory_.version_of(pool);
  if (version == 0) return;
  const std::optional<Bytes> reserved = reserved_by(*pool);
  if (reserved) note(memory_.note_pool(pool, *reserved, version));
}

void UnmanagedBudget::forget_pool(const MemoryPoolPtr& pool) noexcept {
  note(memory_.forget_pool(pool));
}

// @return whether less is counted than before.
bool UnmanagedBudget::note_pools() noexcept {
  const Bytes before = memory_.besides_code();
  try {
    for (const MemoryPoolPtr& pool : memory_.pools()) note_pool(pool);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return memory_.besides_code() < before;
}

void UnmanagedBudget::begin_code(CodeChange change) noexcept {
  if (change == CodeChange::kLoad) note(memory_.begin_load());
  (void)note_pools();
  code_census_.begin([this] { return uncounted(); });
}

void UnmanagedBudget::end_code(CodeChange change) noexcept {
  (void)note_pools();
  UnmanagedChange changed;
  const auto measure = [this] { return uncounted(); };
  code_census_.end(change, measure, [&](Bytes bytes) { changed = memory_.set_code(bytes); });
  if (change == CodeChange::kLoad) changed = changed + memory_.end_load();
  note(changed);
}

// What the device holds, code included, that is not counted; nullopt where that cannot be told.
std::optional<std::int64_t> UnmanagedBudget::uncounted() const noexcept {
  const auto found = DeviceChanges::undisturbed([this]() -> std::optional<std::int64_t> {
    const std::optional<std::int64_t> used = device_.used_besides_pages();
    if (!used) return std::nullopt;
    return *used - static_cast<std::int64_t>(memory_.besides_code().count());
  });
  return found ? *found : std::nullopt;
}

void UnmanagedBudget::note(const UnmanagedChange& change) noexcept {
  if (change == UnmanagedChange{}) return;
  if (change.taken > 0) {
    residency_.on_passthrough_allocation(Bytes{static_cast<std::uint64_t>(change.taken)});
  } else {
    residency_.on_passthrough_change();
  }
}

}  // namespace superpipe
