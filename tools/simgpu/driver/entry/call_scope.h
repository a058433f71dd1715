// The time that one driver call takes, and the locks that it holds meanwhile.
#pragma once

#include <cstdint>

#include "tools/simgpu/driver/entry/call_costs.h"

namespace simgpu {

/// Makes the call in whose scope it lies take at least its cost, by the clock of the host; while it
/// lasts, calls of other threads wait as CallLock says. A call inside another one (on the same
/// thread) costs nothing. Without a cost, two comparisons.
///
/// Real drivers do not tell which locks they hold when; here nobody holds one while it waits for
/// work or for room in a queue. What calls took and waited for each other is in the statistics
/// (Statistics::call_ns, call_wait_ns). May wait for all work of the current context first
/// (CallCost::synchronises).
class CallScope {
 public:
  /// `cost` may be null: none. It outlives this.
  explicit CallScope(const CallCost* cost) noexcept {
    if (cost != nullptr) begin(*cost);
  }
  ~CallScope() {
    if (cost_ != nullptr) end();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  friend void charge_call(double nanoseconds) noexcept;
  friend void charge_host_page(std::uint64_t bytes) noexcept;
  void begin(const CallCost& cost) noexcept;
  void end() noexcept;

  const CallCost* cost_ = nullptr;  ///< null: costs nothing
  std::int64_t start_ = 0;          ///< when it got its lock, in nanoseconds
  std::int64_t end_ = 0;            ///< when it may return
};

/// Makes the calling thread's present driver call take so much longer. Does nothing outside of a
/// call that costs something.
void charge_call(double nanoseconds) noexcept;

/// The present call, cuMemCreate, makes a page on the host: it takes what pinning `bytes` does, and
/// not what it does for a page of the device.
void charge_host_page(std::uint64_t bytes) noexcept;
/// charge_call() for an unmapping beside a kernel that uses pages on the host.
void charge_busy_unmap() noexcept;

/// charge_call() for pinning `bytes` of host memory, and for loading a kernel at its first launch.
void charge_pinning(std::uint64_t bytes) noexcept;
void charge_loading() noexcept;

}  // namespace simgpu
