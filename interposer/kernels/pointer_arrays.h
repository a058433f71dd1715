// Arrays of pointers that kernels fill and read: which managed buffers lie behind them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "interposer/kernels/word_list.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// The managed buffers behind the arrays of pointers that a program's kernels get.
///
/// Batched and grouped products get their operands as arrays of pointers, which another kernel has
/// filled before: the launch shows where the array is, and not what is in it. But a kernel that
/// fills one gets what it stores there from its other parameters, or from other arrays. So whatever
/// a launch names lies behind each array that its kernel gets, from then on, and what lies behind
/// one of the arrays lies behind all of them. That may be too much: what lies behind an array since
/// it was last filled is told from what did before, and all is forgotten when the array's memory is
/// freed. An array in host memory is read when its kernel is launched.
///
/// Thread-safe. No call throws.
class PointerArrays {
 public:
  /// So much is read of an array in host memory at most: 32,768 pointers.
  static constexpr std::size_t kMostHostBytes = 256 << 10;

  /// Which of the buffers behind an array.
  enum class Age : std::uint8_t {
    kNew,  ///< those that the launch named that filled it last, and launches behind it
    kOld,  ///< those before
  };

  /// `residency` must outlive this.
  explicit PointerArrays(const ResidencyManager& residency) noexcept : residency_(residency) {}
  PointerArrays(const PointerArrays&) = delete;
  PointerArrays& operator=(const PointerArrays&) = delete;

  /// Whether any array is known: one load.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_relaxed); }
  /// Whether an array may be at `address`: one load, and hardly ever true if there is none.
  [[nodiscard]] bool may_be_at(std::uint64_t address) const noexcept {
    const std::size_t bit = filter_bit(address);
    return (filter_[bit / 64].load(std::memory_order_relaxed) >> (bit % 64) & 1) != 0;
  }

  /// A kernel gets the arrays in device memory at `arrays`, and its launch names the addresses
  /// `named` in the arena. Asks the driver for each array that is new. Does nothing where nothing
  /// is behind.
  /// @return false if host memory does not suffice: it is not known then what is in the arrays.
  [[nodiscard]] bool note_launch(std::span<const std::uint64_t> arrays,
                                 std::span<const std::uint64_t> named) noexcept;

  /// Adds an address in each live buffer of that `age` behind the array at `address`, if there is
  /// one.
  void collect(std::uint64_t address, Age age, WordList& words) const noexcept;

  /// Adds the addresses of live buffers in the array at `address`, if that is page-locked host
  /// memory, or unified memory that the host can read beside the device. Asks the driver. @return
  /// whether it is.
  bool collect_from_host(std::uint64_t address, WordList& words) const noexcept;

  /// The program frees what begins at `address`: forgets the arrays in it.
  void forget(std::uint64_t address) noexcept;

 private:
  /// The first addresses of buffers, sorted.
  using Buffers = std::vector<std::uint64_t>;
  struct Array {
    Buffers fresh;
    Buffers old;  ///< none of `fresh`
  };
  static constexpr std::size_t kFilterBits = 4096;

  [[nodiscard]] static std::size_t filter_bit(std::uint64_t address) noexcept {
    return (address * 0x9E3779B97F4A7C15ULL) >> 52;
  }
  void add_live(std::span<const std::uint64_t> words, Buffers& buffers) const;
  [[nodiscard]] bool knows(std::uint64_t array) const;
  void make_known(std::uint64_t array);
  [[nodiscard]] std::uint64_t allocation_of(std::uint64_t address) const noexcept;

  const ResidencyManager& residency_;
  std::atomic<bool> any_{false};
  /// Has the bit of every array that was known since there was none.
  std::array<std::atomic<std::uint64_t>, kFilterBits / 64> filter_{};
  mutable std::mutex mutex_;
  // Both by address, and guarded by mutex_.
  std::unordered_map<std::uint64_t, Array> arrays_;
  std::unordered_multimap<std::uint64_t, std::uint64_t> arrays_of_allocation_;
};

}  // namespace superpipe
