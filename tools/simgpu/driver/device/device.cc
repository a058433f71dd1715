#include "tools/simgpu/driver/device/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <string>

#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"
#include "tools/simgpu/driver/process/statistics.h"

namespace simgpu {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{2} << 20;

std::array<Device*, kMaxDevices> devices{};  // never destroyed
std::atomic<int> devices_created{0};
std::atomic<std::uint64_t> used_by_all{0};
std::atomic<std::uint64_t> peak_by_all{0};

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
  std::uint64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

LinkTimeline::Direction direction_of(Engine engine) {
  return engine == Engine::kHostToDevice ? LinkTimeline::Direction::kHostToDevice
                                         : LinkTimeline::Direction::kDeviceToHost;
}

std::uint64_t blocks_for(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

Device::Device(int ordinal, const Card& card, std::uint64_t others, int compute_engines,
               SharedDevice* shared)
    : ordinal_(ordinal),
      capacity_(card.memory_bytes),
      shared_(shared),
      others_(others),
      compute_(compute_engines),
      link_(card.duplex, shared) {}

Slot Device::reserve(Engine engine, Nanoseconds ready, Nanoseconds duration, int priority) {
  Slot slot;
  if (engine == Engine::kCompute) {
    slot.start = compute_.reserve(ready, duration, priority);
    slot.end = slot.start + duration;
  } else {
    slot = link_.reserve(direction_of(engine), ready, duration);
  }
  statistics().busy_ns[static_cast<std::size_t>(engine)].fetch_add(slot.end - slot.start,
                                                                   std::memory_order_relaxed);
  return slot;
}

Nanoseconds Device::reserve_link(Engine engine, Nanoseconds start, Nanoseconds duration) {
  if (duration <= 0) return start;
  const Slot slot = link_.reserve(direction_of(engine), start, duration);
  statistics().busy_ns[static_cast<std::size_t>(engine)].fetch_add(slot.end - slot.start,
                                                                   std::memory_order_relaxed);
  return slot.end;
}

Slot Device::reserve_with_link(Nanoseconds ready, const KernelTimes& times, int priority) {
  const Nanoseconds least = std::max({times.compute, times.read, times.written});
  Slot slot;
  slot.start = compute_.reserve(ready, least, priority);
  slot.end = slot.start + least;
  const Nanoseconds end =
      std::max({slot.end, reserve_link(Engine::kHostToDevice, slot.start, times.read),
                reserve_link(Engine::kDeviceToHost, slot.start, times.written)});
  if (end > slot.end) {
    compute_.push_back(slot.end, end);
    slot.end = end;
  }
  statistics().busy_ns[static_cast<std::size_t>(Engine::kCompute)].fetch_add(
      slot.end - slot.start, std::memory_order_relaxed);
  return slot;
}

void Device::overrun(Engine engine, const Slot& slot, Nanoseconds actual) {
  if (engine == Engine::kCompute) {
    compute_.push_back(slot.end, actual);
  } else {
    link_.push_back(direction_of(engine), actual);
  }
  const Nanoseconds late = actual - slot.end;
  statistics().overrun_ns.fetch_add(late, std::memory_order_relaxed);
  statistics().busy_ns[static_cast<std::size_t>(engine)].fetch_add(late, std::memory_order_relaxed);
}

std::uint64_t Device::used_by_others() const {
  const std::string& path = configuration().other_file;
  if (!path.empty()) {
    std::ifstream file(path);
    std::string text;
    std::uint64_t bytes = 0;
    if (file >> text && parse_size(text, &bytes)) others_.store(bytes, std::memory_order_relaxed);
  }
  const std::uint64_t left = capacity_ - std::min(capacity_, used());
  const std::uint64_t sharing = shared_ == nullptr ? 0 : shared_->used_by_others();
  return std::min(others_.load(std::memory_order_relaxed) + sharing, left);
}

bool Device::take(std::uint64_t bytes) {
  // Before the others are looked at: of two that take the last bytes at once one may be refused in
  // vain, but never do both get them.
  if (shared_ != nullptr && !shared_->take(bytes)) return false;
  if (take_of_own(bytes)) return true;
  if (shared_ != nullptr) shared_->give_back(bytes);
  return false;
}

bool Device::take_of_own(std::uint64_t bytes) {
  const std::uint64_t others = used_by_others();
  std::uint64_t before = used_.load(std::memory_order_relaxed);
  do {
    if (others + before > capacity_ || bytes > capacity_ - others - before) return false;
  } while (!used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  raise_to(peak_, before + bytes);
  raise_to(peak_by_all, used_by_all.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  return true;
}

void Device::give_back(std::uint64_t bytes) {
  if (shared_ != nullptr) shared_->give_back(bytes);
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  used_by_all.fetch_sub(bytes, std::memory_order_relaxed);
}

bool SmallBlocks::take(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t more = blocks_for(bytes_ + bytes) - blocks_for(bytes_);
  if (more != 0 && !device_.take(more)) return false;
  bytes_ += bytes;
  return true;
}

void SmallBlocks::give_back(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t less = blocks_for(bytes_) - blocks_for(bytes_ - bytes);
  bytes_ -= bytes;
  if (less != 0) device_.give_back(less);
}

int device_count() noexcept { return devices_created.load(std::memory_order_acquire); }

Device* find_device(CUdevice ordinal) noexcept {
  return ordinal >= 0 && ordinal < device_count() ? devices[static_cast<std::size_t>(ordinal)]
                                                  : nullptr;
}

std::uint64_t peak_of_all_devices() noexcept { return peak_by_all.load(); }

void create_devices() {
  const Configuration& settings = configuration();
  for (int ordinal = 0; ordinal < settings.devices; ++ordinal) {
    devices[static_cast<std::size_t>(ordinal)] =
        new Device(ordinal, settings.card, settings.other_bytes, settings.compute_engines,
                   settings.shared == nullptr ? nullptr : settings.shared + ordinal);
  }
  devices_created.store(settings.devices, std::memory_order_release);
}

}  // namespace simgpu
