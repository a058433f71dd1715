// The records of one thread that have not been written yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace superpipe {

/// A queue of records between one thread that adds them and one that takes them, neither of which
/// ever waits. Where there is no room, a record is dropped and counted.
///
/// Records are any number of bytes, lie in one piece, and begin at multiples of 8. add() is for one
/// thread, front(), pop() and is_empty() for one other; the rest for any.
class TraceRing {
 public:
  /// `capacity`: bytes, a power of two. Throws std::bad_alloc.
  explicit TraceRing(std::size_t capacity) : mask_(capacity - 1), bytes_(new std::byte[capacity]) {}
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;

  /// Adds a record of `size` bytes that `fill` writes to the place it is given.
  template <typename Fill>
  void add(std::size_t size, const Fill& fill) noexcept {
    const std::size_t length = kLengthBytes + round_up_to_8(size);
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::size_t to_wrap = mask_ + 1 - (head & mask_);
    const std::size_t needed = length <= to_wrap ? length : to_wrap + length;
    if (head + needed - known_tail_ > mask_ + 1) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head + needed - known_tail_ > mask_ + 1) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    if (length > to_wrap) [[unlikely]] {
      length_at(head) = kWrap;
      head += to_wrap;
    }
    length_at(head) = length;
    fill(&bytes_[(head & mask_) + kLengthBytes]);
    head_.store(head + length, std::memory_order_release);
  }

  /// A place in the order of what was added: all that is there now.
  [[nodiscard]] std::uint64_t end() const noexcept { return head_.load(std::memory_order_acquire); }
  /// The oldest record, if it was there at `end`; null: none was. Valid until pop().
  [[nodiscard]] const std::byte* front(std::uint64_t end) noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == end) return nullptr;
    if (length_at(tail) == kWrap) {
      tail += mask_ + 1 - (tail & mask_);
      tail_.store(tail, std::memory_order_release);
    }
    return &bytes_[(tail & mask_) + kLengthBytes];
  }
  /// Forgets the record that front() showed.
  void pop() noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    tail_.store(tail + length_at(tail), std::memory_order_release);
  }

  /// Records for which there was no room.
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }

  /// Its thread adds nothing any more: once it is empty it may go.
  void retire() noexcept { retired_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_retired() const noexcept {
    return retired_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_empty() const noexcept {
    return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
  static constexpr std::uint64_t kWrap = 0;  // the rest of the memory is unused

  static constexpr std::size_t round_up_to_8(std::size_t size) {
    return (size + 7) & ~std::size_t{7};
  }
  std::uint64_t& length_at(std::uint64_t place) noexcept {
    return *reinterpret_cast<std::uint64_t*>(&bytes_[place & mask_]);
  }

  const std::size_t mask_;
  const std::unique_ptr<std::byte[]> bytes_;
  // Each side's words lie in cache lines of their own.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t known_tail_ = 0;  // what the adding thread saw last
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::atomic<bool> retired_{false};
};

}  // namespace superpipe
