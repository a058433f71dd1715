// The managed state of a process: one context of one device, and all that hangs on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interposer/configuration.h"
#include "interposer/driver/capture_count.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/driver_device_memory.h"
#include "interposer/exit_report.h"
#include "interposer/kernel_arguments.h"
#include "interposer/launch_overhead.h"
#include "interposer/passthrough/memory_pools.h"
#include "interposer/passthrough/unmanaged_budget.h"
#include "residency/residency_manager.h"

namespace superpipe {

/// Made at the first allocation with a current context; dropped before that context goes. A dropped
/// one answers as if it had no buffers, and is never deleted: another thread, at work in another
/// context, may be inside a hook that holds it.
///
/// One context is managed: the first that allocates. What runs in others passes through, and what
/// it names of ours is pinned, because events do not order work between contexts.
class Runtime {
 public:
  /// The managed state, or null: nothing is managed (yet). Any thread; one load.
  [[nodiscard]] static Runtime* if_active() noexcept {
    return active_.load(std::memory_order_acquire);
  }

  /// The managed state for an allocation of the calling thread: makes it if need be; null if the
  /// thread's current context is not the managed one. Any thread; the first call may take
  /// milliseconds.
  [[nodiscard]] static Runtime* for_allocation() noexcept;

  /// The managed state if the calling thread's current context is on its device, managed or not:
  /// what is allocated there takes device memory. Any thread; makes it as for_allocation() does.
  [[nodiscard]] static Runtime* for_current_device() noexcept;

  /// The same, but makes nothing: null if nothing is managed yet.
  [[nodiscard]] static Runtime* if_on_current_device() noexcept;

  /// Whether SUPERPIPE_STRICT forbids to go on unmanaged after the start failed.
  [[nodiscard]] static bool refuses_allocations() noexcept {
    return refuses_.load(std::memory_order_relaxed);
  }

  /// What the process was configured with; set once, before any hook runs.
  static void configure(Configuration configuration);
  [[nodiscard]] static const Configuration& configuration() noexcept;

  /// @name The program's contexts. Called by the context hooks.
  /// @{
  /// One more context exists.
  static void on_context_created() noexcept;
  /// `context` is about to go: drops the managed state if it is the managed one.
  static void on_context_destroying(CUcontext context) noexcept;
  /// `context` came from a green context. It is never managed: it is the primary context in
  /// disguise, and ends without its memory.
  static void on_green_context(CUcontext context) noexcept;
  /// One more reference to `context` (cuCtxAttach).
  static void on_context_attached(CUcontext context) noexcept;
  /// Whether the next cuCtxDetach of `context` takes it away.
  static bool is_last_reference(CUcontext context) noexcept;
  /// A reference that was not the last has gone.
  static void on_context_detached(CUcontext context) noexcept;
  /// A context has been destroyed.
  static void on_context_destroyed() noexcept;
  static void on_primary_retained(CUdevice device) noexcept;
  /// The primary context of `device` is about to lose one reference.
  static void on_primary_releasing(CUdevice device) noexcept;
  /// The primary context of `device` is about to be destroyed, whatever its references.
  static void on_primary_resetting(CUdevice device) noexcept;
  /// It has been.
  static void on_primary_reset(CUdevice device) noexcept;
  /// @}

  /// Stops the worker and forgets the managed state without a driver call: a forked child, whose
  /// copy of the driver is unusable, and process exit.
  static void abandon() noexcept;

  /// What the process did, for the statistics; nullopt if nothing was ever managed. No driver
  /// calls.
  [[nodiscard]] static std::optional<ExitFigures> figures();

  [[nodiscard]] ResidencyManager& residency() noexcept { return *residency_; }
  [[nodiscard]] bool in_arena(std::uint64_t word) const noexcept {
    return residency_->in_arena(word);
  }
  [[nodiscard]] KernelLayoutCache& layouts() noexcept { return layouts_; }
  [[nodiscard]] LaunchOverhead& overhead() noexcept { return overhead_; }
  /// The pools' accounts; they outlive the managed state, because pools are made before it.
  [[nodiscard]] static MemoryPools& pools() noexcept;
  [[nodiscard]] Bytes min_buffer() const noexcept { return min_buffer_; }
  [[nodiscard]] CUcontext context() const noexcept { return context_; }
  [[nodiscard]] CUdevice device() const noexcept { return device_; }
  [[nodiscard]] Bytes device_total() const noexcept { return device_total_; }

