// Executable graphs: what their nodes name is read when they are made, and used when they are
// launched.
#include <new>
#include <utility>

#include "interposer/contexts/context_registry.h"
#include "interposer/contexts/managed_context.h"
#include "interposer/driver/codes.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/graphs/graph_reader.h"
#include "interposer/hooks/graph_nodes.h"
#include "interposer/hooks/submit.h"
#include "interposer/hooks/traced.h"
#include "interposer/passthrough/passthrough_allocation.h"
#include "profiler/launch_clock.h"
#include "residency/uses/use_token.h"

namespace superpipe {
namespace {

constexpr char kIncomplete[] = "a graph has nodes of which the driver does not tell what they use";
constexpr char kChangedUnnoted[] =
    "a graph was changed while host memory was out, so that superpipe does not know what it uses: "
    "launches of it fail until it is instantiated anew";
constexpr char kLaunchedByDevice[] = "a graph may be launched by device code";

/// The managed context, if its buffers may leave the device: else nothing has to be known of
/// graphs.
ManagedContext* moving_context() noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  return managed != nullptr && managed->moves() ? managed : nullptr;
}

using Launcher = ExecutableGraphs::Launcher;

/// Keeps on the device what launches of the graph that was read as `read` could use unseen. A pin
/// ends with its buffer; of what is allocated there later, launches of the graph show the use.
Status pin_unseen(ManagedContext& managed, ReadGraph& read, Launcher launcher) {
  if (launcher == Launcher::kDevice) {
    const Status status = managed.pins().pin(read.words.all(), kLaunchedByDevice);
    if (status != Status::kOk) return status;
  }
  if (read.complete) return Status::kOk;
  const GraphWords::Words noted = managed.noted_words().all();
  read.words.add(noted);
  return managed.pins().pin(noted, kIncomplete);
}

/// Reads `graph`, has the driver take its nodes through `call(read)`, and hands what was read to
/// `remember(read, result of the call)`. Where nothing has to be known, `read` is that of no graph.
template <typename Call, typename Remember>
CUresult take_graph(CUgraph graph, Launcher launcher, const Call& call,
                    const Remember& remember) noexcept {
  ManagedContext* const managed = moving_context();
  if (managed == nullptr) return call(ReadGraph{});
  try {
    ReadGraph read = read_graph(*managed, graph);
    if (!read.exists) return call(read);
    const Status status = pin_unseen(*managed, read, launcher);
    if (status != Status::kOk) return managed->failure(status, CallKind::kAllocation);
    // The driver may look the addresses of copies and fills up again. If they do not fit together,
    // it has to do without.
    UseToken token;
    (void)managed->residency().begin_hold(read.checked, token);
    const CUresult result = call(read);
    managed->residency().end_hold(token);
    remember(*managed, std::move(read), result);
    return result;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

/// Submits through `submit(ask)`, which has `ask(call)` call the driver: that takes `size` bytes
/// for allocations of a graph, and perhaps memory for its nodes.
template <typename Submit>
CUresult take_memory(Bytes size, const Submit& submit) noexcept {
  ManagedContext* const managed = moving_context();
  if (managed == nullptr || size == Bytes{}) {
    return submit(
        [](const auto& call) { return change_passthrough(PassthroughChange::kGrowth, call); });
  }
  return grow_passthrough(*managed, size, submit);
}

/// The same for a call of the driver that is nothing but that.
template <typename Call>
CUresult take_memory_by(Bytes size, const Call& call) noexcept {
  return take_memory(size, [&](const auto& ask) { return ask(call); });
}

template <typename Call>
CUresult instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags,
                     const Call& call) noexcept {
  const Launcher launcher = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0
                                ? Launcher::kDevice
                                : Launcher::kHost;
  const bool uploads = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  return take_graph(
      graph, launcher,
      [&](const ReadGraph& read) {
        return take_memory_by(uploads ? read.allocates : Bytes{}, call);
      },
      [=](ManagedContext& managed, ReadGraph read, CUresult result) {
        if (result != CUDA_SUCCESS) return;
        try {
          managed.graphs().instantiated(*executable, std::move(read.words), read.nodes, launcher,
                                        read.allocates);
          if (uploads) managed.graphs().backed(*executable);
        } catch (const std::bad_alloc&) {
          // A launch of it would use buffers that are not known.
          (void)driver().cuGraphExecDestroy(*executable);
          throw;
        }
      });
}

/// What may launch `executable`, if anything has to be known of it.
Launcher launcher_of(CUgraphExec executable) noexcept {
  const ManagedContext* const managed = moving_context();
  return managed == nullptr ? Launcher::kHost : managed->graphs().launcher_of(executable);
}

/// Has the driver change `executable` by the graph `graph` through `call`, and hands what was read
/// to `remember(graphs, read, result)`. If host memory is out then, nobody knows what the graph
/// uses, and launches of it are refused.
template <typename Call, typename Remember>
CUresult change(CUgraphExec executable, CUgraph graph, const Call& call,
                const Remember& remember) noexcept {
  ManagedContext* const changing = moving_context();
  try {
    if (changing != nullptr) changing->graphs().begin_change(executable);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  bool may_go_unnoted = false;
  const CUresult answer = take_graph(
      graph, launcher_of(executable),
      [&](const ReadGraph& read) {
        may_go_unnoted = read.exists;
        return call();
      },
      [&](ManagedContext& managed, ReadGraph read, CUresult result) {
        remember(managed.graphs(), std::move(read), result);
        managed.graphs().end_change(executable);
      });
  if (changing != nullptr && !may_go_unnoted) changing->graphs().end_change(executable);
  return answer;
}

template <typename Call>
CUresult update(CUgraphExec executable, CUgraph graph, const Call& call) noexcept {
  return change(executable, graph, call,
                [executable](ExecutableGraphs& graphs, ReadGraph read, CUresult result) {
                  graphs.updated(executable, std::move(read.words), result != CUDA_SUCCESS,
                                 read.allocates);
                });
}

/// Has the driver give the node `node` the graph `child` through `call`.
template <typename Call>
CUresult change_child(CUgraphExec executable, CUgraphNode node, CUgraph child,
                      const Call& call) noexcept {
  return change(executable, child, call,
                [=](ExecutableGraphs& graphs, ReadGraph read, CUresult result) {
                  if (result != CUDA_SUCCESS) return;
                  graphs.child_changed(executable, node, std::move(read.words));
                });
}

/// Launches through `call`, behind what it has to wait for, and times that for the trace if it is
/// its turn.
template <typename Call>
CUresult timed_graph(ManagedContext& managed, KernelId graph, const UseToken& token,
                     StreamHandle stream, const Call& call) noexcept {
  if (managed.kernel_timer() == nullptr) return call();
  return timed_call(managed, graph, token, stream, call);
}

/// A launch of a graph uses all buffers that its nodes name, as a launch of a kernel does. It began
/// with `clock`.
template <typename Call>
CUresult launch_using(ManagedContext& managed, const ExecutableGraphs::Launch& graph,
                      StreamHandle stream, LaunchClock& clock, const Call& call) noexcept {
  if (graph.words == nullptr) {
    trace_graph_launch(managed, clock, stream);
    return clock.wait(call);
  }
  if (!managed.can_order(stream)) [[unlikely]] {
    return submit_unordered(managed, *graph.words, {}, stream, call);
  }
  UseToken token;
  managed.note_launch(graph.id);
  const Status status = clock.wait(
      [&] { return managed.residency().begin_launch(graph.id, *graph.words, stream, token); });
  if (status == Status::kWorkingSetTooLarge) managed.graphs().say_too_large();
  if (status != Status::kOk) return managed.failure(status, CallKind::kSubmission);
  trace_launch(managed, clock, graph.id, stream, token);
  const CUresult result =
      clock.wait([&] { return timed_graph(managed, graph.id, token, stream, call); });
  managed.residency().end_use(token, stream, result == CUDA_SUCCESS);
  return result;
}

/// The same, and the first one takes memory for what its nodes allocate.
template <typename Call>
CUresult launch(CUgraphExec executable, StreamHandle stream, const Call& call) noexcept {
  ManagedContext* const managed = ContextRegistry::managed();
  if (managed == nullptr) return call();
  if (managed->pins().has_pending()) [[unlikely]] {
    const Status status = managed->pins().pin_pending();
    if (status != Status::kOk) return managed->failure(status, CallKind::kSubmission);
  }
  ExecutableGraphs::Launch graph;
  try {
    graph = managed->graphs().find(executable);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (!graph.is_known) [[unlikely]] {
    log_line(LogLevel::kError, kChangedUnnoted);
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  LaunchClock clock(managed->trace());
  // In a capture it becomes a part of another graph, which takes the memory.
  if (graph.takes == Bytes{} || is_captured(stream)) [[likely]] {
    return launch_using(*managed, graph, stream, clock, call);
  }
  const CUresult result = take_memory(graph.takes, [&](const auto& ask) {
    clock.end_wait();  // for room
    return launch_using(*managed, graph, stream, clock, [&] { return ask(call); });
  });
  if (result == CUDA_SUCCESS) managed->graphs().backed(executable);
  return result;
}

/// Has the driver get a graph ready through `call`.
template <typename Call>
CUresult upload(CUgraphExec executable, const Call& call) noexcept {
  ManagedContext* const managed = moving_context();
  Bytes takes;
  try {
    if (managed != nullptr) takes = managed->graphs().find(executable).takes;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = take_memory_by(takes, call);
  if (result == CUDA_SUCCESS && takes > Bytes{}) managed->graphs().backed(executable);
  return result;
}

}  // namespace

CUresult keep_for_device(CUgraphExec graph, const NamedWords& named) noexcept {
  ManagedContext* const managed = named.managed();
  if (managed == nullptr || launcher_of(graph) == Launcher::kHost) return CUDA_SUCCESS;
  const Status status = managed->pins().pin(named.words().words(), kLaunchedByDevice);
  return status == Status::kOk ? CUDA_SUCCESS : managed->failure(status, CallKind::kAllocation);
}

CUresult begin_node_of(CUgraphExec graph, const NamedWords& named) noexcept {
  if (named.managed() == nullptr || !named.managed()->moves()) return CUDA_SUCCESS;
  try {
    named.managed()->graphs().begin_change(graph);
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult end_node_of(CUgraphExec graph, CUgraphNode node, const NamedWords& named,
                     CUresult result) noexcept {
  if (named.managed() == nullptr || !named.managed()->moves()) return result;
  ExecutableGraphs& graphs = named.managed()->graphs();
  const auto words = named.words().words();
  try {
    if (result == CUDA_SUCCESS) graphs.node_changed(graph, node, {words.begin(), words.end()});
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;  // and launches of the graph are refused
  }
  graphs.end_change(graph);
  return result;
}

CUresult hook::cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph,
                                  CUgraphNode* phErrorNode, char* logBuffer,
                                  size_t bufferSize) noexcept {
  return instantiate(phGraphExec, hGraph, 0, [&] {
    return driver().cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
  });
}
CUresult hook::cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph,
                                     CUgraphNode* phErrorNode, char* logBuffer,
                                     size_t bufferSize) noexcept {
  return instantiate(phGraphExec, hGraph, 0, [&] {
    return driver().cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
  });
}
CUresult hook::cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           unsigned long long flags) noexcept {
  return instantiate(phGraphExec, hGraph, flags, [&] {
    return driver().cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
  });
}
CUresult hook::cuGraphInstantiateWithParams(
    CUgraphExec* phGraphExec, CUgraph hGraph,
    CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  const auto flags = instantiateParams != nullptr ? instantiateParams->flags : 0;
  return instantiate(phGraphExec, hGraph, flags, [&] {
    return driver().cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
  });
}
CUresult hook::cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* phGraphExec, CUgraph hGraph,
    CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) noexcept {
  const auto flags = instantiateParams != nullptr ? instantiateParams->flags : 0;
  return instantiate(phGraphExec, hGraph, flags, [&] {
    return driver().cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams);
  });
}

CUresult hook::cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                 CUgraphNode* hErrorNode_out,
                                 CUgraphExecUpdateResult* updateResult_out) noexcept {
  return update(hGraphExec, hGraph, [&] {
    return driver().cuGraphExecUpdate(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
  });
}
CUresult hook::cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                    CUgraphExecUpdateResultInfo* resultInfo) noexcept {
  return update(hGraphExec, hGraph,
                [&] { return driver().cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo); });
}

