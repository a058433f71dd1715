// Contexts, and which one is current on the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tools/simgpu/driver/entry/api.h"

namespace simgpu {

class Device;
class GreenContext;
class Stream;

/// One context: a primary one, or one made by cuCtxCreate. Contexts are never deleted, only marked
/// destroyed, so that a stale CUcontext is recognised and refused.
class Context {
 public:
  Context(Device& device, bool primary, unsigned flags, std::uint64_t id);

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] bool primary() const { return primary_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] unsigned flags() const { return flags_.load(std::memory_order_relaxed); }
  void set_flags(unsigned flags) { flags_.store(flags, std::memory_order_relaxed); }
  /// Alive: created (a primary one: retained) and not destroyed.
  [[nodiscard]] bool alive() const { return alive_.load(std::memory_order_acquire); }

  /// CUDA_SUCCESS, or the error that every call in this context returns from now on. A primary
  /// context keeps it when it is released, reset and retained again.
  [[nodiscard]] CUresult sticky_error() const { return sticky_.load(std::memory_order_acquire); }
  /// Makes `error` sticky unless one already is.
  void set_sticky_error(CUresult error);

  /// Whether kernels of this context may access memory that was allocated in `owner`, a context of
  /// another device (cuCtxEnablePeerAccess).
  [[nodiscard]] bool is_peer_of(const Context& owner) const;
  /// Lets them. @return false if they might before.
  bool become_peer_of(const Context& owner);
  /// Forbids it. @return false if it was not allowed.
  bool cease_peer_of(const Context& owner);

  /// The context's handle as programs see it.
  [[nodiscard]] CUcontext handle() { return reinterpret_cast<CUcontext>(this); }

 private:
  friend class ContextTable;

  Device& device_;
  const bool primary_;
  const std::uint64_t id_;
  std::atomic<unsigned> flags_;
  std::atomic<bool> alive_{false};
  std::atomic<CUresult> sticky_{CUDA_SUCCESS};
  mutable std::mutex peers_mutex_;
  std::set<const Context*> owners_;  ///< whose peer it is; guarded by peers_mutex_

 public:
  /// Orders enqueues of this context's streams against each other (legacy-stream semantics); the
  /// fields below belong to stream.cc.
  std::mutex enqueue_mutex;
  std::shared_ptr<Stream> legacy_stream;
  std::vector<std::shared_ptr<Stream>> streams;  ///< all but the legacy one, draining ones included
  /// Held while a host function runs, where these run one at a time.
  std::mutex host_function_mutex;

  /// Of call_scope.cc: held by a driver call that submits work, for as long as it costs.
  std::mutex call_mutex;
};

/// The current context of the calling thread, or null.
Context* current_context() noexcept;

/// @return CUDA_ERROR_INVALID_CONTEXT if null, CUDA_ERROR_CONTEXT_IS_DESTROYED if destroyed, else
/// the sticky error.
CUresult check_context(const Context* context) noexcept;

/// What is current on a thread: a context or, with its primary context, a green one.
struct Current {
  Context* context = nullptr;
  GreenContext* green = nullptr;

  /// As programs see it.
  [[nodiscard]] CUcontext handle() const;
};

/// Makes `current` current on the calling thread. @return false if the stack is full.
bool push_current(Current current) noexcept;
/// Takes what is current off the stack. @return it; a null context if there was none.
Current pop_current() noexcept;
/// What is current; a null context: nothing.
Current current() noexcept;

}  // namespace simgpu
