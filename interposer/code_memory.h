// The device memory of code: modules, and the kernels in them that are loaded when first used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>

namespace superpipe {

/// What a call may do to the code on the device.
enum class CodeChange { kLoad, kUnload };

/// Finds out how much device memory code takes, which drivers do not say: by how much changes, from
/// before a call to after it, what the device holds that is not counted anywhere.
///
/// Calls side by side are measured together, from the first one's beginning to the last one's end.
/// What another process allocates just then is taken for code, up to kMostPlausible; but code never
/// counts as more than what has come since the beginning. Thread-safe. `measure` functions return
/// the bytes that are neither counted nor code's, or nullopt where they cannot be told, and are
/// called under the lock, as `tell` is: nobody waits for it but others that load code.
class CodeCensus {
 public:
  static constexpr std::int64_t kMostPlausible = std::int64_t{1} << 30;

  /// The device held `bytes` before any code of the program was loaded.
  void set_baseline(std::int64_t bytes) noexcept { baseline_ = bytes; }

  template <typename Measure>
  void begin(const Measure& measure) noexcept {
    const std::lock_guard lock(mutex_);
    if (calls_++ > 0) return;
    before_ = measure();
    unloads_ = false;
  }

  /// Calls `tell` with the bytes that code takes by now.
  template <typename Measure, typename Tell>
  void end(CodeChange change, const Measure& measure, const Tell& tell) noexcept {
    const std::lock_guard lock(mutex_);
    if (change == CodeChange::kUnload) unloads_ = true;
    if (--calls_ > 0) return;
    const std::optional<std::int64_t> after = measure();
    if (!after) return;
    if (before_) {
      const std::int64_t delta = *after - *before_;
      const bool plausible =
          delta <= kMostPlausible && (unloads_ || delta > 0);  // loading frees nothing
      if (plausible) bytes_ += delta;
    }
    bytes_ = std::max<std::int64_t>(std::min(bytes_, *after - baseline_), 0);
    tell(bytes_);
  }

 private:
  std::mutex mutex_;
  std::int64_t baseline_ = 0;
  std::int64_t bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::optional<std::int64_t> before_;
  bool unloads_ = false;
};

}  // namespace superpipe
