#include "interposer/pointer_pins.h"

#include <memory>
#include <new>

#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/kernel_arguments.h"
#include "interposer/log.h"
#include "interposer/word_list.h"

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
  auto* const scan = new (std::nothrow) StreamScan{this, data, size, to};
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
  std::vector<std::uint64_t> words;
  {
    const std::lock_guard lock(mutex_);
    words.swap(pending_);
    has_pending_.store(false, std::memory_order_relaxed);
  }
  const Status status = pin(words, kInDeviceMemory);
  // They still have to be pinned: the next launch tries again.
  if (status != Status::kOk) add_pending(words);
  return status;
}

}  // namespace superpipe
