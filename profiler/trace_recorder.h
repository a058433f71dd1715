// Records what happens in this process, for a trace.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/units.h"
#include "profiler/trace_event.h"
#include "profiler/trace_ring.h"
#include "profiler/trace_writer.h"

namespace superpipe {

/// What a recorder has recorded.
struct TraceTotals {
  std::uint64_t events = 0;   ///< that were written
  std::uint64_t dropped = 0;  ///< for which there was no room
  std::uint64_t bytes = 0;    ///< of the file
};

/// Takes events from any thread, and writes them on one.
///
/// A thread that records takes no lock and waits for nothing: it adds to a ring of its own, which
/// write() empties. What does not fit there is dropped and counted. The first event of a thread
/// takes a lock, and host memory for the ring.
///
/// The owner of the recorder has run() run on a thread, and calls finish() after that has ended.
class TraceRecorder {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Events have times that are rounded down to steps of this. Times differ at random: each digit
  /// fewer makes a file shorter, and most of it is times.
  static constexpr std::chrono::nanoseconds kTimeStep{512};

  struct Options {
    std::size_t ring_bytes = std::size_t{1} << 20;  ///< of each thread; a power of two
    std::chrono::milliseconds rest{4};              ///< between two looks at the rings
    std::chrono::milliseconds chunk_time{250};      ///< after which a chunk is written, full or not
    /// The name of a kernel that was launched. Called on the thread of run() or finish().
    std::function<std::string(KernelId)> kernel_name = [](KernelId) { return std::string(); };
    /// A line for each frame of a call site, by its return addresses and what was noted of it.
    /// Called as kernel_name is.
    std::function<std::string(std::span<void* const>, std::string_view note)> call_site_frames =
        [](std::span<void* const>, std::string_view) { return std::string(); };
    /// Told why the file cannot be written, on the thread of run() or finish(), once. Nothing is
    /// recorded after that.
    std::function<void(const std::string&)> on_problem = [](const std::string&) {};
  };

  /// `sink` must outlive the recorder. Times count from `start`. Writes nothing yet.
  TraceRecorder(TraceSink& sink, TimePoint start, Options options);
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;
  ~TraceRecorder();

  /// Writes the header with `properties`, and records from now on. To be called once.
  /// @return nullopt, or why the file cannot be written.
  std::optional<std::string> begin(std::span<const std::pair<std::string, std::string>> properties);

  // -- recording, from any thread; nothing is recorded before begin() and after stop()

  /// A launch of `kernel` that names `buffers`, which is not retained. `stream`: the handle.
  void launch(TimePoint time, std::uint64_t number, KernelId kernel, std::uint64_t stream,
              std::span<const BufferId> buffers) noexcept {
    add_with_buffers(time, TraceLaunch::kType,
                     {{}, number, static_cast<std::uint64_t>(kernel), stream}, buffers);
  }
  /// The same for TraceUse.
  void use(TimePoint time, bool writes, std::uint64_t stream,
           std::span<const BufferId> buffers) noexcept {
    add_with_buffers(time, TraceUse::kType, {{}, writes ? 1u : 0u, 0, stream}, buffers);
  }
  /// For TraceKernelTime: `event.kernel` is that of `kernel`.
  void kernel_time(TimePoint time, const TraceKernelTime& event, KernelId kernel) noexcept {
    add_raw(time, Raw<TraceKernelTime>{{}, event, static_cast<std::uint64_t>(kernel)});
  }
  /// The calling thread waited for `what` (TraceWait) from `begin` to `end`. What is shorter than
  /// TraceWait::kLeast is not recorded.
  void wait(std::uint64_t what, TimePoint begin, TimePoint end) noexcept {
    const std::chrono::nanoseconds waited = end - begin;
    if (waited >= TraceWait::kLeast) {
      add(end, TraceWait{what, static_cast<std::uint64_t>(waited.count())});
    }
  }
  /// Any other event without a stream.
  template <typename Event>
  void add(TimePoint time, const Event& event) noexcept {
    static_assert(
        !requires { event.stream; } && !requires { event.kernel; },
        "name streams and kernels by their handles");
    add_raw(time, Raw<Event>{{}, event, 0});
  }
  /// Any other event with a stream, by its handle; nullopt: none.
  template <typename Event>
  void add(TimePoint time, const Event& event, std::optional<std::uint64_t> stream) noexcept {
    Raw<Event> raw{{}, event, stream.value_or(0)};
    raw.event.stream = stream ? 1 : 0;
    add_raw(time, raw);
  }

