// Writes down what the program copies out of the device, for `superpipe verify`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "interposer/driver/cuda_api.h"
#include "interposer/kernels/kernel_arguments.h"
#include "profiler/copy_records.h"
#include "residency/content_digest.h"
#include "residency/device_memory.h"

namespace superpipe {

/// Whether a call returns when its copy is done or when it is queued.
enum class CopyMode { kSynchronous, kAsynchronous };

/// The host memory that a copy writes: slices of rows.
struct CopyTarget {
  const std::byte* base = nullptr;  ///< of the first row; null: the copy does not go to the host
  std::size_t width = 0;            ///< bytes of a row
  std::size_t height = 1;           ///< rows of a slice
  std::size_t depth = 1;            ///< slices
  std::size_t pitch = 0;            ///< bytes from one row to the next
  std::size_t slice_pitch = 0;      ///< bytes from one slice to the next
  CUdeviceptr source = 0;           ///< where on the device it begins; 0: in an array

  [[nodiscard]] std::size_t bytes() const { return width * height * depth; }
  [[nodiscard]] bool is_contiguous() const {
    return (height == 1 || pitch == width) && (depth == 1 || slice_pitch == height * pitch);
  }
};

/// Digests of all that a process copies from the device to the host, in a file of their own
/// (profiler/copy_records.h).
///
/// A copy's content is digested when the copy is done: at once where the call has waited for it,
/// else by a host function behind it in its stream, which a process that ends may not live to see.
/// Copies in a captured stream are written down without content, because they are done when their
/// graph runs; so are those to unified memory, which the device may be using. In a process without
/// a managed context it also notes which launch named an allocation last. Thread-safe. Slows the
/// program down: for verification only.
class CopyRecorder {
 public:
  /// Writes to the file `prefix`.PID, which it makes with the first copy; where that exists,
  /// because the process was another program before, to `prefix`.PID.2 and so on. A file that
  /// cannot be written is named in the log, and nothing more is written.
  explicit CopyRecorder(std::string prefix);
  ~CopyRecorder();
  CopyRecorder(const CopyRecorder&) = delete;
  CopyRecorder& operator=(const CopyRecorder&) = delete;

  /// The recorder of this process; null unless start() was called. One load.
  [[nodiscard]] static CopyRecorder* of_process() noexcept {
    return of_process_.load(std::memory_order_acquire);
  }
  /// Gives the process its recorder, never destroyed. Not thread-safe: the library's start calls
  /// it.
  static void start(const std::string& prefix);

  /// A copy to `target` was submitted to `stream`, successfully.
  void note_copy(const CopyTarget& target, StreamHandle stream, CopyMode mode) noexcept;
  /// A kernel was launched, or is about to be, by a program that superpipe does not manage.
  void note_launch(CUfunction function, void* const* parameters, void* const* extra,
                   GridSize grid) noexcept;
  /// The allocation at `base` is freed: what is allocated there next is another.
  void forget_allocation(CUdeviceptr base) noexcept;
  /// The handles of kernels may soon mean others.
  void forget_kernels() noexcept { layouts_.clear(); }

 private:
  /// What a stream's host function digests.
  struct Queued;

  static void digest_queued(void* user_data);
  void write(CopyRecord record, const CopyTarget& target);
  void write_line(const std::string& line);
  /// REQUIRES: the caller holds mutex_. @return whether all of `text` was written; else errno.
  bool append(std::string_view text);
  [[nodiscard]] CopyDigest digest(const CopyTarget& target) const;
  [[nodiscard]] std::optional<CopySource> source_of(CUdeviceptr address);
  std::size_t index_of(KernelId kernel);
  /// Of the copy whose hook is running on this thread; 0: not known.
  std::size_t index_of_call_site();

  static inline constinit std::atomic<CopyRecorder*> of_process_{nullptr};

  std::string path_;  ///< of the file; until that is open, its prefix
  const DigestKey key_;
  KernelLayoutCache layouts_;
  std::atomic<std::uint64_t> threads_{0};
  std::atomic<std::uint64_t> launches_{0};
  std::mutex mutex_;  ///< guards what follows
  int file_ = -1;
  bool has_failed_ = false;
  /// By the address of an allocation: the last launch that named it.
  std::unordered_map<std::uint64_t, CopyLaunch> named_by_;
  std::unordered_map<std::uint64_t, std::size_t> kernels_;  ///< indices in the file
  std::unordered_map<std::uint64_t, std::size_t> sites_;    ///< the same, by the call site's hash
};

}  // namespace superpipe
