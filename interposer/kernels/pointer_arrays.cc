#include "interposer/kernels/pointer_arrays.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "interposer/driver/table.h"
#include "interposer/kernels/kernel_arguments.h"

namespace superpipe {
namespace {

void sort_once_each(std::vector<std::uint64_t>& buffers) {
  std::ranges::sort(buffers);
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
}

/// What `buffers` has and `others` has not. Both are sorted.
std::vector<std::uint64_t> without(const std::vector<std::uint64_t>& buffers,
                                   const std::vector<std::uint64_t>& others) {
  std::vector<std::uint64_t> rest;
  std::ranges::set_difference(buffers, others, std::back_inserter(rest));
  return rest;
}

/// Whether the host can read unified memory of `device` while the device works.
bool is_readable_beside(int device) noexcept {
  int concurrent = 0;
  return driver().cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                       std::max(device, 0)) == CUDA_SUCCESS &&
         concurrent != 0;
}

}  // namespace

// A launch that names buffers may fill its arrays anew; what lay behind these before is old then.
// One that names none reads them, or makes the one of the other.
bool PointerArrays::note_launch(std::span<const std::uint64_t> arrays,
                                std::span<const std::uint64_t> named) noexcept try {
  Buffers stored;
  add_live(named, stored);
  const auto is_known = [this](std::uint64_t array) { return knows(array); };
  if (stored.empty() && std::ranges::none_of(arrays, is_known)) return true;
  for (const std::uint64_t array : arrays) make_known(array);

  const bool may_fill = !stored.empty();
  const std::lock_guard lock(mutex_);
  Buffers fresh = std::move(stored);
  Buffers old;
  for (const std::uint64_t array : arrays) {
    const auto known = arrays_.find(array);
    if (known == arrays_.end()) continue;  // another thread has just freed it
    add_live(known->second.fresh, may_fill ? old : fresh);
    add_live(known->second.old, old);
  }
  sort_once_each(fresh);
  sort_once_each(old);
  old = without(old, fresh);
  for (const std::uint64_t array : arrays) {
    const auto known = arrays_.find(array);
    if (known != arrays_.end()) known->second = {fresh, old};
  }
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool PointerArrays::knows(std::uint64_t array) const {
  const std::lock_guard lock(mutex_);
  return arrays_.contains(array);
}

// Asks the driver where the allocation begins with which the array goes, without the mutex.
void PointerArrays::make_known(std::uint64_t array) {
  if (knows(array)) return;
  const std::uint64_t allocation = allocation_of(array);
  const std::lock_guard lock(mutex_);
  if (arrays_.contains(array)) return;
  arrays_of_allocation_.emplace(allocation, array);
  arrays_.try_emplace(array);
  const std::size_t bit = filter_bit(array);
  filter_[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_relaxed);
  any_.store(true, std::memory_order_relaxed);
}

void PointerArrays::collect(std::uint64_t address, Age age, WordList& words) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = arrays_.find(address);
  if (known == arrays_.end()) return;
  for (const std::uint64_t buffer : age == Age::kNew ? known->second.fresh : known->second.old) {
    if (residency_.find(buffer)) words.add(buffer);
  }
}

bool PointerArrays::collect_from_host(std::uint64_t address, WordList& words) const noexcept {
  unsigned type = 0;
  const void* data = nullptr;
  std::uint64_t base = 0;
  std::size_t size = 0;
  unsigned is_unified = 0;
  int device = -1;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_HOST_POINTER,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &data, &base, &size, &is_unified, &device};
  // Answers with zeros for memory that it does not know.
  if (driver().cuPointerGetAttributes(6, attributes, values, address) != CUDA_SUCCESS) return false;
  if (is_unified != 0 && is_readable_beside(device)) {
    data = reinterpret_cast<const void*>(address);
  } else if (type != CU_MEMORYTYPE_HOST || data == nullptr) {
    return false;
  }
  const std::uint64_t end = base + size;
  if (address < base || address >= end) return true;
  const auto is_pointer = [this](std::uint64_t word) {
    return residency_.in_arena(word) && residency_.find(word).has_value();
  };
  collect_copied(data, std::min<std::size_t>(end - address, kMostHostBytes), address, is_pointer,
                 words);
  return true;
}

void PointerArrays::forget(std::uint64_t address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = arrays_of_allocation_.equal_range(address);
  for (auto at = first; at != last; ++at) arrays_.erase(at->second);
  arrays_of_allocation_.erase(first, last);
  if (!arrays_.empty()) return;
  any_.store(false, std::memory_order_relaxed);
  for (auto& bits : filter_) bits.store(0, std::memory_order_relaxed);
}

// Adds the live buffers that `words` lie in.
void PointerArrays::add_live(std::span<const std::uint64_t> words, Buffers& buffers) const {
  for (const std::uint64_t word : words) {
    if (const auto buffer = residency_.find(word)) buffers.push_back(buffer->base);
  }
}

std::uint64_t PointerArrays::allocation_of(std::uint64_t address) const noexcept {
  if (residency_.in_arena(address)) {
    const auto buffer = residency_.find(address);
    return buffer ? buffer->base : address;
  }
  CUdeviceptr base = 0;
  const CUresult result =
      driver().cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  return result == CUDA_SUCCESS ? base : address;
}

}  // namespace superpipe
