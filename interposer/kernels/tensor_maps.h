// Tensor maps: which device address lies behind the 128 bytes that a program hands to its kernels.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "interposer/kernels/word_list.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// The managed address behind each tensor map that a program has had encoded.
///
/// A launch shows its maps as opaque bytes: among the parameters, or in device memory. How the
/// driver writes the address into them is its own affair, so that a map is known by all of its
/// bytes. A map names an address and not a buffer: it stays good for whatever the program allocates
/// there next, and programs keep maps for memory that they free and get again. So nothing is
/// forgotten when a buffer is freed; but when more maps are known than ever before, those go whose
/// addresses no live buffer has, and a line says what may follow.
///
/// Thread-safe. No call throws, or calls the driver.
class TensorMaps {
 public:
  /// Bytes of a map, and what its address on the device is a multiple of (CUDA Driver API,
  /// cuTensorMapEncodeTiled).
  static constexpr std::size_t kBytes = 128;
  static constexpr std::size_t kAlignment = 64;
  /// The parameters of a kernel begin at a multiple of this on every device, but not of kAlignment.
  static constexpr std::size_t kStepInArguments = 16;
  /// So many maps are kept in any case.
  static constexpr std::size_t kKept = 32768;

  /// `residency` must outlive this.
  explicit TensorMaps(const ResidencyManager& residency) noexcept : residency_(residency) {}
  TensorMaps(const TensorMaps&) = delete;
  TensorMaps& operator=(const TensorMaps&) = delete;

  /// The kBytes at `map` are one of the tensor at `address`, an address of the arena.
  /// Amortised O(1). @return false if host memory does not suffice; it is not known then.
  [[nodiscard]] bool remember(const void* map, std::uint64_t address) noexcept;

  /// Whether there are any: one load.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }

  /// Adds the address of the map at `bytes`, if it is one. O(1); for other bytes mostly some
  /// arithmetic on them and one load.
  void collect(const void* bytes, WordList& words) const noexcept;

  /// The same for every `step` bytes of `size` bytes at `data`, from `first` on.
  void collect_all(const void* data, std::size_t size, std::size_t first, std::size_t step,
                   WordList& words) const noexcept;
  /// The same for bytes that come to be at `to` on the device: where a device could read a map.
  void collect_all_copied(const void* data, std::size_t size, std::uint64_t to,
                          WordList& words) const noexcept {
    collect_all(data, size, (kAlignment - to % kAlignment) % kAlignment, kAlignment, words);
  }

  /// How many are known.
  [[nodiscard]] std::size_t size() const noexcept;
  /// How many were encoded so far, known or not.
  [[nodiscard]] std::uint64_t encoded() const noexcept {
    return encoded_.load(std::memory_order_relaxed);
  }

 private:
  using Key = std::array<std::uint64_t, kBytes / sizeof(std::uint64_t)>;
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  static constexpr std::size_t kFilterBits = std::size_t{1} << 18;

  void forget_dead() noexcept;
  [[nodiscard]] static std::size_t filter_bit(std::size_t hash) noexcept {
    return hash & (kFilterBits - 1);
  }

  const ResidencyManager& residency_;
  std::atomic<bool> any_{false};
  std::atomic<std::uint64_t> encoded_{0};
  /// Has the bit of every map that was ever known: most bytes are told from a map without the lock.
  std::array<std::atomic<std::uint64_t>, kFilterBits / 64> filter_{};
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::uint64_t, Hash> addresses_;  ///< guarded by mutex_
  std::size_t limit_ = kKept;   ///< maps before dead ones are forgotten; guarded by mutex_
  bool has_forgotten_ = false;  ///< a line has said so; guarded by mutex_
};

}  // namespace superpipe
