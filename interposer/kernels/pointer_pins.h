// Pointers to managed buffers where no launch shows them: those buffers stay resident.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "interposer/kernels/tensor_maps.h"
#include "interposer/kernels/watched_sources.h"
#include "interposer/kernels/word_list.h"
#include "residency/device_memory.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// Pins the buffers of one residency manager that a program names outside of launches: in bytes
/// that it copies to the device, in captured graphs, in calls whose order events cannot keep.
///
/// A pinned buffer stays resident until it is freed. Thread-safe. No call throws.
class PointerPins {
 public:
  /// Copies of more bytes are not searched: pointers come in small copies, weights in large ones.
  static constexpr std::size_t kLargestScan = 256 << 10;

  /// Nor are larger ones for tensor maps, of which 8,192 fit in.
  static constexpr std::size_t kLargestMapScan = 1 << 20;

  /// Both must outlive this.
  PointerPins(ResidencyManager& residency, const TensorMaps& maps) noexcept
      : residency_(residency), maps_(maps) {}
  PointerPins(const PointerPins&) = delete;
  PointerPins& operator=(const PointerPins&) = delete;

  /// Pins the buffers that `words` name; fetches those that are evicted, and waits for that.
  /// `reason` is for the log. @return as ResidencyManager::pin_forever(); kOutOfHostMemory.
  Status pin(std::span<const std::uint64_t> words, const char* reason) noexcept;

  /// The same for every address of a live buffer that the device could load, and behind every
  /// tensor map, among `size` bytes of host memory at `data`, which are about to be copied to `to`
  /// on the device. Does nothing for null.
  Status pin_named_by(const void* data, std::size_t size, std::uint64_t to) noexcept;

  /// Searches the bytes when `stream` gets there instead, because the program may still change them
  /// until then: a host function does it, or, where superpipe gives the stream none
  /// (HostFunctionPermit), each pin_pending() and each wait of the program's until then. `data`
  /// must stay readable until then, as it must for the copy itself. What is found is pinned by
  /// pin_pending(): a host function may not call the driver.
  void scan_in_stream(const void* data, std::size_t size, std::uint64_t to,
                      StreamHandle stream) noexcept;

  /// Whether bytes of a copy of this size are searched.
  [[nodiscard]] bool is_searched(std::size_t size) const noexcept {
    return size <= kLargestScan || (size <= kLargestMapScan && maps_.any());
  }

  /// Whether pin_pending() has something to do: one load, for each launch.
  [[nodiscard]] bool has_pending() const noexcept {
    return has_pending_.load(std::memory_order_relaxed);
  }
  /// Pins what scans in streams have found. What could not be pinned stays pending.
  /// @return as pin().
  Status pin_pending() noexcept;

  /// Looks at what copies under way have yet to read, without pinning anything yet. Any thread.
  void look_at_watched() noexcept;

  /// The context is about to go: nothing is searched at later launches.
  void close() noexcept;

 private:
  struct StreamScan;
  static void run_scan(void* scan) noexcept;
  void collect(const void* data, std::size_t size, std::uint64_t to,
               WordList& words) const noexcept;
  void watch(const void* data, std::size_t size, std::uint64_t to, StreamHandle stream) noexcept;
  static void tell_unwatched() noexcept;
  void add_pending(std::span<const std::uint64_t> words) noexcept;

  ResidencyManager& residency_;
  const TensorMaps& maps_;
  std::atomic<bool> has_pending_{false};
  std::mutex mutex_;
  std::vector<std::uint64_t> pending_;  ///< guarded by mutex_
  std::mutex watched_mutex_;
  WatchedSources watched_;  ///< guarded by watched_mutex_
};

}  // namespace superpipe
