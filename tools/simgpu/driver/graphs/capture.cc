#include "tools/simgpu/driver/graphs/capture.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <utility>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {

/// One capture, from its begin to its end. Under graphs_mutex().
class Capture {
 public:
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  StreamPtr origin;
  GraphPtr graph;
  bool into_given_graph = false;  ///< cuStreamBeginCaptureToGraph: the graph is the program's
  bool invalid = false;
  bool ended = false;
};

std::atomic<int> captures_under_way{0};

namespace {

using CapturePtr = std::shared_ptr<Capture>;

/// One stream that captures.
struct CapturingStream {
  StreamPtr stream;
  CapturePtr capture;
  std::vector<Dependency> dependencies;  ///< of the next node
  // What capture_info() handed out.
  std::vector<CUgraphNode> shown_nodes;
  std::vector<CUgraphEdgeData> shown_data;
};

/// All of the process. Under graphs_mutex().
std::unordered_map<const Stream*, CapturingStream>& capturing_streams() {
  static auto* const streams = new std::unordered_map<const Stream*, CapturingStream>;
  return *streams;
}

std::vector<CapturePtr>& current_captures() {
  static auto* const captures = new std::vector<CapturePtr>;
  return *captures;
}

thread_local CUstreamCaptureMode thread_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CapturingStream* find_capturing(const StreamPtr& stream) {
  const auto found = capturing_streams().find(stream.get());
  return found == capturing_streams().end() ? nullptr : &found->second;
}

/// Whether `stream` is the legacy stream of a context one of whose blocking streams captures.
/// Invalidates those captures if asked to.
bool conflicts_with_legacy(const StreamPtr& stream, bool invalidate) {
  if (stream->kind != StreamKind::kLegacy) return false;
  bool found = false;
  for (const auto& [key, capturing] : capturing_streams()) {
    if (&capturing.stream->context != &stream->context ||
        capturing.stream->kind == StreamKind::kNonBlocking) {
      continue;
    }
    found = true;
    if (invalidate) capturing.capture->invalid = true;
  }
  return found;
}

/// Looks `stream` up for work. @return an answer, or nullopt and `*capturing`, null if it does not
/// capture.
std::optional<CUresult> look_up(const StreamPtr& stream, CapturingStream** capturing) {
  *capturing = nullptr;
  if (conflicts_with_legacy(stream, true)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *capturing = find_capturing(stream);
  if (*capturing != nullptr && (*capturing)->capture->invalid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  return std::nullopt;
}

void add_node(CapturingStream& capturing, NodeWorkPtr work) {
  GraphNode& node =
      capturing.capture->graph->add(std::move(work), std::move(capturing.dependencies));
  capturing.dependencies = {{&node, {}}};
}

void add_dependencies(std::vector<Dependency>& to, const std::vector<Dependency>& more) {
  for (const Dependency& dependency : more) {
    const bool known = std::any_of(
        to.begin(), to.end(), [&](const Dependency& each) { return each.node == dependency.node; });
    if (!known) to.push_back(dependency);
  }
}

CUresult invalidate(const CapturePtr& capture, CUresult why) {
  capture->invalid = true;
  return why;
}

/// Takes all streams out of `capture`.
void finish(const CapturePtr& capture) {
  capture->ended = true;
  --capture->graph->captures;
  std::erase_if(capturing_streams(),
                [&](const auto& each) { return each.second.capture == capture; });
  std::erase(current_captures(), capture);
  captures_under_way.fetch_sub(1);
}

void destroy_captured_graph(const CapturePtr& capture) {
  if (!capture->into_given_graph) capture->graph->forget_handles();
}

/// Whether every branch of `capture` has come back to the stream where it began.
bool is_joined(const CapturePtr& capture, const CapturingStream& origin) {
  for (const auto& [key, capturing] : capturing_streams()) {
    if (capturing.capture != capture) continue;
    for (const Dependency& tip : capturing.dependencies) {
      if (!Graph::is_before(*tip.node, origin.dependencies)) return false;
    }
  }
  return true;
}

CUresult begin_capture_into(const StreamPtr& stream, GraphPtr graph, bool given,
                            std::vector<Dependency> dependencies, CUstreamCaptureMode mode) {
  auto capture = std::make_shared<Capture>();
  capture->id = next_object_id();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->graph = std::move(graph);
  capture->into_given_graph = given;
  ++capture->graph->captures;
  capturing_streams()[stream.get()] = {stream, capture, std::move(dependencies), {}, {}};
  current_captures().push_back(std::move(capture));
  captures_under_way.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult check_begin(const StreamPtr& stream, CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->kind == StreamKind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return find_capturing(stream) != nullptr ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

bool is_zero(const CUgraphEdgeData& data) {
  const CUgraphEdgeData zero{};
  return std::memcmp(&data, &zero, sizeof(data)) == 0;
}

}  // namespace

std::optional<CUresult> capture_work(const StreamPtr& stream,
                                     const std::function<NodeWorkPtr()>& work) {
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (capturing == nullptr) return std::nullopt;
  add_node(*capturing, work());
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_allocation(const StreamPtr& stream, std::uint64_t size,
                                           CUdeviceptr* address) {
  if (!any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (capturing == nullptr) return std::nullopt;
  Device& device = stream->context.device();
  AllocateWork work;
  if (const CUresult result = GraphAllocation::create(device, size, &work.allocation);
      result != CUDA_SUCCESS) {
    return result;
  }
  work.properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  work.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  work.properties.location.id = device.ordinal();
  *address = work.allocation->address();
  add_node(*capturing, seal(std::move(work)));
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_free(const StreamPtr& stream, CUdeviceptr address) {
  if (!any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (capturing == nullptr) return std::nullopt;
  NodeWorkPtr work;
  const CUresult result = free_work_of(*capturing->capture->graph, address, &work);
  if (result == CUDA_SUCCESS) add_node(*capturing, std::move(work));
  return result;
}

std::optional<CUresult> capture_launch(const StreamPtr& stream, const GraphPtr& graph) {
  if (!any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (capturing == nullptr) return std::nullopt;
  if (graph->has_memory_nodes() || graph->has_conditional_nodes()) {
    return invalidate(capturing->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  ChildWork work{graph->clone(true)};
  work.graph->owned_by_node = true;
  add_node(*capturing, seal(std::move(work)));
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_record(const StreamPtr& stream, CapturedMarkPtr* mark) {
  if (!any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (capturing == nullptr) return std::nullopt;
  *mark = std::make_shared<CapturedMark>(CapturedMark{capturing->capture, capturing->dependencies});
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_wait(const StreamPtr& stream, const CapturedMarkPtr& mark) {
  if (mark == nullptr && !any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return answer;
  if (mark == nullptr) {
    if (capturing == nullptr) return std::nullopt;
    return invalidate(capturing->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  const CapturePtr& theirs = mark->capture;
  if (theirs->ended) {
    if (capturing != nullptr) capturing->capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (theirs->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->kind == StreamKind::kLegacy) {
    return invalidate(theirs, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
  if (capturing == nullptr) {
    capturing_streams()[stream.get()] = {stream, theirs, mark->dependencies, {}, {}};
    return CUDA_SUCCESS;
  }
  if (capturing->capture != theirs) {
    capturing->capture->invalid = true;
    return invalidate(theirs, CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  add_dependencies(capturing->dependencies, mark->dependencies);
  return CUDA_SUCCESS;
}

CUresult capture_external(const StreamPtr& stream, NodeWork work) {
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* capturing = nullptr;
  if (const auto answer = look_up(stream, &capturing)) return *answer;
  if (capturing == nullptr) return CUDA_ERROR_INVALID_VALUE;
  add_node(*capturing, seal(std::move(work)));
  return CUDA_SUCCESS;
}

std::optional<CUresult> refuse_captured(const StreamPtr& stream) {
  if (!any_capture()) return std::nullopt;
  const std::lock_guard lock{graphs_mutex()};
  if (conflicts_with_legacy(stream, true)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const CapturingStream* const capturing = find_capturing(stream);
  if (capturing == nullptr) return std::nullopt;
  if (capturing->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return invalidate(capturing->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

std::optional<CUresult> refuse_synchronous(const StreamPtr& stream) {
  if (const auto answer = refuse_captured(stream)) return answer;
  const CUresult unsafe = check_unsafe();
  return unsafe == CUDA_SUCCESS ? std::nullopt : std::optional{unsafe};
}

CUresult refuse_captures_in(Context& context) {
  if (!any_capture()) return CUDA_SUCCESS;
  const std::lock_guard lock{graphs_mutex()};
  bool found = false;
  for (auto& [key, capturing] : capturing_streams()) {
    if (&capturing.stream->context != &context) continue;
    capturing.capture->invalid = true;
    found = true;
  }
  return found ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult check_uncaptured(const CapturedMarkPtr& mark) {
  if (mark == nullptr) return CUDA_SUCCESS;
  const std::lock_guard lock{graphs_mutex()};
  mark->capture->invalid = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult refuse_unsafe() {
  if (thread_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const std::lock_guard lock{graphs_mutex()};
  bool forbidden = false;
  for (const CapturePtr& capture : current_captures()) {
    if (capture->invalid) continue;
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool forbids = mine ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                              : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                    thread_capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!forbids) continue;
    capture->invalid = true;
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(thread_capture_mode, mode);
}

CUresult begin_capture(const StreamPtr& stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock{graphs_mutex()};
  if (const CUresult result = check_begin(stream, mode); result != CUDA_SUCCESS) return result;
  return begin_capture_into(stream, Graph::create(true), false, {}, mode);
}

CUresult begin_capture_to(const StreamPtr& stream, CUgraph handle, const CUgraphNode* nodes,
                          const CUgraphEdgeData* data, std::size_t count,
                          CUstreamCaptureMode mode) {
  const std::lock_guard lock{graphs_mutex()};
  if (const CUresult result = check_begin(stream, mode); result != CUDA_SUCCESS) return result;
  GraphPtr graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Dependency> dependencies;
  if (const CUresult result = dependencies_of(*graph, nodes, data, count, &dependencies);
      result != CUDA_SUCCESS) {
    return result;
  }
  return begin_capture_into(stream, std::move(graph), true, std::move(dependencies), mode);
}

CUresult end_capture(const StreamPtr& stream, CUgraph* graph) {
  const std::lock_guard lock{graphs_mutex()};
  const CapturingStream* const capturing = find_capturing(stream);
  if (capturing == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const CapturePtr capture = capturing->capture;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (capture->origin != stream) {
    return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  const CUresult result = capture->invalid                 ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : is_joined(capture, *capturing) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  finish(capture);
  if (result != CUDA_SUCCESS) destroy_captured_graph(capture);
  *graph = result == CUDA_SUCCESS ? capture->graph->handle() : nullptr;
  return result;
}

CUresult capture_status(const StreamPtr& stream, CUstreamCaptureStatus* status) {
  CaptureInfo info;
  const CUresult result = capture_info(stream, &info);
  if (result == CUDA_SUCCESS) *status = info.status;
  return result;
}

CUresult capture_info(const StreamPtr& stream, CaptureInfo* info) {
  *info = {};
  if (!any_capture()) return CUDA_SUCCESS;
  const std::lock_guard lock{graphs_mutex()};
  if (conflicts_with_legacy(stream, false)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  CapturingStream* const capturing = find_capturing(stream);
  if (capturing == nullptr) return CUDA_SUCCESS;
  if (capturing->capture->invalid) {
    info->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  }
  capturing->shown_nodes.clear();
  capturing->shown_data.clear();
  for (const Dependency& dependency : capturing->dependencies) {
    capturing->shown_nodes.push_back(dependency.node->handle);
    capturing->shown_data.push_back(dependency.data);
    info->has_data = info->has_data || !is_zero(dependency.data);
  }
  info->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  info->id = capturing->capture->id;
  info->graph = capturing->capture->graph->handle();
  info->dependencies = capturing->shown_nodes.data();
  info->data = capturing->shown_data.data();
  info->count = capturing->shown_nodes.size();
  return CUDA_SUCCESS;
}

CUresult update_capture_dependencies(const StreamPtr& stream, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* data, std::size_t count,
                                     unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  CapturingStream* const capturing = find_capturing(stream);
  if (capturing == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capturing->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<Dependency> dependencies;
  if (const CUresult result =
          dependencies_of(*capturing->capture->graph, nodes, data, count, &dependencies);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) capturing->dependencies.clear();
  add_dependencies(capturing->dependencies, dependencies);
  return CUDA_SUCCESS;
}

void forget_captures_of(const StreamPtr& stream) {
  if (!any_capture()) return;
  const std::lock_guard lock{graphs_mutex()};
  const CapturingStream* const capturing = find_capturing(stream);
  if (capturing == nullptr) return;
  const CapturePtr capture = capturing->capture;
  // Of another stream it is still asked, at the end of the capture, whether it was joined.
  if (capture->origin != stream) return;
  finish(capture);
  destroy_captured_graph(capture);
}

void forget_captures_of(const Context& context) {
  if (!any_capture()) return;
  const std::lock_guard lock{graphs_mutex()};
  std::vector<CapturePtr> ending;
  for (const auto& [key, capturing] : capturing_streams()) {
    if (&capturing.stream->context == &context) ending.push_back(capturing.capture);
  }
  for (const CapturePtr& capture : ending) {
    if (capture->ended) continue;
    finish(capture);
    destroy_captured_graph(capture);
  }
}

CUresult dependencies_of(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                         std::size_t count, std::vector<Dependency>* dependencies) {
  if (count != 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t index = 0; index < count; ++index) {
    const auto node = Graph::find_node(nodes[index]);
    if (node == nullptr || node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    Dependency dependency{node.get(), {}};
    if (data != nullptr) {
      dependency.data = data[index];
      // Only kernels have other ports than the default, and only for other kernels.
      const bool known = dependency.data.to_port == 0 &&
                         dependency.data.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
                         dependency.data.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
      const bool kernel = type_of(*node->work) == CU_GRAPH_NODE_TYPE_KERNEL;
      if (!known || (!kernel && !is_zero(dependency.data))) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const Dependency& other : *dependencies) {
      if (other.node == dependency.node) return CUDA_ERROR_INVALID_VALUE;
    }
    dependencies->push_back(dependency);
  }
  return CUDA_SUCCESS;
}

CUresult free_work_of(const Graph& graph, CUdeviceptr address, NodeWorkPtr* work) {
  const GraphAllocationPtr allocation = GraphAllocation::find(address);
  if (allocation == nullptr || allocation->free_node == GraphAllocation::FreeNode::kOwnGraph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool own = false;
  for (const auto& node : graph.nodes()) {
    const auto* const allocate = std::get_if<AllocateWork>(node->work.get());
    own = own || (allocate != nullptr && allocate->allocation == allocation);
    const auto* const release = std::get_if<FreeWork>(node->work.get());
    if (release != nullptr && release->allocation == allocation) return CUDA_ERROR_INVALID_VALUE;
  }
  if (own && allocation->free_node == GraphAllocation::FreeNode::kOtherGraph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  allocation->free_node =
      own ? GraphAllocation::FreeNode::kOwnGraph : GraphAllocation::FreeNode::kOtherGraph;
  *work = seal(FreeWork{allocation});
  return CUDA_SUCCESS;
}

}  // namespace simgpu
