// The devices: capacity, engines, default memory pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "tools/simgpu/driver/device/card.h"
#include "tools/simgpu/driver/device/compute_timeline.h"
#include "tools/simgpu/driver/device/link_timeline.h"
#include "tools/simgpu/driver/device/shared_devices.h"
#include "tools/simgpu/driver/device/timeline.h"
#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

/// The most devices that there can be.
inline constexpr int kMaxDevices = 64;

class Device;

/// Memory small enough to share 2 MiB blocks with others of its kind: what is taken of the device
/// is the sum, rounded up to blocks. Thread-safe.
class SmallBlocks {
 public:
  explicit SmallBlocks(Device& device) : device_(device) {}

  [[nodiscard]] Device& device() const { return device_; }
  /// @return false, and nothing taken, if `bytes` do not fit.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

 private:
  Device& device_;
  std::mutex mutex_;
  std::uint64_t bytes_ = 0;
};

/// One simulated device. Created at cuInit, never destroyed.
class Device {
 public:
  /// A device of the size and the link of `card`; `others` bytes are in use by other processes.
  /// `shared`: what processes know of each other that use it, and must outlive it; null: none do.
  Device(int ordinal, const Card& card, std::uint64_t others, int compute_engines,
         SharedDevice* shared = nullptr);

  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  /// By other processes: what SIMGPU_OTHER_FILE says at this moment, if it is set and has a size,
  /// and what those have that share the device. Never more than this process leaves.
  [[nodiscard]] std::uint64_t used_by_others() const;

  /// Takes `bytes` of physical memory. @return false, and nothing taken, if they do not fit.
  /// Thread-safe.
  bool take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  /// By this process.
  [[nodiscard]] std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }

  /// The blocks of small allocations, and those of the code and variables of modules.
  [[nodiscard]] const std::shared_ptr<SmallBlocks>& small_allocations() const {
    return small_allocations_;
  }
  [[nodiscard]] const std::shared_ptr<SmallBlocks>& modules() const { return modules_; }

  /// @name The engines' modelled schedules. Thread-safe. REQUIRES: not kNone.
  /// @{
  /// Reserves `engine` for work of `duration` of a stream of `priority`, not before `ready`. May
  /// wait for compute engines (compute_timeline.h). Copies in both directions at once take longer
  /// (link_timeline.h).
  Slot reserve(Engine engine, Nanoseconds ready, Nanoseconds duration, int priority);
  /// What a kernel takes that uses memory on the host.
  struct KernelTimes {
    Nanoseconds compute = 0;  ///< of a compute engine, if the link kept up
    Nanoseconds read = 0;     ///< of the link from the host, if nothing else used it
    Nanoseconds written = 0;  ///< of the link to the host
  };
  /// Reserves a compute engine and the link for a kernel. It takes its place on the link when it
  /// starts, behind the copies that are there, and has its engine until the last of the three is
  /// done.
  Slot reserve_with_link(Nanoseconds ready, const KernelTimes& times, int priority);
  /// Work that reserve() gave `slot` really ended at `actual`, later: nothing starts before it, and
  /// the engine was busy until then.
  void overrun(Engine engine, const Slot& slot, Nanoseconds actual);
  /// @}

 private:
  bool take_of_own(std::uint64_t bytes);
  /// Takes the link for a kernel that starts at `start`. @return when it is done.
  Nanoseconds reserve_link(Engine engine, Nanoseconds start, Nanoseconds duration);

  const int ordinal_;
  const std::uint64_t capacity_;
  SharedDevice* const shared_;
  mutable std::atomic<std::uint64_t> others_;  ///< as last read
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> peak_{0};
  const std::shared_ptr<SmallBlocks> small_allocations_ = std::make_shared<SmallBlocks>(*this);
  const std::shared_ptr<SmallBlocks> modules_ = std::make_shared<SmallBlocks>(*this);
  ComputeTimeline compute_;
  LinkTimeline link_;
};

/// The number of devices; 0 before cuInit.
int device_count() noexcept;

/// The device of `ordinal`, or null if there is none.
Device* find_device(CUdevice ordinal) noexcept;

/// The value of `attribute`; 0 for one that simgpu does not know.
int attribute_of(const Device& device, CUdevice_attribute attribute) noexcept;

/// The most physical bytes that all devices together ever held at one time.
std::uint64_t peak_of_all_devices() noexcept;

/// Creates the devices. Called once, by cuInit.
void create_devices();

}  // namespace simgpu
