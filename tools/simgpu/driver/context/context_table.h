// All contexts of the process: how they are made and destroyed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/device/device.h"

namespace simgpu {

/// Owns every context ever made. Never destroyed. Thread-safe.
class ContextTable {
 public:
  static ContextTable& instance();

  /// The device's primary context, active or not.
  Context& primary(Device& device);
  /// Retains it, and activates it the first time: its bytes then count as used. One that a fault
  /// has broken stays broken: only a new process gets rid of that error.
  /// @return CUDA_ERROR_OUT_OF_MEMORY.
  CUresult retain_primary(Device& device, Context** out);
  /// Releases it once, or (`reset`) destroys what it holds whoever retains it. Waits for its work.
  CUresult release_primary(Device& device, bool reset);
  bool primary_active(Device& device);

  CUresult create(Device& device, unsigned flags, Context** out);
  /// Waits for its work. @return CUDA_ERROR_INVALID_CONTEXT for a primary or destroyed one.
  CUresult destroy(Context& context);

  /// The context that `handle` names, dead or alive, or null.
  Context* find(CUcontext handle);

 private:
  static void activate(Context& context);
  void tear_down(Context& context);
  /// Ends peer access of `context`, and to it.
  void forget_peers_of(Context& context);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::mutex primaries_mutex_;
  std::array<int, kMaxDevices> retained_{};
};

/// The context that `handle` names, or null if no such context was ever made. It may be dead. That
/// of a green context is the primary one.
Context* find_context(CUcontext handle) noexcept;

/// Calls `hook(context)` before a context's memory and streams go (destroy, last release, reset),
/// after its work has completed. For owners of per-context objects (modules). Register once, at
/// start; hooks are never removed. Thread-safe.
void on_context_destroy(std::function<void(Context&)> hook);

}  // namespace simgpu
