// The program's contexts, and which of them is managed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interposer/contexts/context_references.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/contexts/peer_contexts.h"
#include "interposer/driver/cuda_api.h"
#include "profiler/run_figures.h"

namespace superpipe {

/// One context is managed at a time: the first in which the program allocates. It is closed before
/// the driver destroys it, and the next allocation makes another the managed one. What runs in
/// other contexts passes through, and what that names of ours is pinned, because events do not
/// order work between contexts.
///
/// One of them in a process. Thread-safe; its lock is held while a context is set up, and across
/// no other driver call.
class ContextRegistry {
 public:
  ContextRegistry(const ContextRegistry&) = delete;
  ContextRegistry& operator=(const ContextRegistry&) = delete;

  /// The registry of this process. Never destroyed: hooks may run in other libraries' destructors.
  [[nodiscard]] static ContextRegistry& of_process() noexcept;

  /// The managed context; null if there is none (yet). It stays valid for the life of the process,
  /// but may be closed at any time. Any thread; one load.
  [[nodiscard]] static ManagedContext* managed() noexcept {
    return managed_.load(std::memory_order_acquire);
  }

  /// The managed context for an allocation of the calling thread, made so if there is none; null if
  /// the thread's current context is not the managed one, or a green context of it. The first call
  /// takes milliseconds.
  [[nodiscard]] ManagedContext* for_allocation() noexcept;
  /// The managed context if the calling thread's current context is on its device, managed or not:
  /// what is allocated there takes memory of the managed device. Null also if no context is managed
  /// yet.
  [[nodiscard]] ManagedContext* if_on_current_device() const noexcept;
  /// The same, but makes a context the managed one if there is none, as for_allocation() does.
  [[nodiscard]] ManagedContext* for_current_device() noexcept;

  /// Whether allocations have to fail: no context can be managed, and SUPERPIPE_STRICT is set.
  [[nodiscard]] bool refuses_allocations() const noexcept {
    return refuses_.load(std::memory_order_relaxed);
  }

  /// The program's references; the two functions below see to the managed context beside them.
  [[nodiscard]] ContextReferences& references() noexcept { return references_; }

  /// Which devices the program has given access to its contexts' memory.
  [[nodiscard]] PeerContexts& peers() noexcept { return peers_; }
  /// Gives the devices access to buffers that the program has given access to the managed context's
  /// memory or to a pool of its device. @return as ManagedContext::open_to(); kOk if no context is
  /// managed.
  Status open_to_peers() noexcept;

  /// The driver is about to destroy `context`: closes it if it is the managed one. Waits for the
  /// work in it, as the driver will.
  void on_destroying(CUcontext context) noexcept;
  /// The same for the primary context of `device`, whose last reference is about to go.
  void on_primary_destroying(CUdevice device) noexcept;

  /// Stops the managed context's worker without a driver call, and manages nothing from then on
  /// until the next allocation: a forked child, and process exit.
  void abandon() noexcept;

  /// Whether a context was found that cannot be managed, so that none will be.
  [[nodiscard]] bool has_given_up() const noexcept {
    const std::lock_guard lock(mutex_);
    return has_given_up_;
  }

  /// What happened in the managed contexts of the process; nullopt if there was none. Calls no
  /// driver function.
  [[nodiscard]] std::optional<RunFigures> figures() const;

 private:
  ContextRegistry() = default;

  ManagedContext* start() noexcept;
  [[nodiscard]] bool may_start() noexcept;
  [[nodiscard]] bool is_green_of(const ManagedContext& context, CUcontext current) const noexcept;
  void give_up(const std::string& why, bool strict);
  void close_managed() noexcept;

  static inline constinit std::atomic<ManagedContext*> managed_{nullptr};

  ContextReferences references_;
  PeerContexts peers_;
  std::atomic<bool> refuses_{false};
  mutable std::mutex mutex_;             ///< guards what follows, and changes of managed_
  bool is_closing_ = false;              ///< a managed context gives its memory back
  std::uint64_t buffers_so_far_ = 0;     ///< that closed contexts had
  bool has_given_up_ = false;            ///< no context can be managed
  std::vector<ManagedContext*> closed_;  ///< never destroyed; see ManagedContext
  std::optional<RunFigures> finished_;   ///< of the closed ones
};

}  // namespace superpipe
