// Marks that a thread is inside a hook, so that what the driver calls in turn passes straight.
#pragma once

#include <atomic>

namespace superpipe {

/// How deep this thread is in our own calls into the driver. Initial-exec: one move instead of a
/// call, and the library is preloaded, so its static TLS is there.
inline constinit thread_local int hook_depth __attribute__((tls_model("initial-exec"))) = 0;

/// Set while every hook passes through: SUPERPIPE_OFF, a bad configuration, a forked child.
inline constinit std::atomic<bool> hooks_disabled{true};

/// Guard of one hook, or of a driver call that a thread of ours makes.
///
/// A driver that is not linked symbolically calls its own cu* functions through the dynamic symbol
/// table, which leads back to us: such a nested call must reach the driver untouched.
class HookScope {
 public:
  HookScope() noexcept : nested_(hook_depth++ > 0) {}
  ~HookScope() { --hook_depth; }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

  /// Whether the call goes to the driver untouched.
  [[nodiscard]] bool passes_through() const noexcept {
    return nested_ || hooks_disabled.load(std::memory_order_relaxed);
  }

 private:
  bool nested_;
};

}  // namespace superpipe