CUresult hook::cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                  CUgraph childGraph) noexcept {
  return change_child(hGraphExec, hNode, childGraph, [&] {
    return driver().cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, childGraph);
  });
}

CUresult hook::cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        CUgraphNodeParams* nodeParams) noexcept {
  const auto call = [&] {
    return driver().cuGraphExecNodeSetParams(hGraphExec, hNode, nodeParams);
  };
  if (nodeParams != nullptr && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return change_child(hGraphExec, hNode, nodeParams->graph.graph, call);
  }
  NamedWords named;
  named.add(nodeParams);
  return submit_node_of(hGraphExec, hNode, named, call);
}

CUresult hook::cuGraphExecDestroy(CUgraphExec hGraphExec) noexcept {
  // Before: its handle may be another one's as soon as it is gone.
  if (ManagedContext* const managed = moving_context()) managed->graphs().destroyed(hGraphExec);
  return change_passthrough(PassthroughChange::kFree,
                            [&] { return driver().cuGraphExecDestroy(hGraphExec); });
}

CUresult hook::cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) noexcept {
  return upload(hGraphExec, [&] { return driver().cuGraphUpload(hGraphExec, hStream); });
}
CUresult hook::cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) noexcept {
  return upload(hGraphExec, [&] { return driver().cuGraphUpload_ptsz(hGraphExec, hStream); });
}
CUresult hook::cuDeviceGraphMemTrim(CUdevice device) noexcept {
  const CUresult result = change_passthrough(
      PassthroughChange::kFree, [device] { return driver().cuDeviceGraphMemTrim(device); });
  ManagedContext* const managed = moving_context();
  if (managed != nullptr && managed->device() == device) managed->graphs().trimmed();
  return result;
}

CUresult hook::cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) noexcept {
  return launch(hGraphExec, stream_handle(hStream, kLegacyDefault),
                [&] { return driver().cuGraphLaunch(hGraphExec, hStream); });
}
CUresult hook::cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) noexcept {
  return launch(hGraphExec, stream_handle(hStream, kPerThreadDefault),
                [&] { return driver().cuGraphLaunch_ptsz(hGraphExec, hStream); });
}

}  // namespace superpipe
