#include "interposer/kernels/pointer_pins.h"

#include <memory>
#include <new>
#include <utility>

#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/hooks/gates.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/word_list.h"
#include "interposer/log.h"

namespace superpipe {
namespace {

constexpr char kInDeviceMemory[] = "device memory holds a pointer to them";

}  // namespace

/// What a scan in a stream's order searches. Owned by the stream's host function.
struct PointerPins::StreamScan {
  PointerPins* pins;
  const void* data;
  std::size_t size;
  std::uint64_t to;
  HostFunctionPermit permit;
};

Status PointerPins::pin(std::span<const std::uint64_t> words, const char* reason) noexcept {
  if (words.empty()) return Status::kOk;
  try {
    return residency_.pin_forever(words, reason);
  } catch (...) {
    return Status::kOutOfHostMemory;
  }
}

void PointerPins::collect(const void* data, std::size_t size, std::uint64_t to,
                          WordList& words) const noexcept {
  if (size <= kLargestScan) {
    // In the arena is not enough: numbers are, too. What the program stores there as a pointer it
    // has from an allocation, so that a live buffer has it.
    const auto is_pointer = [this](std::uint64_t word) {
      return residency_.in_arena(word) && residency_.find(word).has_value();
    };
    collect_copied(data, size, to, is_pointer, words);
  }
  if (size <= kLargestMapScan) maps_.collect_all_copied(data, size, to, words);
}

Status PointerPins::pin_named_by(const void* data, std::size_t size, std::uint64_t to) noexcept {
  if (data == nullptr || !is_searched(size)) return Status::kOk;
  WordList words;
  collect(data, size, to, words);
  if (words.failed()) return Status::kOutOfHostMemory;
  return pin(words.words(), kInDeviceMemory);
}

void PointerPins::scan_in_stream(const void* data, std::size_t size, std::uint64_t to,
                                 StreamHandle stream) noexcept {
  if (data == nullptr || !is_searched(size)) return;
  HostFunctionPermit permit = HostFunctionPermit::ask();
  if (!permit.is_given()) return watch(data, size, to, stream);
  auto* const scan = new (std::nothrow) StreamScan{this, data, size, to, std::move(permit)};
  if (scan == nullptr) return;
  if (driver().cuLaunchHostFunc(driver_stream(stream), run_scan, scan) != CUDA_SUCCESS) delete scan;
}

void PointerPins::run_scan(void* scan) noexcept {
  const std::unique_ptr<StreamScan> owned(static_cast<StreamScan*>(scan));
  PointerPins& pins = *owned->pins;
  WordList words;
  pins.collect(owned->data, owned->size, owned->to, words);
  if (!words.empty()) pins.add_pending(words.words());
}

void PointerPins::close() noexcept {
  const std::lock_guard lock(watched_mutex_);
  watched_.stop();
}

void PointerPins::watch(const void* data, std::size_t size, std::uint64_t to,
                        StreamHandle stream) noexcept {
  // Without the mutex: where the stream has no room the driver may hold this thread up.
  const CUevent before_copy = WatchedSources::mark(stream);
  bool is_watched = false;
  if (before_copy != nullptr) {
    const std::lock_guard lock(watched_mutex_);
    is_watched = watched_.add(data, size, to, before_copy);
    if (is_watched) has_pending_.store(true, std::memory_order_release);
  }
  if (!is_watched) tell_unwatched();
}

void PointerPins::tell_unwatched() noexcept {
  static std::atomic<bool> has_told{false};
  if (has_told.exchange(true)) return;
  log_line(LogLevel::kWarning,
           "what a copy to the device will read cannot be watched until then: a pointer that the "
           "program puts there after its call goes unseen");
}

// A thread that looks already looks for this one as well.
void PointerPins::look_at_watched() noexcept {
  const std::unique_lock lock(watched_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || watched_.empty()) return;
  try {
    const bool is_complete =
        watched_.look_at_all([this](const void* data, std::size_t size, std::uint64_t to) {
          WordList words;
          collect(data, size, to, words);
          if (!words.empty()) add_pending(words.words());
        });
    if (!is_complete) tell_unwatched();
  } catch (...) {
    log_line(LogLevel::kError, "out of memory: a pointer in device memory may go unseen");
  }
}

void PointerPins::add_pending(std::span<const std::uint64_t> words) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    pending_.insert(pending_.end(), words.begin(), words.end());
    has_pending_.store(true, std::memory_order_release);
  } catch (...) {
    log_line(LogLevel::kError, "out of memory: a pointer in device memory goes unseen");
  }
}

Status PointerPins::pin_pending() noexcept {
  look_at_watched();
  std::vector<std::uint64_t> words;
  {
    // Those that are still watched are looked at again by the next launch.
    const std::unique_lock watched_lock(watched_mutex_, std::try_to_lock);
    const std::lock_guard lock(mutex_);
    words.swap(pending_);
    if (watched_lock.owns_lock()) {
      has_pending_.store(!watched_.empty(), std::memory_order_relaxed);
    }
  }
  if (words.empty()) return Status::kOk;
  const Status status = pin(words, kInDeviceMemory);
  // They still have to be pinned: the next launch tries again.
  if (status != Status::kOk) add_pending(words);
  return status;
}

}  // namespace superpipe
