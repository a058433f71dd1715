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
  live_.withdraw(pool->handle);
}

void PoolTable::forget(const PoolPtr& pool) {
  const std::lock_guard lock{mutex_};
  if (std::erase(of_device_[index_of(pool->device())], pool) != 0) live_.release(pool->handle);
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

void note_synchronisation(const Device& device, const std::function<bool(StreamPoint)>& waited) {
  for (const PoolPtr& pool : PoolTable::instance().all_of(device)) {
    pool->note_synchronisation(waited);
    if (pool->gone()) PoolTable::instance().forget(pool);
  }
}

void empty_pools_of(const Device& device) {
  for (const PoolPtr& pool : PoolTable::instance().all_of(device)) {
    pool->trim(0);
    if (pool->gone()) PoolTable::instance().forget(pool);
  }
}

void release_pool_memory_of(const Context& context) {
  for (const Allocation& left :
       AddressSpace::instance().allocations().pool_allocations_of(context)) {
    left.pool->free_now(left.base);
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
