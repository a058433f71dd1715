// Copies between host memories that a stream of the program runs when it gets to them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "interposer/driver/cuda_api.h"
#include "interposer/hooks/gates.h"
#include "residency/device_memory.h"

namespace superpipe {

/// What pageable memory of the program held at one moment, for a copy that runs later: the program
/// may change or free it as soon as its call returns.
class Snapshot {
 public:
  /// All that there are at once in the process have so many bytes at most. The driver, too, stages
  /// pageable memory in some megabytes of its own.
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;

  Snapshot() = default;
  ~Snapshot() { release(); }
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&& other) noexcept;
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// Copies `size` bytes at `from`. Any thread.
  /// @return an empty one if there would be more than kMostBytes, or host memory is out.
  static Snapshot take(const void* from, std::size_t size) noexcept;

  [[nodiscard]] bool empty() const { return bytes_ == nullptr; }
  [[nodiscard]] const void* data() const { return bytes_.get(); }

 private:
  void release() noexcept;

  static std::atomic<std::size_t> held_;

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

/// Has `stream` copy `size` bytes from `from` to `to`, which it then needs. `snapshot`: where
/// `from` lies, or an empty one. (The driver's own copies between host memories are synchronous
/// with the host, so a host function does it.) Waits for nothing. REQUIRES: permit.is_given().
/// @return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES if host memory is out; else what the driver says.
CUresult queue_copy(StreamHandle stream, void* to, const void* from, std::size_t size,
                    Snapshot snapshot, HostFunctionPermit permit) noexcept;

}  // namespace superpipe
