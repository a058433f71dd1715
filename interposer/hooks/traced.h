// What hooks tell a trace, where one is recorded: allocations, frees, copies and other uses.
//
// Each function is one predictable branch where none is.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "interposer/contexts/managed_context.h"
#include "interposer/cupti/launch_mark.h"
#include "interposer/driver/cuda_api.h"
#include "interposer/passthrough/passthrough_allocation.h"
#include "interposer/recording/call_sites.h"
#include "interposer/recording/kernel_timer.h"
#include "policy/units.h"
#include "profiler/launch_clock.h"
#include "profiler/trace_recorder.h"
#include "residency/uses/use_token.h"

namespace superpipe {

/// Calls `call`, in which the calling thread may wait for `what` (TraceWait), and tells of it if it
/// took long. @return what `call` did.
template <typename Call>
auto traced_wait(TraceRecorder* trace, std::uint64_t what, const Call& call) noexcept {
  if (trace == nullptr) [[likely]] {
    return call();
  }
  const auto begin = std::chrono::steady_clock::now();
  auto result = call();
  trace->wait(what, begin, std::chrono::steady_clock::now());
  return result;
}

/// allocate_passthrough(), and tells of the wait if it took long: for room, or until the driver has
/// the memory.
template <typename Call>
CUresult traced_passthrough(ManagedContext* managed, Bytes size, const Call& call) noexcept {
  TraceRecorder* const trace = managed != nullptr ? managed->trace() : nullptr;
  return traced_wait(trace, TraceWait::kLaunch,
                     [&] { return allocate_passthrough(managed, size, call); });
}

/// A stream as a trace knows it.
inline std::optional<std::uint64_t> handle_of(std::optional<StreamHandle> stream) noexcept {
  std::optional<std::uint64_t> handle;
  if (stream) handle.emplace(static_cast<std::uint64_t>(*stream));
  return handle;
}

/// The program allocated `size` bytes at `address`: a managed buffer, or memory of the driver's.
/// `stream`: in whose order; nullopt: at once.
inline void trace_allocation(ManagedContext& managed, CUdeviceptr address, std::size_t size,
                             std::optional<StreamHandle> stream) noexcept {
  TraceRecorder* const trace = managed.trace();
  if (trace == nullptr) [[likely]] {
    return;
  }
  // The call site would be looked for and remembered all the same.
  if (!trace->is_recording()) return;
  TraceAllocation event;
  event.address = address;
  event.size = Bytes{size};
  if (managed.in_arena(address)) {
    const auto range = managed.residency().find(address);
    if (!range) return;
    event.buffer = range->id;
    event.footprint = round_up(range->size, managed.granule());
    if (const auto near = managed.residency().near(address)) event.number = near->number;
  }
  event.call_site = call_site_of_hook(*trace);
  trace->add(std::chrono::steady_clock::now(), event, handle_of(stream));
}

/// Frees through `free`, which returns what has kOk or CUDA_SUCCESS, `success`, if it did, and
/// tells of it, and of the wait if it took long: `stream` may be too full to take the free, and one
/// without a stream waits for the device. The free is told as of before the call: another thread
/// may have the buffer's id just after it.
template <typename Result, typename Free>
Result trace_free(ManagedContext& managed, CUdeviceptr address, std::optional<StreamHandle> stream,
                  Result success, const Free& free) noexcept {
  TraceRecorder* const trace = managed.trace();
  if (trace == nullptr) [[likely]] {
    return free();
  }
  TraceFree event;
  event.address = address;
  if (const auto range = managed.residency().find(address)) event.buffer = range->id;
  const auto time = std::chrono::steady_clock::now();
  const Result result = free();
  if (result == success) trace->add(time, event, handle_of(stream));
  trace->wait(stream ? TraceWait::kLaunch : TraceWait::kDevice, time,
              std::chrono::steady_clock::now());
  return result;
}

/// An operation that is no launch is about to be submitted; `token` has its buffers.
inline void trace_use(ManagedContext& managed, const UseToken& token, bool writes,
                      StreamHandle stream) noexcept {
  TraceRecorder* const trace = managed.trace();
  if (trace == nullptr) [[likely]] {
    return;
  }
  trace->use(std::chrono::steady_clock::now(), writes, static_cast<std::uint64_t>(stream),
             token.buffers());
}

/// A part of a copy between the host and the managed buffer at `address` is about to be submitted,
/// and goes by `route`.
inline void trace_copy(ManagedContext& managed, CUdeviceptr address, const CopyRoute& route,
                       bool to_device, StreamHandle stream) noexcept {
  TraceRecorder* const trace = managed.trace();
  if (trace == nullptr) [[likely]] {
    return;
  }
  const auto range = managed.residency().find(address);
  if (!range) return;
  trace->add(std::chrono::steady_clock::now(),
             TraceCopy{range->id, Bytes{address - range->base}, route.size, to_device,
                       route.host != nullptr, 0},
             static_cast<std::uint64_t>(stream));
}

/// A launch of `kernel` without managed buffers is about to be submitted, at `clock`. It has the
/// number of the last launch that has some. What a graph captures, and what another context runs,
/// is no launch.
inline void trace_launch(ManagedContext& managed, LaunchClock& clock, KernelId kernel,
                         StreamHandle stream) noexcept {
  if (TraceRecorder* const trace = managed.trace(); trace != nullptr) {
    if (!managed.can_order(stream)) return;
    trace->launch(clock.now(), managed.residency().launches(), kernel,
                  static_cast<std::uint64_t>(stream), {});
  }
}

/// The same with buffers: those of `token`.
inline void trace_launch(ManagedContext& managed, LaunchClock& clock, KernelId kernel,
                         StreamHandle stream, const UseToken& token) noexcept {
  if (TraceRecorder* const trace = managed.trace(); trace != nullptr) {
    trace->launch(clock.now(), token.launch(), kernel, static_cast<std::uint64_t>(stream),
                  token.buffers());
  }
}

/// Launches through `call`, so that CUPTI's record of it is known for that of `launch`.
template <typename Call>
CUresult marked_call(ManagedContext& managed, const MarkedLaunch& launch,
                     const Call& call) noexcept {
  CuptiCollector* const collector = managed.cupti_collector();
  if (collector == nullptr) return call();
  const LaunchMark mark(*collector, launch);
  return call();
}

/// Launches through `call`, behind all that it has to wait for in its stream, as trace_launch()
/// told of it, and times that if it is its turn. @return what `call` did.
template <typename Call>
CUresult timed_call(ManagedContext& managed, KernelId kernel, const UseToken& token,
                    StreamHandle stream, const Call& call) noexcept {
  KernelTimer* const timer = managed.kernel_timer();
  if (timer == nullptr) return marked_call(managed, {token.launch(), kernel, true}, call);
  const KernelTimer::Timing timing = timer->begin(kernel, stream);
  const CUresult result = call();
  if (timing) timer->end(timing, stream, token.launch(), true, result == CUDA_SUCCESS);
  return result;
}

/// The same for a launch without managed buffers.
template <typename Call>
CUresult timed_call(ManagedContext& managed, KernelId kernel, StreamHandle stream,
                    const Call& call) noexcept {
  if (!managed.can_order(stream)) return call();
  const std::uint64_t number = managed.residency().launches();
  KernelTimer* const timer = managed.kernel_timer();
  if (timer == nullptr) return marked_call(managed, {number, kernel, false}, call);
  const KernelTimer::Timing timing = timer->begin(kernel, stream);
  const CUresult result = call();
  if (timing) timer->end(timing, stream, number, false, result == CUDA_SUCCESS);
  return result;
}

/// A graph is about to be launched, at `clock`.
inline void trace_graph_launch(ManagedContext& managed, LaunchClock& clock,
                               StreamHandle stream) noexcept {
  if (TraceRecorder* const trace = managed.trace(); trace != nullptr) [[unlikely]] {
    if (!managed.can_order(stream)) return;
    trace->add(clock.now(), TraceMark{TraceMark::kPoint, trace->intern_text(kTraceGraphLaunch), 0});
  }
}

}  // namespace superpipe
