#include "interposer/kernels/tensor_maps.h"

#include <algorithm>
#include <new>
#include <utility>

#include "interposer/log.h"

namespace superpipe {

// Multiplications of several words go on at a time: each of the four sums takes every fourth word.
std::size_t TensorMaps::Hash::operator()(const Key& key) const noexcept {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15ULL;
  constexpr std::size_t kSums = 4;
  std::array<std::uint64_t, kSums> sums{1, 2, 3, 4};
  for (std::size_t i = 0; i < key.size(); i += kSums) {
    for (std::size_t sum = 0; sum < kSums; ++sum) {
      sums[sum] = (sums[sum] ^ key[i + sum]) * kFactor;
      sums[sum] ^= sums[sum] >> 32;
    }
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) {
    all = (all ^ sum) * kFactor;
    all ^= all >> 32;
  }
  return all;
}

bool TensorMaps::remember(const void* map, std::uint64_t address) noexcept try {
  encoded_.fetch_add(1, std::memory_order_relaxed);
  Key key;
  std::memcpy(key.data(), map, kBytes);
  const std::size_t bit = filter_bit(Hash{}(key));
  const std::lock_guard lock(mutex_);
  if (addresses_.size() >= limit_) forget_dead();
  addresses_.insert_or_assign(key, address);
  // What launches with the map has it from the program, which orders that behind this call.
  filter_[bit / 64].fetch_or(std::uint64_t{1} << bit % 64, std::memory_order_relaxed);
  any_.store(true, std::memory_order_relaxed);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void TensorMaps::forget_dead() noexcept {
  const std::size_t forgotten = std::erase_if(
      addresses_, [this](const auto& known) { return !residency_.find(known.second); });
  // As many again before the next time, so that each map pays for it once.
  limit_ = std::max(kKept, 2 * addresses_.size());
  if (forgotten == 0 || std::exchange(has_forgotten_, true)) return;
  log_line(LogLevel::kWarning,
           "the program has so many tensor maps that those of freed memory are forgotten: a kernel "
           "that uses one of them again for memory that it gets back may fail");
}

void TensorMaps::collect(const void* bytes, WordList& words) const noexcept {
  Key key;
  std::memcpy(key.data(), bytes, kBytes);
  const std::size_t bit = filter_bit(Hash{}(key));
  const std::uint64_t filter = filter_[bit / 64].load(std::memory_order_relaxed);
  if ((filter >> bit % 64 & 1) == 0) [[likely]]
    return;
  const std::lock_guard lock(mutex_);
  const auto known = addresses_.find(key);
  if (known != addresses_.end()) words.add(known->second);
}

void TensorMaps::collect_all(const void* data, std::size_t size, std::size_t first,
                             std::size_t step, WordList& words) const noexcept {
  if (!any() || data == nullptr) return;
  const auto* const bytes = static_cast<const char*>(data);
  for (std::size_t at = first; at + kBytes <= size; at += step) collect(bytes + at, words);
}

std::size_t TensorMaps::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return addresses_.size();
}

}  // namespace superpipe
