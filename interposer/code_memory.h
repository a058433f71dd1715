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
/// What another process allocates just then is taken for code, up to kMostPlausible. Thread-safe.
/// `measure` functions return those bytes, or nullopt where they cannot be told, and are called
/// under the lock: nobody waits for it but others that load code.
class CodeCensus {
 public:
  static constexpr std::int64_t kMostPlausible = std::int64_t{1} << 30;

  template <typename Measure>
  void begin(const Measure& measure) noexcept {
    const std::lock_guard lock(mutex_);
    if (calls_++ > 0) return;
    before_ = measure();
    unloads_ = false;
  }

  /// @return the bytes that code takes more than before; 0 while other calls are under way.
  template <typename Measure>
  std::int64_t end(CodeChange change, const Measure& measure) noexcept {
    const std::lock_guard lock(mutex_);
    if (change == CodeChange::kUnload) unloads_ = true;
    if (--calls_ > 0 || !before_) return 0;
    const std::optional<std::int64_t> after = measure();
    if (!after) return 0;
    const std::int64_t delta = *after - *before_;
    if (delta > kMostPlausible) return 0;
    return unloads_ ? delta : std::max<std::int64_t>(delta, 0);  // loading frees nothing
  }

 private:
  std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::optional<std::int64_t> before_;
  bool unloads_ = false;
};

}  // namespace superpipe
