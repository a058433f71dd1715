// The program's references to its contexts, and which of its calls end one.
#pragma once

#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "interposer/driver/context_count.h"
#include "interposer/driver/cuda_api.h"

namespace superpipe {

/// Follows the program's contexts by the calls that create, attach, retain, release and destroy
/// them, and keeps ContextCount. Calls no driver function. Thread-safe.
///
/// Where host memory is out, a reference goes uncounted. The managed context is then given up
/// earlier than needed, which is safe.
class ContextReferences {
 public:
  /// A context was created (cuCtxCreate).
  void on_created() noexcept { ContextCount::add(); }
  /// A context was destroyed.
  void on_destroyed() noexcept { ContextCount::remove(); }

  /// A green context of `device` was created, which retains the primary context there. It counts as
  /// a context besides: its streams tell a handle to make current (cuStreamGetCtx), under which the
  /// default stream is not that of the primary context.
  void on_green_created(CUgreenCtx green, CUdevice device) noexcept {
    ContextCount::add();
    {
      const std::lock_guard lock(mutex_);
      try {
        green_devices_[green] = device;
      } catch (const std::bad_alloc&) {
        return;  // Nothing would take the reference back.
      }
    }
    on_primary_retained(device);
  }
  /// `green` is about to be destroyed, and what cuCtxFromGreenCtx gave for it is no context then.
  /// @return its device if the primary context there ends with it.
  std::optional<CUdevice> on_green_destroying(CUgreenCtx green) noexcept {
    std::optional<CUdevice> device;
    {
      const std::lock_guard lock(mutex_);
      for (auto converted = converted_.begin(); converted != converted_.end();) {
        if (converted->second != green) {
          ++converted;
          continue;
        }
        converted = converted_.erase(converted);
      }
      const auto found = green_devices_.find(green);
      if (found == green_devices_.end()) return std::nullopt;
      device = found->second;
      green_devices_.erase(found);
    }
    ContextCount::remove();
    return on_primary_releasing(*device) ? device : std::nullopt;
  }
  /// `context` came from `green` (cuCtxFromGreenCtx).
  void on_converted(CUcontext context, CUgreenCtx green) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      converted_[context] = green;
    } catch (const std::bad_alloc&) {
      // It is taken for a context of its own.
    }
  }
  /// Whether `context` came from a green context: it is the primary context of its device, but that
  /// its null stream is another one.
  [[nodiscard]] bool is_green(CUcontext context) const noexcept {
    const std::lock_guard lock(mutex_);
    return converted_.count(context) > 0;
  }

  /// One more reference to `context` (cuCtxAttach).
  void on_attached(CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      ++attached_[context];
    } catch (const std::bad_alloc&) {
      // See the class.
    }
  }
  /// Whether the next cuCtxDetach of `context` destroys it.
  [[nodiscard]] bool is_last(CUcontext context) const noexcept {
    const std::lock_guard lock(mutex_);
    return attached_.count(context) == 0;
  }
  /// A cuCtxDetach took a reference that was not the last.
  void on_detached(CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = attached_.find(context);
    if (found != attached_.end() && --found->second == 0) attached_.erase(found);
  }
  /// `context` is about to be destroyed, however many references there are.
  void on_destroying(CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    attached_.erase(context);
  }

  /// The primary context of `device` was retained.
  void on_primary_retained(CUdevice device) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      if (primary_[device]++ == 0) ContextCount::add();
    } catch (const std::bad_alloc&) {
      ContextCount::add();
    }
  }
  /// The primary context of `device` is about to lose a reference.
  /// @return whether that is the last one, so that the context ends.
  bool on_primary_releasing(CUdevice device) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = primary_.find(device);
    if (found == primary_.end() || found->second == 0) return false;
    if (--found->second > 0) return false;
    ContextCount::remove();
    return true;
  }
  /// The primary context of `device` was reset, which ends all references to it.
  void on_primary_reset(CUdevice device) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = primary_.find(device);
    if (found == primary_.end() || found->second == 0) return;
    found->second = 0;
    ContextCount::remove();
  }

 private:
  mutable std::mutex mutex_;
  std::map<CUdevice, int> primary_;
  std::map<CUcontext, int> attached_;  ///< references beyond the first
  std::map<CUgreenCtx, CUdevice> green_devices_;
  std::map<CUcontext, CUgreenCtx> converted_;
};

}  // namespace superpipe
