// The graph calls that replaying a captured stream needs; the driver says whether it has them.

#include "tools/simgpu/cudart/runtime.h"

namespace simgpu::cudart {

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

}  // namespace simgpu::cudart
