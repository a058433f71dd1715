// The driver functions of executable graphs.
#include <cstring>
#include <utility>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/executable.h"
#include "tools/simgpu/driver/graphs/node_parameters.h"

namespace simgpu {
namespace {

using ExecutablePtr = std::shared_ptr<Executable>;

constexpr unsigned long long kInstantiateFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                                 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                                 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags,
                     CUgraphInstantiateResult* problem, CUgraphNode* node) {
  SIMGPU_CONTEXT(context);
  *problem = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (out == nullptr || (flags & ~kInstantiateFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  // No device code runs that could launch it.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  (void)context;  // the home of the executable graph
  return Executable::create(graph, flags, out, problem, node);
}

CUresult instantiate_with_flags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  SIMGPU_ENTER(cuGraphInstantiate);
  CUgraphInstantiateResult problem = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
  return instantiate(out, graph, flags, &problem, &node);
}

/// The first ABI: no flags, but the node that is to blame and a text.
CUresult instantiate_with_log(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                              std::size_t size) {
  SIMGPU_ENTER(cuGraphInstantiate);
  CUgraphInstantiateResult problem = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
  const CUresult result = instantiate(out, graph, 0, &problem, &node);
  if (error_node != nullptr) *error_node = node;
  if (log != nullptr && size != 0) log[0] = '\0';
  return result;
}

CUresult with_launch_stream(CUgraphExec handle, CUstream stream_handle, NullStream null_stream,
                            ExecutablePtr* executable, StreamPtr* stream) {
  SIMGPU_CONTEXT(context);
  *executable = Executable::find(handle);
  if (*executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return resolve_stream(*context, stream_handle, null_stream, stream);
}

CUresult launch_graph(CUgraphExec handle, CUstream stream_handle, NullStream null_stream) {
  SIMGPU_ENTER(cuGraphLaunch);
  ExecutablePtr executable;
  StreamPtr stream;
  if (const CUresult result =
          with_launch_stream(handle, stream_handle, null_stream, &executable, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = capture_launch(stream, executable->graph())) return *answer;
  return executable->launch(stream);
}

CUresult upload_graph(CUgraphExec handle, CUstream stream_handle, NullStream null_stream) {
  SIMGPU_ENTER(cuGraphUpload);
  ExecutablePtr executable;
  StreamPtr stream;
  if (const CUresult result =
          with_launch_stream(handle, stream_handle, null_stream, &executable, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = refuse_captured(stream)) return *answer;
  return executable->upload();
}

CUresult instantiate_with_parameters(CUgraphExec* out, CUgraph graph,
                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters,
                                     NullStream null_stream) {
  SIMGPU_ENTER(cuGraphInstantiateWithParams);
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool uploads = (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  parameters->hErrNode_out = nullptr;
  const CUresult result = instantiate(
      out, graph, parameters->flags & ~std::uint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD},
      &parameters->result_out, &parameters->hErrNode_out);
  if (result != CUDA_SUCCESS || !uploads) return result;
  return upload_graph(*out, parameters->hUploadStream, null_stream);
}

/// Lets the node of an executable graph that `handle` names, of kind `Work`, do what
/// `make(context, node, &work)` gives.
template <typename Work, typename Make>
CUresult change_executable(CUgraphExec executable_handle, CUgraphNode handle,
                           const void* parameters, const Make& make) {
  SIMGPU_CONTEXT(context);
  const ExecutablePtr executable = Executable::find(executable_handle);
  if (executable == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  GraphNode* const node = executable->find_node(handle);
  if (node == nullptr || !std::holds_alternative<Work>(*node->work)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NodeWorkPtr work;
  if (const CUresult result = make(*context, *node, &work); result != CUDA_SUCCESS) return result;
  return executable->set_work(*node, keep_attributes(*node->work, std::move(work)));
}

CUresult change_kernel(CUgraphExec executable, CUgraphNode node,
                       const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  SIMGPU_ENTER(cuGraphExecKernelNodeSetParams);
  return change_executable<KernelNodeWork>(
      executable, node, parameters, [&](Context& context, const GraphNode&, NodeWorkPtr* work) {
        return work_of(context, *parameters, work);
      });
}

/// Copies may change their addresses and length only, and have to be of one row.
CUresult changed_copy(Context& context, const GraphNode& node, const CUDA_MEMCPY3D& parameters,
                      CUcontext node_context, NodeWorkPtr* work) {
  NodeWorkPtr made;
  if (const CUresult result = work_of(context, parameters, node_context, &made);
      result != CUDA_SUCCESS) {
    return result;
  }
  const bool linear = std::get<CopyNodeWork>(*node.work).copy.box.linear() &&
                      std::get<CopyNodeWork>(*made).copy.box.linear();
  if (!linear) return CUDA_ERROR_INVALID_VALUE;
  *work = std::move(made);
  return CUDA_SUCCESS;
}

CUresult update_executable(CUgraphExec handle, CUgraph graph_handle,
                           CUgraphExecUpdateResultInfo* info) {
  SIMGPU_ENTER(cuGraphExecUpdate);
  *info = {};
  info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
  const ExecutablePtr executable = Executable::find(handle);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(graph_handle);
  if (executable == nullptr || graph == nullptr || graph->owned_by_node) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return executable->update(*graph, info);
}

bool can_be_disabled(const GraphNode& node) {
  switch (type_of(*node.work)) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return true;
    default:
      return false;
  }
}

/// Runs `use(node)` on the node of an executable graph that `handle` names, if it can be disabled.
template <typename Use>
CUresult with_switchable(CUgraphExec executable_handle, CUgraphNode handle, const Use& use) {
  const ExecutablePtr executable = Executable::find(executable_handle);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  GraphNode* const node = executable->find_node(handle);
  if (node == nullptr || !can_be_disabled(*node)) return CUDA_ERROR_INVALID_VALUE;
  use(*node);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph,
                                          CUgraphNode* phErrorNode, char* logBuffer,
                                          size_t bufferSize) {
  return instantiate_with_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
SIMGPU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph,
                                             CUgraphNode* phErrorNode, char* logBuffer,
                                             size_t bufferSize) {
  return instantiate_with_log(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
SIMGPU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                                   unsigned long long flags) {
  return instantiate_with_flags(phGraphExec, hGraph, flags);
}
SIMGPU_STREAM_VARIANTS(cuGraphInstantiateWithParams, _ptsz,
                       (CUgraphExec * phGraphExec, CUgraph hGraph,
                        CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams),
                       instantiate_with_parameters, phGraphExec, hGraph, instantiateParams);
SIMGPU_STREAM_VARIANTS(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
                       launch_graph, hGraphExec, hStream);
SIMGPU_STREAM_VARIANTS(cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
                       upload_graph, hGraphExec, hStream);

SIMGPU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  SIMGPU_ENTER(cuGraphExecDestroy);
  return Executable::destroy(hGraphExec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  SIMGPU_ENTER(cuGraphExecGetFlags);
  const ExecutablePtr executable = Executable::find(hGraphExec);
  if (executable == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = executable->flags();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                         CUgraphNode* hErrorNode_out,
                                         CUgraphExecUpdateResult* updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = update_executable(hGraphExec, hGraph, &info);
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  if (updateResult_out != nullptr) *updateResult_out = info.result;
  return result;
}
SIMGPU_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                            CUgraphExecUpdateResultInfo* resultInfo) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = update_executable(hGraphExec, hGraph, &info);
  if (resultInfo != nullptr) *resultInfo = info;
  return result;
}

SIMGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams(
    CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return change_kernel(hGraphExec, hNode, nullptr);
  CUDA_KERNEL_NODE_PARAMS_v2 parameters{};
  std::memcpy(&parameters, nodeParams, sizeof(*nodeParams));
  return change_kernel(hGraphExec, hNode, &parameters);
}
SIMGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(
    CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return change_kernel(hGraphExec, hNode, nodeParams);
}

SIMGPU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                      const CUDA_MEMCPY3D* copyParams,
                                                      CUcontext ctx) {
  SIMGPU_ENTER(cuGraphExecMemcpyNodeSetParams);
  return change_executable<CopyNodeWork>(
      hGraphExec, hNode, copyParams,
      [&](Context& context, const GraphNode& node, NodeWorkPtr* work) {
        return changed_copy(context, node, *copyParams, ctx, work);
      });
}

SIMGPU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                      const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                                      CUcontext ctx) {
  SIMGPU_ENTER(cuGraphExecMemsetNodeSetParams);
  return change_executable<FillNodeWork>(
      hGraphExec, hNode, memsetParams, [&](Context& context, const GraphNode&, NodeWorkPtr* work) {
        return work_of(context, *memsetParams, ctx, work);
      });
}

SIMGPU_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    const CUDA_HOST_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphExecHostNodeSetParams);
  return change_executable<HostWork>(
      hGraphExec, hNode, nodeParams,
      [&](Context&, const GraphNode&, NodeWorkPtr* work) { return work_of(*nodeParams, work); });
}

SIMGPU_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                          CUgraph childGraph) {
  SIMGPU_ENTER(cuGraphExecChildGraphNodeSetParams);
  const ExecutablePtr executable = Executable::find(hGraphExec);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  GraphNode* const node = executable->find_node(hNode);
  const GraphPtr graph = Graph::find(childGraph);
  if (node == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info{};
  return executable->update_child(*node, *graph, &info) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                          CUevent event) {
  SIMGPU_ENTER(cuGraphExecEventRecordNodeSetEvent);
  return change_executable<RecordWork>(hGraphExec, hNode, event,
                                       [&](Context&, const GraphNode&, NodeWorkPtr* work) {
                                         return event_work_of(event, true, work);
                                       });
}

SIMGPU_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                        CUevent event) {
  SIMGPU_ENTER(cuGraphExecEventWaitNodeSetEvent);
  return change_executable<WaitWork>(hGraphExec, hNode, event,
                                     [&](Context&, const GraphNode&, NodeWorkPtr* work) {
                                       return event_work_of(event, false, work);
                                     });
}

SIMGPU_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                CUgraphNodeParams* nodeParams) {
  SIMGPU_ENTER(cuGraphExecNodeSetParams);
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, nodeParams->graph.graph);
  }
  SIMGPU_CONTEXT(context);
  const ExecutablePtr executable = Executable::find(hGraphExec);
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  GraphNode* const node = executable->find_node(hNode);
  if (node == nullptr || type_of(*node->work) != nodeParams->type) return CUDA_ERROR_INVALID_VALUE;
  if (is_memory_work(*node->work) || nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  NodeWorkPtr work;
  const CUresult result = nodeParams->type == CU_GRAPH_NODE_TYPE_MEMCPY
                              ? changed_copy(*context, *node, nodeParams->memcpy.copyParams,
                                             nodeParams->memcpy.copyCtx, &work)
                              : work_of(*context, *node->graph, *nodeParams, &work);
  if (result != CUDA_SUCCESS) return result;
  return executable->set_work(*node, keep_attributes(*node->work, std::move(work)));
}

SIMGPU_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             unsigned int isEnabled) {
  SIMGPU_ENTER(cuGraphNodeSetEnabled);
  return with_switchable(hGraphExec, hNode,
                         [&](GraphNode& node) { node.enabled = isEnabled != 0; });
}

SIMGPU_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                             unsigned int* isEnabled) {
  SIMGPU_ENTER(cuGraphNodeGetEnabled);
  if (isEnabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_switchable(hGraphExec, hNode,
                         [&](const GraphNode& node) { *isEnabled = node.enabled ? 1 : 0; });
}

}  // namespace simgpu
