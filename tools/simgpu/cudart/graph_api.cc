// Graphs as wholes, executable graphs, user objects. Nodes and their parameters: graph_node_api.cc.

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {
namespace {

static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS));
static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));

CUgraphEdgeData* edge_data(cudaGraphEdgeData* data) {
  return reinterpret_cast<CUgraphEdgeData*>(data);
}
const CUgraphEdgeData* edge_data(const cudaGraphEdgeData* data) {
  return reinterpret_cast<const CUgraphEdgeData*>(data);
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* p_graph, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuGraphCreate(p_graph, flags); });
}

SIMGPU_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&](const DriverTable& d) { return d.cuGraphDestroy(graph); });
}

SIMGPU_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* p_graph_exec, cudaGraph_t graph,
                                               unsigned long long flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphInstantiateWithFlags(p_graph_exec, graph, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* p_graph_exec,
                                                        cudaGraph_t graph,
                                                        unsigned long long flags) {
  return cudaGraphInstantiate(p_graph_exec, graph, flags);
}

SIMGPU_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph_exec) {
  return with_context([&](const DriverTable& d) { return d.cuGraphExecDestroy(graph_exec); });
}

SIMGPU_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph_exec, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuGraphLaunch(graph_exec, stream); });
}

SIMGPU_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph_exec, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuGraphUpload(graph_exec, stream); });
}

SIMGPU_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                            size_t* num_nodes) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphGetNodes(graph, nodes, num_nodes); });
}

SIMGPU_EXPORT cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr,
                                               cudaHostFn_t destroy, unsigned int initial_refcount,
                                               unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuUserObjectCreate(object_out, ptr, destroy, initial_refcount, flags);
  });
}

SIMGPU_EXPORT cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context([&](const DriverTable& d) { return d.cuUserObjectRetain(object, count); });
}

SIMGPU_EXPORT cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context([&](const DriverTable& d) { return d.cuUserObjectRelease(object, count); });
}

SIMGPU_EXPORT cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                    unsigned int count, unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphRetainUserObject(graph, object, count, flags); });
}

SIMGPU_EXPORT cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                     unsigned int count) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphReleaseUserObject(graph, object, count); });
}

SIMGPU_EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                        const cudaGraphNode_t* dependencies,
                                                        const cudaGraphEdgeData* dependency_data,
                                                        size_t num_dependencies,
                                                        cudaStreamCaptureMode mode) {
  return with_context([&](const DriverTable& d) {
    return d.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edge_data(dependency_data),
                                         num_dependencies, static_cast<CUstreamCaptureMode>(mode));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* p_graph_clone, cudaGraph_t original_graph) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphClone(p_graph_clone, original_graph); });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* p_node,
                                                   cudaGraphNode_t original_node,
                                                   cudaGraph_t cloned_graph) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphNodeFindInClone(p_node, original_node, cloned_graph);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* p_root_nodes,
                                                size_t* p_num_root_nodes) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphGetRootNodes(graph, p_root_nodes, p_num_root_nodes);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                            cudaGraphNode_t* to, cudaGraphEdgeData* data,
                                            size_t* num_edges) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphGetEdges(graph, from, to, edge_data(data), num_edges);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                       cudaGraphNode_t* p_dependencies,
                                                       cudaGraphEdgeData* data,
                                                       size_t* p_num_dependencies) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphNodeGetDependencies(node, p_dependencies, edge_data(data), p_num_dependencies);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                         cudaGraphNode_t* p_dependent_nodes,
                                                         cudaGraphEdgeData* data,
                                                         size_t* p_num_dependent_nodes) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphNodeGetDependentNodes(node, p_dependent_nodes, edge_data(data),
                                          p_num_dependent_nodes);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to,
                                                   const cudaGraphEdgeData* data,
                                                   size_t num_dependencies) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddDependencies(graph, from, to, edge_data(data), num_dependencies);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                      const cudaGraphNode_t* from,
                                                      const cudaGraphNode_t* to,
                                                      const cudaGraphEdgeData* data,
                                                      size_t num_dependencies) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphRemoveDependencies(graph, from, to, edge_data(data), num_dependencies);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_context([&](const DriverTable& d) { return d.cuGraphDestroyNode(node); });
}

SIMGPU_EXPORT cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                 unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphDebugDotPrint(graph, path, flags); });
}

SIMGPU_EXPORT cudaError_t
cudaGraphInstantiateWithParams(cudaGraphExec_t* p_graph_exec, cudaGraph_t graph,
                               cudaGraphInstantiateParams* instantiate_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphInstantiateWithParams(
        p_graph_exec, graph, reinterpret_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(instantiate_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t h_graph_exec, cudaGraph_t h_graph,
                                              cudaGraphExecUpdateResultInfo* result_info) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecUpdate(h_graph_exec, h_graph,
                               reinterpret_cast<CUgraphExecUpdateResultInfo*>(result_info));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t h_graph_exec,
                                                  cudaGraphNode_t h_node, unsigned int is_enabled) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphNodeSetEnabled(h_graph_exec, h_node, is_enabled);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t h_graph_exec,
                                                  cudaGraphNode_t h_node,
                                                  unsigned int* is_enabled) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphNodeGetEnabled(h_graph_exec, h_node, is_enabled);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_context([&](const DriverTable& d) { return d.cuDeviceGraphMemTrim(device); });
}

SIMGPU_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                                         void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attr), value);
  });
}

SIMGPU_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                                         void* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attr), value);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* p_handle_out,
                                                           cudaGraph_t graph,
                                                           unsigned int default_launch_value,
                                                           unsigned int flags) {
  if (p_handle_out == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUcontext context = nullptr;
    (void)d.cuCtxGetCurrent(&context);
    CUgraphConditionalHandle handle = 0;
    const CUresult result =
        d.cuGraphConditionalHandleCreate(&handle, graph, context, default_launch_value, flags);
    if (result == CUDA_SUCCESS) *p_handle_out = handle;
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* p_type) {
  if (p_type == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    const CUresult result = d.cuGraphNodeGetType(node, &type);
    if (result == CUDA_SUCCESS) *p_type = static_cast<cudaGraphNodeType>(type);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graph_exec,
                                                unsigned long long* flags) {
  if (flags == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    cuuint64_t read = 0;
    const CUresult result = d.cuGraphExecGetFlags(graph_exec, &read);
    if (result == CUDA_SUCCESS) *flags = read;
    return result;
  });
}

}  // namespace simgpu::cudart
