// One context of one device whose allocations are managed, and all that hangs on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "interposer/budget_requests.h"
#include "interposer/configuration.h"
#include "interposer/contexts/foreign_streams.h"
#include "interposer/contexts/peer_contexts.h"
#include "interposer/driver/capture_count.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/context_count.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/driver/driver_device_memory.h"
#include "interposer/graphs/executable_graphs.h"
#include "interposer/graphs/noted_words.h"
#include "interposer/kernels/kernel_arguments.h"
#include "interposer/kernels/pointer_arrays.h"
#include "interposer/kernels/pointer_pins.h"
#include "interposer/kernels/recent_launches.h"
#include "interposer/kernels/tensor_maps.h"
#include "interposer/kernels/unknown_kernels.h"
#include "interposer/recording/kernel_timer.h"
#include "interposer/recording/trace_recording.h"
#include "profiler/launch_overhead_meter.h"
#include "profiler/run_figures.h"
#include "residency/host/host_ledger.h"
#include "residency/host/host_memory.h"
#include "residency/residency_manager.h"

namespace superpipe {

class CuptiCollector;

/// The residency manager of a context, with what the hooks need beside it: kernels' parameter
/// layouts, pointer pins, facts of the device, and figures for the exit report.
///
/// Thread-safe. After close() or abandon() it answers as if it had no buffers. It is never
/// destroyed, because another thread may be inside a hook that holds it.
class ManagedContext {
 public:
  /// What create() returns: the managed context, or why there can be none.
  struct Created {
    std::unique_ptr<ManagedContext> context;
    std::string problem;  ///< for the user; empty if the driver itself will answer with an error
  };

  /// Checks that the driver and the device of `context` offer what is needed, and reserves the
  /// arena. `context` must be current and have no managed buffers yet. Takes milliseconds.
  /// `configuration` must outlive the result. `buffers_before`: how many buffers the process had in
  /// earlier managed contexts. `own`: what the process has of the device's memory, if that is known
  /// (memory_of_this_process()).
  [[nodiscard]] static Created create(CUcontext context, CUdevice device,
                                      const Configuration& configuration,
                                      std::uint64_t buffers_before = 0,
                                      std::optional<Bytes> own = std::nullopt);

  ~ManagedContext() = default;
  ManagedContext(const ManagedContext&) = delete;
  ManagedContext& operator=(const ManagedContext&) = delete;

  [[nodiscard]] ResidencyManager& residency() noexcept { return *residency_; }
  [[nodiscard]] const ResidencyManager& residency() const noexcept { return *residency_; }
  /// Whether `word` may be an address in a managed buffer: one compare.
  [[nodiscard]] bool in_arena(std::uint64_t word) const noexcept {
    return residency_->in_arena(word);
  }
  [[nodiscard]] KernelLayoutCache& layouts() noexcept { return layouts_; }
  [[nodiscard]] PointerPins& pins() noexcept { return *pins_; }
  /// What executable graphs use, where buffers move.
  [[nodiscard]] ExecutableGraphs& graphs() noexcept { return graphs_; }
  [[nodiscard]] const ExecutableGraphs& graphs() const noexcept { return graphs_; }
  [[nodiscard]] ForeignStreams& foreign_streams() noexcept { return foreign_streams_; }
  [[nodiscard]] NotedWords& noted_words() noexcept { return *noted_words_; }
  [[nodiscard]] UnknownKernels& unknown_kernels() noexcept { return unknown_kernels_; }
  [[nodiscard]] TensorMaps& tensor_maps() noexcept { return *tensor_maps_; }
  [[nodiscard]] const TensorMaps& tensor_maps() const noexcept { return *tensor_maps_; }
  [[nodiscard]] PointerArrays& pointer_arrays() noexcept { return *pointer_arrays_; }
  [[nodiscard]] const PointerArrays& pointer_arrays() const noexcept { return *pointer_arrays_; }
  [[nodiscard]] LaunchOverheadMeter& overhead() noexcept { return overhead_; }

  [[nodiscard]] const Configuration& configuration() const noexcept { return configuration_; }
  [[nodiscard]] CUcontext context() const noexcept { return context_; }
  [[nodiscard]] CUdevice device() const noexcept { return device_; }
  /// What footprints of buffers are multiples of.
  [[nodiscard]] Bytes granule() const noexcept { return device_memory_.granularity(); }
  /// Bytes of the whole device.
  [[nodiscard]] Bytes device_total() const noexcept { return device_total_; }

