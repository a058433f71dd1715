// The graph calls that replaying a captured stream needs; the driver says whether it has them.

#include "tools/simgpu/cudart/runtime.h"

using simgpu::cudart::DriverTable;
using simgpu::cudart::with_context;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return with_context([&](const DriverTable& d) { return d.cuGraphCreate(pGraph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&](const DriverTable& d) { return d.cuGraphDestroy(graph); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphInstantiateWithFlags(pGraphExec, graph, flags);
  });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(pGraphExec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return with_context([&](const DriverTable& d) { return d.cuGraphExecDestroy(graphExec); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuGraphLaunch(graphExec, stream); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return with_context([&](const DriverTable& d) { return d.cuGraphUpload(graphExec, stream); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphGetNodes(graph, nodes, numNodes); });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags) {
  return with_context([&](const DriverTable& d) {
    return d.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags);
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context([&](const DriverTable& d) { return d.cuUserObjectRetain(object, count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context([&](const DriverTable& d) { return d.cuUserObjectRelease(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphRetainUserObject(graph, object, count, flags); });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphReleaseUserObject(graph, object, count); });
}

}  // extern "C"
