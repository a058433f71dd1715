#include "tools/simgpu/driver/memory/pool_table.h"

#include <utility>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/process/log.h"

namespace simgpu {
namespace {

std::size_t index_of(const Device& device) { return static_cast<std::size_t>(device.ordinal()); }

}  // namespace

PoolTable& PoolTable::instance() {
  static auto* const pools = new PoolTable;
  return *pools;
}

PoolPtr PoolTable::make_locked(Device& device, bool is_default) {
  auto pool = std::make_shared<MemoryPool>(device, is_default);
  pool->handle = live_.add(pool);
  of_device_[index_of(device)].push_back(pool);
  return pool;
}

PoolPtr PoolTable::create(Device& device) {
  default_of(device);  // the first of the device's list, so it has to be there
  const std::lock_guard lock{mutex_};
  return make_locked(device, false);
}

void PoolTable::destroy(const PoolPtr& pool) {
  if (current_of(pool->device()) == pool) choose(pool->device(), nullptr);
  live_.remove(pool->handle);
}

PoolPtr PoolTable::find_ever(CUmemoryPool handle) {
  const std::lock_guard lock{mutex_};
  for (const auto& list : of_device_) {
    for (const PoolPtr& pool : list) {
      if (pool->handle == handle) return pool;
    }
  }
  return nullptr;
}

PoolPtr PoolTable::default_of(Device& device) {
  const std::lock_guard lock{mutex_};
  const auto& pools = of_device_[index_of(device)];
  return pools.empty() ? make_locked(device, true) : pools.front();
}

PoolPtr PoolTable::current_of(Device& device) {
  PoolPtr first = default_of(device);
  const std::lock_guard lock{mutex_};
  const PoolPtr& chosen = current_[index_of(device)];
  return chosen == nullptr ? first : chosen;
}

void PoolTable::choose(Device& device, PoolPtr pool) {
  const std::lock_guard lock{mutex_};
  current_[index_of(device)] = std::move(pool);
}

std::vector<PoolPtr> PoolTable::all_of(const Device& device) {
  const std::lock_guard lock{mutex_};
  return of_device_[index_of(device)];
}

PoolPtr pool_of(const Allocation& allocation) {
  return PoolTable::instance().find_ever(allocation.pool);
}

void trim_pools_of(const Device& device) {
  for (const PoolPtr& pool : PoolTable::instance().all_of(device)) pool->trim_to_threshold();
}

void empty_pools_of(const Device& device) {
  for (const PoolPtr& pool : PoolTable::instance().all_of(device)) pool->trim(0);
}

void release_pool_memory_of(const Context& context) {
  for (const Allocation& left :
       AddressSpace::instance().allocations().pool_allocations_of(context)) {
    if (const PoolPtr pool = pool_of(left)) pool->free_now(left.base);
  }
  empty_pools_of(context.device());
}

PoolPtr find_pool(CUmemoryPool handle) {
  PoolPtr found = PoolTable::instance().find(handle);
  if (found == nullptr) {
    log_line(LogLevel::kWarning, "there is no memory pool %p: a real driver may crash",
             static_cast<void*>(handle));
  }
  return found;
}

}  // namespace simgpu
