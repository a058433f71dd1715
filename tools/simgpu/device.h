// The devices: capacity, engines, default memory pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "tools/simgpu/api.h"
#include "tools/simgpu/statistics.h"
#include "tools/simgpu/timeline.h"

namespace simgpu {

/// One simulated device. Created at cuInit, never destroyed.
class Device {
 public:
  Device(int ordinal, std::uint64_t capacity);

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }

  /// Takes `bytes` of physical memory. @return false, and nothing taken, if they do not fit.
  /// Thread-safe.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  /// As take(), for an allocation small enough to share 2 MiB blocks with others: what is taken is
  /// the sum of all small allocations, rounded up to blocks.
  bool take_small(std::uint64_t bytes);
  void give_back_small(std::uint64_t bytes);

  [[nodiscard]] EngineTimeline& engine(Engine engine) { return engines_[static_cast<int>(engine)]; }

 private:
  const int ordinal_;
  const std::uint64_t capacity_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> peak_{0};
  std::mutex small_mutex_;
  std::uint64_t small_bytes_ = 0;
  EngineTimeline engines_[kEngineCount];
};

/// The number of devices; 0 before cuInit.
int device_count() noexcept;

/// The device of `ordinal`, or null if there is none.
Device* find_device(CUdevice ordinal) noexcept;

/// The most physical bytes that all devices together ever held at one time.
std::uint64_t peak_of_all_devices() noexcept;

/// Creates the devices. Called once, by cuInit.
void create_devices();

}  // namespace simgpu
