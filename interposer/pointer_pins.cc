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

bool is_searched(const void* data, std::size_t size) noexcept {
  return data != nullptr && size >= sizeof(std::uint64_t) && size <= PointerPins::kLargestScan;
}

}  // namespace

/// What a scan in a stream's order searches. Owned by the stream's host function.
struct PointerPins::StreamScan {
  PointerPins* pins;
  const void* data;
  std::size_t size;
};

Status PointerPins::pin(std::span<const std::uint64_t> words, const char* reason) noexcept {
  if (words.empty()) return Status::kOk;
  try {
    return residency_.pin_forever(words, reason);
  } catch (...) {
    return Status::kOutOfHostMemory;
  }
}

Status PointerPins::pin_named_by(const void* data, std::size_t size) noexcept {
  if (!is_searched(data, size)) return Status::kOk;
  WordList words;
  collect_bytes(
      data, size, [this](std::uint64_t word) { return residency_.in_arena(word); }, words);
  if (words.failed()) return Status::kOutOfHostMemory;
  return pin(words.words(), kInDeviceMemory);
}

void PointerPins::scan_in_stream(const void* data, std::size_t size, StreamHandle stream) noexcept {
  if (!is_searched(data, size)) return;
  auto* const scan = new (std::nothrow) StreamScan{this, data, size};
  if (scan == nullptr) return;
  if (driver().cuLaunchHostFunc(driver_stream(stream), run_scan, scan) != CUDA_SUCCESS) delete scan;
}

void PointerPins::run_scan(void* scan) noexcept {
  const std::unique_ptr<StreamScan> owned(static_cast<StreamScan*>(scan));
  PointerPins& pins = *owned->pins;
  WordList words;
  collect_bytes(
      owned->data, owned->size,
      [&pins](std::uint64_t word) { return pins.residency_.in_arena(word); }, words);
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