  /// Whether buffers may ever leave the device. Where none does, no buffer has to be kept there
  /// either, so nothing that the program copies is searched for pointers.
  [[nodiscard]] bool moves() const noexcept {
    return configuration_.policy != PolicyKind::kResident;
  }

  /// What a call of the program answers when ours failed with `status`: the error that a kernel
  /// left behind, if that is why, as the driver's own calls do. An operation that is refused is
  /// counted, and with SUPERPIPE_STRICT it ends the process. REQUIRES: the calling thread holds no
  /// lock of superpipe's.
  [[nodiscard]] CUresult failure(Status status, CallKind kind) noexcept;
  /// The error that a kernel or copy of the program left behind in the context; CUDA_SUCCESS if
  /// there is none, and after close(). Asks the driver; does not wait.
  [[nodiscard]] CUresult sticky_error() const noexcept {
    return is_closed_.load() ? CUDA_SUCCESS : device_memory_.sticky_error();
  }

  /// Whether events can order work on `stream`: it captures nothing and is of this context, or of a
  /// green one of it, but not the latter's default stream. What is
  /// captured becomes a node of a graph, and what is submitted to a stream of another context has
  /// its buffers pinned. Nearly always two loads.
  [[nodiscard]] bool can_order(StreamHandle stream) const noexcept {
    if (!CaptureCount::any() && !ContextCount::has_several()) [[likely]] {
      return true;
    }
    return can_order_slowly(stream);
  }

  /// Gives `devices` access to buffers, those that are mapped and those that will be. They keep it:
  /// who may access more than the program wants does no harm. Waits as
  /// ResidencyManager::renew_access() does. @return what that answered if some were new; then they
  /// have access to some buffers at most.
  Status open_to(DeviceMask devices) noexcept;
  /// Whether `device` has access to all buffers by open_to(), which the driver may refuse for some.
  [[nodiscard]] bool is_open_to(CUdevice device) const noexcept {
    return (device_memory_.peers() & mask_of(device)) != 0 && !device_memory_.refuses_peers();
  }

  /// Allows the process `budget` bytes of the device from now on, the context included
  /// (ResidencyManager::set_budget()). Any thread.
  BudgetAnswer set_budget(Bytes budget) noexcept;

  /// Has the program's work in the context complete, as far as the driver can still tell.
  void synchronize() noexcept;

  /// Gives all device memory back. The context must still exist. Waits for transfers under way.
  void close() noexcept;
  /// Stops the worker without a driver call: a forked child, whose copy of the driver is unusable,
  /// and process exit, for which finish_trace() was called before.
  void abandon() noexcept;

  /// Where to record what happens; null: nowhere. It stays for the life of the process.
  [[nodiscard]] TraceRecorder* trace() const noexcept { return trace_; }
  /// Begins to time kernels for the trace, if one is recorded, as the configuration says. To be
  /// called once, without a lock: CUPTI may call the hooks.
  void start_kernel_times() noexcept;
  /// What times some kernels for the trace by events; null: nothing does. It stays for the life of
  /// the process.
  [[nodiscard]] KernelTimer* kernel_timer() const noexcept {
    return kernel_timer_.load(std::memory_order_acquire);
  }
  /// The same for what times all kernels by CUPTI. There is one of the two at most.
  [[nodiscard]] CuptiCollector* cupti_collector() const noexcept {
    return cupti_collector_.load(std::memory_order_acquire);
  }
  /// Removes the line that tells how far the first passes are. Waits 0.1 s at most.
  void end_progress() noexcept;
  /// Ends the trace, if one is recorded, and says on stderr what is in it where a summary was asked
  /// for. Calls no driver function. Waits for the disk, at most the wait limit.
  void finish_trace() noexcept;

  /// A kernel is about to be launched. Part of the launch path.
  void note_launch(KernelId kernel) noexcept { recent_launches_.note(kernel); }
  /// A call of the program was answered with what may_be_access_fault() holds for: if the context
  /// has met a fault, says once what is known of it. Asks the driver. REQUIRES: the calling thread
  /// holds no lock of superpipe's.
  void report_access_fault() noexcept;

