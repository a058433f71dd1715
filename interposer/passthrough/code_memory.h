// The device memory of code: modules, and the kernels in them that are loaded when first used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>

#include "policy/units.h"

namespace superpipe {

/// What a call may do to the code on the device.
enum class CodeChange { kLoad, kUnload };

/// Finds out how much device memory code takes, which drivers do not say: by how much changes, from
/// before a call to after it, what the device holds that is not counted anywhere.
///
/// Calls side by side are measured together, from the first one's beginning to the last one's end.
/// What another process allocates just then is taken for code, up to kMostPlausible; but code never
/// counts as more than what has come since the beginning. Thread-safe. `measure` functions return
/// the bytes that are not counted, code's included, or nullopt where they cannot be told, and are
/// called under the lock, as `tell` is: nobody waits for it but others that load code.
class CodeCensus {
 public:
  static constexpr std::int64_t kMostPlausible = std::int64_t{1} << 30;

  /// The device holds `baseline` bytes so far, which are nobody's but its own.
  explicit CodeCensus(std::int64_t baseline = 0) : baseline_(baseline) {}

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
    bytes_ = std::max<std::int64_t>(bytes_, 0);
    const std::int64_t most = std::max<std::int64_t>(*after - baseline_, 0);
    tell(Bytes{static_cast<std::uint64_t>(std::min(bytes_, most))});
  }

 private:
  std::mutex mutex_;
  const std::int64_t baseline_;
  std::int64_t bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::optional<std::int64_t> before_;
  bool unloads_ = false;
};

}  // namespace superpipe