  /// Different texts that are recorded; all others are one text, kTextOfOthers.
  static constexpr std::size_t kMostTexts = 65'536;
  static constexpr std::string_view kTextOfOthers = "(one text of too many)";

  /// The index of a text for marks. Takes a lock. 0: host memory has run out.
  TraceIndex intern_text(std::string_view text) noexcept;
  /// The index of the call site with this hash. Takes a lock. nullopt: it has none yet.
  std::optional<TraceIndex> known_call_site(std::uint64_t hash) const noexcept;
  /// The same; where it has none, it gets one. `frames`: its return addresses, innermost first.
  /// `note`: what has to be noted now for Options::call_site_frames. 0: host memory has run out.
  TraceIndex index_of_call_site(std::uint64_t hash, std::span<void* const> frames,
                                std::string note) noexcept;

  /// Whether events are recorded.
  [[nodiscard]] bool is_recording() const noexcept {
    return is_recording_.load(std::memory_order_relaxed);
  }

  /// `time` as events have it, except that it is not rounded.
  [[nodiscard]] std::int64_t nanoseconds(TimePoint time) const noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - start_).count();
  }

  /// Another number whenever the calling thread has recorded something more; 0: nothing yet.
  [[nodiscard]] std::uint64_t place_of_thread() const noexcept {
    const Current& current = current_;
    return current.recorder == id_ && current.ring != nullptr ? current.ring->end() : 0;
  }

  // -- writing

  /// Writes what is recorded until end(), stop(), or until nothing can be written any more. On a
  /// thread of its own; takes none of the program's time.
  void run() noexcept;
  /// Has run() return soon. Takes no lock.
  void end() noexcept { ended_.store(true); }
  /// Writes what has been recorded so far; where `flush`, up to a whole chunk. REQUIRES: run() does
  /// not run. For finish() and tests.
  void write(bool flush) noexcept;
  /// Records nothing any more, writes what is there, and ends the file. REQUIRES: run() has ended.
  /// @return whether the file is whole.
  bool finish(TimePoint now) noexcept;
  /// Records nothing any more: the child of a fork. Takes no lock.
  void stop() noexcept { is_recording_.store(false); }

  /// As of the last write(). Any thread.
  [[nodiscard]] TraceTotals totals() const noexcept;

 private:
  struct RawHeader {
    std::uint32_t type;
    std::uint32_t count;  // of the buffers that follow
    std::int64_t time;
  };
  template <typename Event>
  struct Raw {
    RawHeader header;
    Event event;
    std::uint64_t handle = 0;  ///< of what the event names by an index
  };
  /// A TraceLaunch or a TraceUse; its buffers follow. As short as can be, because it is written on
  /// one core and read on another.
  struct RawUse {
    RawHeader header;
    std::uint64_t number;  // or whether it writes
    std::uint64_t kernel;
    std::uint64_t stream;
  };
  /// A thread's ring, and what is known of the thread.
  struct Recording {
    std::shared_ptr<TraceRing> ring;
    std::uint32_t index = 0;
    std::uint32_t thread = 0;  // gettid()
    bool is_told = false;      // its TraceThread was written
    std::uint64_t end = 0;     // of the present round
    std::int64_t last_time = std::numeric_limits<std::int64_t>::min();  // of what was written
  };
  /// A call site that the file does not define yet.
  struct NewCallSite {
    TraceIndex index;
    std::vector<void*> frames;
    std::string note;
  };
  /// What the calling thread recorded to last.
  struct Current {
    std::uint64_t recorder = 0;
    TraceRing* ring = nullptr;
    bool has_ended = false;  // the thread's ThreadRings are gone
  };
  /// A thread's rings, by recorder: retires them at its end.
  struct ThreadRings {
    std::vector<std::pair<std::uint64_t, std::shared_ptr<TraceRing>>> rings;
    ~ThreadRings();
  };

  template <typename Event>
  void add_raw(TimePoint time, const Raw<Event>& raw) noexcept {
    static_assert(std::is_trivially_copyable_v<Event>);
    if (!is_recording()) return;
    TraceRing* const ring = ring_of_thread();
    if (ring == nullptr) return;
    ring->add(sizeof raw, [&](std::byte* place) {
      std::memcpy(place, &raw, sizeof raw);
      const RawHeader header{Event::kType, 0, nanoseconds(time)};
      std::memcpy(place, &header, sizeof header);
    });
  }
  void add_with_buffers(TimePoint time, std::uint32_t type, RawUse raw,
                        std::span<const BufferId> buffers) noexcept {
    if (!is_recording()) return;
    TraceRing* const ring = ring_of_thread();
    if (ring == nullptr) return;
    raw.header = {type, static_cast<std::uint32_t>(buffers.size()), nanoseconds(time)};
    ring->add(sizeof raw + buffers.size_bytes(), [&](std::byte* place) {
      std::memcpy(place, &raw, sizeof raw);
      std::ranges::copy(std::as_bytes(buffers), place + sizeof raw);
    });
  }
  TraceRing* ring_of_thread() noexcept {
    const Current& current = current_;
    if (current.recorder == id_) [[likely]]
      return current.ring;
    return begin_thread();
  }
  TraceRing* begin_thread() noexcept;
  TraceRing* find_or_make_ring();

  void write_round(bool flush);
  Recording* earliest();
  void write_definitions();
  [[nodiscard]] std::string frames_of(const NewCallSite& site) const noexcept;
  void write_record(Recording& from, const std::byte* record);
  template <typename Event>
  void write_event(const RawHeader& header, std::uint32_t thread, const std::byte* record);
  TraceIndex index_of_kernel(KernelId kernel);
  TraceIndex index_of_stream(std::uint64_t handle);
  void note_dropped();
  void forget_ended_threads();

  static thread_local constinit Current current_;
  static thread_local ThreadRings thread_rings_;

  TraceSink& sink_;
  const TimePoint start_;
  const Options options_;
  const std::uint64_t id_;
  std::atomic<bool> is_recording_{false};
  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> lost_{0};  // events of threads for whose ring there was no memory
  std::atomic<std::uint64_t> events_{0}, dropped_{0}, bytes_{0};

  // Under mutex_: what recording threads tell the writing one besides their rings.
  mutable std::mutex mutex_;
  std::vector<Recording> begun_;  // threads that the writer does not know yet
  std::uint32_t threads_ = 0;
  std::unordered_map<std::string, TraceIndex> texts_;
  std::vector<std::pair<TraceIndex, std::string>> new_texts_;
  std::unordered_map<std::uint64_t, TraceIndex> call_sites_;
  std::vector<NewCallSite> new_call_sites_;

  // The writing thread's.
  TraceWriter writer_;
  std::vector<Recording> threads_known_;
  std::unordered_map<KernelId, TraceIndex> kernels_;
  std::unordered_map<std::uint64_t, TraceIndex> streams_;
  std::uint64_t told_dropped_ = 0;
  std::uint64_t dropped_of_ended_ = 0;
  std::int64_t last_time_ = 0;
  TimePoint flushed_;
};

}  // namespace superpipe
