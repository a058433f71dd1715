// What processes know of each other that use the same simulated devices.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "tools/simgpu/driver/device/timeline.h"

namespace simgpu {

/// One device's part of what is shared: memory in use, by process, and until when the link is
/// taken. It lies in memory that other processes change at any time. Thread-safe; takes no lock, so
/// that a process may die at any point.
class SharedDevice {
 public:
  static constexpr int kDirections = 2;

  /// This process uses the device from now on. @return false if there are too many processes.
  /// To be called once in a process.
  bool join() noexcept;
  /// This process takes so many bytes, or gives them back. @return false if it has not joined, as
  /// the child of a fork: then nothing was taken.
  bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept;
  /// What all other living processes have in use.
  [[nodiscard]] std::uint64_t used_by_others() noexcept;

  /// Calls `tell` with each other living process and what it has in use.
  void for_each_other(
      const std::function<void(std::int32_t process, std::uint64_t bytes)>& tell) noexcept;

  /// Until when the link is taken in that direction.
  [[nodiscard]] Nanoseconds free_at(int direction) const noexcept {
    return free_at_[static_cast<std::size_t>(direction)].load();
  }
  /// Takes it up to `end`, if it is still taken up to `seen`. @return whether it was; `seen` is
  /// what it is otherwise.
  bool take_link(int direction, Nanoseconds& seen, Nanoseconds end) noexcept {
    return free_at_[static_cast<std::size_t>(direction)].compare_exchange_strong(seen, end);
  }
  /// Nothing may start before `end`.
  void push_back(int direction, Nanoseconds end) noexcept;

 private:
  struct Entry {
    std::atomic<std::int32_t> process{kNobody};
    std::atomic<std::uint64_t> bytes{0};
  };
  static constexpr int kMostProcesses = 128;
  static constexpr std::int32_t kNobody = 0;
  static constexpr std::int32_t kChanging = -1;  // its bytes become 0

  Entry* own_entry() noexcept;
  static bool pass_on(Entry& entry, std::int32_t from, std::int32_t to) noexcept;

  std::array<std::atomic<Nanoseconds>, kDirections> free_at_{};
  std::array<Entry, kMostProcesses> entries_{};

  static_assert(std::atomic<Nanoseconds>::is_always_lock_free);
};

/// The parts of all devices, by ordinal, in the file at `path`, which is made if there is none.
/// They stay mapped, and the process has joined all of them. To be called once. @return null if the
/// file cannot be made, opened or mapped; errno says why.
SharedDevice* map_shared_devices(const char* path, int count) noexcept;

}  // namespace simgpu
