// Stream capture: streams whose work becomes nodes of a graph, and the calls that it forbids.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/graphs/graph.h"
#include "tools/simgpu/driver/streams/stream_table.h"

namespace simgpu {

class Capture;

/// What a capturing stream held when an event was recorded there.
struct CapturedMark {
  std::shared_ptr<Capture> capture;
  std::vector<Dependency> dependencies;  ///< valid while the capture is under way
};
using CapturedMarkPtr = std::shared_ptr<const CapturedMark>;

/// How many captures are under way in the process. Zero almost always, so that the functions below
/// cost one load.
extern std::atomic<int> captures_under_way;
inline bool any_capture() { return captures_under_way.load(std::memory_order_acquire) != 0; }

/// @name For calls that submit work to a stream
/// The answer is what the call returns; nullopt: the stream does not capture, and nothing forbids
/// the work. Work on the legacy stream while a blocking stream of its context captures invalidates
/// that capture, and is refused with CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; on a stream whose capture
/// is invalid, with CUDA_ERROR_STREAM_CAPTURE_INVALIDATED. Thread-safe; waits on nothing.
/// @{

/// Makes the work a node. `work()` gives it, and is called only if the stream captures.
std::optional<CUresult> capture_work(const StreamPtr& stream,
                                     const std::function<NodeWorkPtr()>& work);
template <typename Work>
std::optional<CUresult> capture(const StreamPtr& stream, const Work& work) {
  return any_capture() ? capture_work(stream, work) : std::nullopt;
}
/// An allocation node, whose address goes to `*address`.
std::optional<CUresult> capture_allocation(const StreamPtr& stream, std::uint64_t size,
                                           CUdeviceptr* address);
/// A free node. CUDA_ERROR_INVALID_VALUE unless a graph allocates the memory.
std::optional<CUresult> capture_free(const StreamPtr& stream, CUdeviceptr address);
/// The launch of an executable graph: a child graph.
std::optional<CUresult> capture_launch(const StreamPtr& stream, const GraphPtr& graph);
/// An event record that marks the stream's place; `*mark` is what the event is recorded with.
std::optional<CUresult> capture_record(const StreamPtr& stream, CapturedMarkPtr* mark);
/// A wait for an event that was recorded with `mark`, or outside of captures if null: `stream`
/// joins the capture, or goes on after what was marked.
std::optional<CUresult> capture_wait(const StreamPtr& stream, const CapturedMarkPtr& mark);
/// A record of, or a wait for, an event outside of the graph: a node. Not while capturing:
/// CUDA_ERROR_INVALID_VALUE.
CUresult capture_external(const StreamPtr& stream, NodeWork work);

/// For calls that cannot be captured: on a capturing stream they invalidate the capture, and are
/// refused with CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
std::optional<CUresult> refuse_captured(const StreamPtr& stream);
/// refuse_captured() for a call that also waits, and so is unsafe (check_unsafe()).
std::optional<CUresult> refuse_synchronous(const StreamPtr& stream);
/// @}

/// For calls that wait for all of `context`: captures of its streams become invalid.
/// @return CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if there are any.
CUresult refuse_captures_in(Context& context);

/// For calls that ask about an event that was recorded with `mark` (null: outside of captures).
/// @return CUDA_SUCCESS, or CUDA_ERROR_CAPTURED_EVENT; the mark's capture is then invalid.
CUresult check_uncaptured(const CapturedMarkPtr& mark);

/// @name Potentially unsafe calls
/// Those that are neither captured nor ordered by streams, so that a replay would miss what they
/// did. Which captures forbid them to which threads: CUDA Driver API,
/// cuThreadExchangeStreamCaptureMode.
/// @{
CUresult refuse_unsafe();
/// @return CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the captures that forbid the
/// call
///     are then invalid. Thread-safe; one load while nothing is captured.
inline CUresult check_unsafe() { return any_capture() ? refuse_unsafe() : CUDA_SUCCESS; }
/// Sets the calling thread's mode. @return the one before.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);
/// @}

/// @name What the functions of captures do
/// Their codes are those that the functions document. REQUIRES of the first: not graphs_mutex().
/// @{
CUresult begin_capture(const StreamPtr& stream, CUstreamCaptureMode mode);
CUresult begin_capture_to(const StreamPtr& stream, CUgraph graph, const CUgraphNode* dependencies,
                          const CUgraphEdgeData* data, std::size_t count, CUstreamCaptureMode mode);
CUresult end_capture(const StreamPtr& stream, CUgraph* graph);
/// @return also CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream, while a blocking stream
/// of
///     its context captures.
CUresult capture_status(const StreamPtr& stream, CUstreamCaptureStatus* status);

/// What a capturing stream is at. The arrays live until the stream's next call.
struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 0;
  bool has_data = false;  ///< any of `data` is not zero
};
CUresult capture_info(const StreamPtr& stream, CaptureInfo* info);
CUresult update_capture_dependencies(const StreamPtr& stream, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* data, std::size_t count,
                                     unsigned flags);
/// The stream is being destroyed: a capture that began there ends, and its graph goes.
void forget_captures_of(const StreamPtr& stream);
/// The same for all streams of `context`.
void forget_captures_of(const Context& context);
/// @}

/// The dependencies that a program names, by handles of nodes of `graph`. `data` may be null.
/// @return CUDA_ERROR_INVALID_VALUE for nodes of other graphs, duplicates, or impossible data.
CUresult dependencies_of(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                         std::size_t count, std::vector<Dependency>* dependencies);

/// Adds a free node for memory at `address` to `graph`. REQUIRES: graphs_mutex().
/// @return CUDA_ERROR_INVALID_VALUE if no graph allocates it, or a node frees it already.
CUresult free_work_of(const Graph& graph, CUdeviceptr address, NodeWorkPtr* work);

}  // namespace simgpu