  /// A managed buffer is about to be freed. Programs free everything before they end, and what was
  /// learned of their layers then describes nothing: remembers it, at most ten times a second.
  void note_free() noexcept;
  /// The program has asked for `size` bytes of pages of its own on the device. Once it has asked
  /// for more than the headroom, in all, says that these cannot be moved: its author may not know
  /// that it has any.
  void note_own_pages(Bytes size) noexcept;
  void count_launch_without_buffers() noexcept {
    launches_without_buffers_.fetch_add(1, std::memory_order_relaxed);
  }
  /// What happened in the context so far. Calls no driver function.
  [[nodiscard]] RunFigures figures() const;

 private:
  struct DeviceFacts {
    CUcontext context;
    CUdevice device;
    Bytes total;
    Bytes context_bytes;
    Bytes budget;  ///< 0: none
    std::uint64_t buffers_before;
  };
  ManagedContext(const DeviceFacts& facts, const Configuration& configuration);

  [[nodiscard]] std::string name_of_launch(KernelId kernel) const;
  void start_trace() noexcept;
  std::string join_host_ledger();
  [[nodiscard]] ResidencyOptions residency_options();
  [[nodiscard]] BudgetAnswer standing_refusal() const noexcept;
  void note_refused_operation(bool is_without_room) noexcept;
  std::string show();
  void warn_of_being_alone(std::string_view no_ledger, std::string_view no_segment) const;
  [[nodiscard]] LiveFigures live_figures() const;
  [[nodiscard]] bool can_order_slowly(StreamHandle stream) const noexcept;
  [[nodiscard]] bool is_green_stream(StreamHandle stream) const noexcept;
  template <typename Times>
  void use_unless_closed(Times* times, std::atomic<Times*>& place) noexcept;

  const Configuration& configuration_;
  const CUcontext context_;
  const CUdevice device_;
  const Bytes device_total_;
  const Bytes context_bytes_;
  const Bytes budget_;
  const std::uint64_t buffers_before_;
  const Bytes headroom_;
  std::atomic<bool> is_closed_{false};
  DriverDeviceMemory device_memory_;
  ForeignStreams foreign_streams_{device_memory_};
  std::unique_ptr<TraceRecording> recording_;  ///< null unless a trace is recorded
  TraceRecorder* trace_ = nullptr;             ///< of recording_
  std::mutex peers_mutex_;                     ///< open_to() runs once at a time
  std::mutex times_mutex_;  ///< to start timing kernels, and to close the context
  // Owned, and never destroyed either: their threads, and CUPTI, may use them.
  std::atomic<KernelTimer*> kernel_timer_{nullptr};
  std::atomic<CuptiCollector*> cupti_collector_{nullptr};
  KernelLayoutCache layouts_;
  ExecutableGraphs graphs_;
  UnknownKernels unknown_kernels_;
  HostMemoryWatch host_memory_;
  std::unique_ptr<HostLedger> host_ledger_;  ///< null: no memory is shared; left at the end
  std::unique_ptr<ResidencyManager> residency_;
  // As long as residency_.
  std::optional<TensorMaps> tensor_maps_;
  std::optional<PointerArrays> pointer_arrays_;
  std::optional<PointerPins> pins_;
  std::optional<NotedWords> noted_words_;
  /// What other processes see of this one, and ask of it; null if there is no shared memory. It
  /// stays after close(): at exit one thread may be in end_progress() while another destroys the
  /// context. abandon() alone lets go of it, which never runs beside close(), since the registry
  /// hands a context to one of the two, and not beside end_progress(), which the same thread called
  /// before.
  std::unique_ptr<BudgetRequests> requests_;
  LaunchOverheadMeter overhead_;
  RecentLaunches recent_launches_;
  std::atomic<bool> has_reported_fault_{false};
  std::atomic<std::uint64_t> launches_without_buffers_{0};
  std::atomic<std::uint64_t> refused_operations_{0};
  std::atomic<std::uint64_t> own_pages_{0};  ///< bytes that the program asked for, freed or not

  std::atomic<std::int64_t> next_note_ns_{0};
  mutable std::mutex noted_mutex_;
  LearnedSnapshot noted_;  ///< as of the last note_free(); guarded by noted_mutex_
};

}  // namespace superpipe
