// What the machine says about host memory, and how much of it the host store may take.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "policy/budget.h"
#include "policy/units.h"
#include "residency/tuning.h"

namespace superpipe {

/// The limit that Linux control groups put on this process's memory.
struct CgroupLimit {
  Bytes limit;  ///< the least limit among the process's group and the groups above it
  /// What the group with that limit uses, less what the kernel caches of files and gives up when
  /// memory is short; nullopt if not known.
  std::optional<Bytes> used;
  int version = 2;       ///< of that group: 1 or 2
  std::uint64_t id = 0;  ///< the inode of that group's folder, which names it for all; 0: none

  /// What the group may still use. What is not known to be used counts as free.
  [[nodiscard]] Bytes left() const;
};

/// Host memory at the moment of reading; nullopt where the machine says nothing.
struct HostMemory {
  std::optional<Bytes> total;         ///< MemTotal
  std::optional<Bytes> available;     ///< MemAvailable
  std::optional<CgroupLimit> cgroup;  ///< nullopt: no control group limits this process

  /// Bytes that this process could still take: what is available, within what the control group
  /// leaves. nullopt if neither is known.
  [[nodiscard]] std::optional<Bytes> usable() const;
};

/// Reads /proc/meminfo and the memory limits of this process's control groups, of version 2
/// (memory.max) and of version 1's memory controller (memory.limit_in_bytes).
///
/// `root`: a folder in front of every path, for tests; "" for the machine itself. What cannot be
/// read is nullopt. Opens a few small files; any thread.
[[nodiscard]] HostMemory read_host_memory(const std::string& root);

/// Looks at host memory again where something would be refused for what it was at first.
/// Thread-safe.
class HostMemoryWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// An operation that is refused all the same may come again at once. So after a look in vain
  /// there is none for as much for this long at least.
  static constexpr auto kLeastPause = tuning::kHostLookLeastPause;

  /// Reads for the first time. `root`: as read_host_memory() has it. Throws std::bad_alloc.
  explicit HostMemoryWatch(std::string root = "",
                           std::function<Clock::time_point()> now = Clock::now);

  [[nodiscard]] const HostMemory& at_first() const { return first_; }
  /// What there is now, for a caller that needs `size` bytes. Takes 0.1 ms and more, as the kernel
  /// has to sum up what a group uses.
  /// @return nullopt: the machine says less than at first, or a look for that much was in vain and
  /// is not long ago.
  [[nodiscard]] std::optional<HostMemory> look(Bytes size) noexcept;
  /// What was seen did not help the caller that needs `size` bytes.
  void note_in_vain(Bytes size) noexcept;

 private:
  [[nodiscard]] bool knows_as_much(const HostMemory& memory) const;
  void pause(Bytes size);

  const std::string root_;
  const std::function<Clock::time_point()> now_;
  const HostMemory first_;
  std::mutex mutex_;
  Clock::duration took_{};  ///< the last look
  Clock::time_point paused_until_{};
  Bytes in_vain_;  ///< while paused: the least for which a look was in vain
};

/// The cap of the host store in bytes: fifteen sixteenths of what is usable, the rest being left to
/// the program itself, and never more than the user allows (a percentage is of MemTotal).
///
/// `own`: what the store has already, so that it is not usable any more, and belongs to what is
/// divided. Where the usable bytes are unknown it is what the user allows, and zero without that.
/// Pure.
[[nodiscard]] Bytes host_store_limit(const HostMemory& memory,
                                     const std::optional<SizeSpec>& allowed, Bytes own = {});

/// What the host stores of several processes may take together.
struct HostCaps {
  /// No cap: more than any machine has.
  static constexpr Bytes kNone{std::uint64_t{1} << 56};

  Bytes host = kNone;       ///< those of all processes
  std::uint64_t group = 0;  ///< the control group that limits this process, by its inode; 0: none
  Bytes in_group = kNone;   ///< those of the processes in that group

  bool operator==(const HostCaps&) const = default;
};

/// The caps that follow from what the host and the control group leave: fifteen sixteenths of each,
/// and of the store's `own` as above. What is not known caps nothing. Pure.
[[nodiscard]] HostCaps host_caps(const HostMemory& memory, Bytes own = {});

}  // namespace superpipe