  /// What a call of the program answers when ours failed with `status`: the error that a kernel
  /// left behind, if that is why, as the driver's own calls do.
  [[nodiscard]] CUresult failure(Status status, CallKind kind) const noexcept {
    const CUresult sticky = status == Status::kDeviceError ? sticky_error() : CUDA_SUCCESS;
    return sticky != CUDA_SUCCESS ? sticky : to_curesult(status, kind);
  }
  /// See DriverDeviceMemory; none once this is dropped.
  [[nodiscard]] CUresult sticky_error() const noexcept {
    return if_active() == this ? device_memory_.sticky_error() : CUDA_SUCCESS;
  }

  /// Whether events can order work on `stream`: it captures nothing and is of the managed context.
  /// What is submitted to another stream has its buffers pinned instead. Nearly always one load.
  [[nodiscard]] bool can_order(StreamHandle stream) const noexcept {
    if (!CaptureCount::any() && contexts_.load(std::memory_order_relaxed) <= 1) [[likely]] {
      return true;
    }
    return can_order_slowly(stream);
  }

  /// Whether the program is capturing `stream`: an allocation there becomes a node of its graph.
  [[nodiscard]] static bool is_capturing(StreamHandle stream) noexcept;

  /// Makes what `words` name resident for good; `reason` is logged.
  Status pin(std::span<const std::uint64_t> words, const char* reason) noexcept;

  /// Pins every buffer that a word of `size` bytes at `data` names: the bytes are about to be
  /// device memory that holds pointers. Looks at no more than kLargestScan bytes: pointers come in
  /// small copies, weights in large ones.
  static constexpr std::size_t kLargestScan = 256 << 10;
  Status pin_named_by(const void* data, std::size_t size) noexcept;

  /// The same, at the time when the stream gets there, for a source that the program may still
  /// change: pin_pending() does the pinning later, since a host function may not call the driver.
  void scan_in_stream(const void* data, std::size_t size, StreamHandle stream) noexcept;
  [[nodiscard]] bool has_pending() const noexcept {
    return has_pending_.load(std::memory_order_relaxed);
  }
  Status pin_pending() noexcept;

  /// What is left to the driver.
  [[nodiscard]] UnmanagedBudget& unmanaged() noexcept { return *unmanaged_; }

  /// A managed buffer is about to be freed. Programs free everything before they end, and what was
  /// learned of their layers then describes nothing: remembers it, at most ten times a second.
  void note_free() noexcept;

  void count_launch_without_buffers() noexcept {
    launches_without_buffers_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  Runtime(CUcontext context, CUdevice device, Bytes device_total, Bytes context_bytes);

  static Runtime* start() noexcept;
  static void drop() noexcept;
  [[nodiscard]] bool can_order_slowly(StreamHandle stream) const noexcept;
  [[nodiscard]] ExitFigures collect_figures() const;

  static inline constinit std::atomic<Runtime*> active_{nullptr};
  static inline constinit std::atomic<bool> refuses_{false};
  static inline constinit std::atomic<int> contexts_{0};

  CUcontext context_;
  CUdevice device_;
  Bytes device_total_;
  Bytes context_bytes_;
  Bytes budget_;
  Bytes min_buffer_;
  DriverDeviceMemory device_memory_;
  std::unique_ptr<ResidencyManager> residency_;
  KernelLayoutCache layouts_;
  LaunchOverhead overhead_;
  std::optional<UnmanagedBudget> unmanaged_;  ///< as long as residency_
  std::atomic<std::uint64_t> launches_without_buffers_{0};

  std::atomic<std::int64_t> next_note_ns_{0};
  mutable std::mutex noted_mutex_;
  PolicyEngine::Learned noted_;  ///< as of the last note_free()
  Bytes noted_limit_;

  std::atomic<bool> has_pending_{false};
  std::mutex pending_mutex_;
  std::vector<std::uint64_t> pending_;
};

}  // namespace superpipe
