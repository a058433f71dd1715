// Nodes of graphs, and their parameters.

#include <cstring>

#include "tools/simgpu/cudart/copy_description.h"
#include "tools/simgpu/cudart/registry.h"

namespace simgpu::cudart {
namespace {

static_assert(sizeof(cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));

CUcontext node_context(const DriverTable& d) {
  CUcontext context = nullptr;
  (void)d.cuCtxGetCurrent(&context);
  return context;
}

/// The driver's parameters of a kernel node, from either of the runtime's.
template <typename Parameters>
cudaError_t to_driver(const Parameters& parameters, CUDA_KERNEL_NODE_PARAMS* out) {
  CUkernel kernel = nullptr;
  const cudaError_t error = Registry::instance().kernel(parameters.func, &kernel);
  if (error != cudaSuccess) return error;
  *out = {};
  out->kern = kernel;
  out->gridDimX = parameters.gridDim.x;
  out->gridDimY = parameters.gridDim.y;
  out->gridDimZ = parameters.gridDim.z;
  out->blockDimX = parameters.blockDim.x;
  out->blockDimY = parameters.blockDim.y;
  out->blockDimZ = parameters.blockDim.z;
  out->sharedMemBytes = parameters.sharedMemBytes;
  out->kernelParams = parameters.kernelParams;
  out->extra = parameters.extra;
  return cudaSuccess;
}

/// Calls `use(table, parameters)` with the driver's parameters of a kernel node.
template <typename Use>
cudaError_t with_kernel_parameters(const cudaKernelNodeParams* parameters, const Use& use) {
  if (parameters == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUDA_KERNEL_NODE_PARAMS converted{};
    const cudaError_t error = to_driver(*parameters, &converted);
    return error != cudaSuccess ? error : to_error(use(d, converted));
  });
}

/// Calls `use(table, description)` with the driver's description of a copy.
template <typename Use>
cudaError_t with_copy(const cudaMemcpy3DParms* parameters, const Use& use) {
  return with_context([&](const DriverTable& d) {
    CUDA_MEMCPY3D converted{};
    const cudaError_t error = describe_box(parameters, &converted);
    return error != cudaSuccess ? error : to_error(use(d, converted));
  });
}

cudaPitchedPtr pitched(void* address, size_t pitch, size_t width, size_t height) {
  return {address, pitch, width, height};
}

cudaMemcpy3DParms linear_copy(void* target, const void* source, size_t count, cudaMemcpyKind kind) {
  cudaMemcpy3DParms parameters{};
  parameters.dstPtr = pitched(target, count, count, 1);
  parameters.srcPtr = pitched(const_cast<void*>(source), count, count, 1);
  parameters.extent = {count, 1, 1};
  parameters.kind = kind;
  return parameters;
}

/// The address that one side of a copy has.
void* address_of(CUmemorytype type, const void* host, CUdeviceptr device) {
  return type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
}

cudaMemcpyKind kind_of(CUmemorytype source, CUmemorytype target) {
  if (source == CU_MEMORYTYPE_UNIFIED || target == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  if (source == CU_MEMORYTYPE_HOST) {
    return target == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  }
  return target == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

/// The driver's parameters of any node. What it returns in them goes back by return_outputs().
cudaError_t to_driver(const DriverTable& d, const cudaGraphNodeParams& parameters,
                      CUgraphNodeParams* out) {
  switch (parameters.type) {
    case cudaGraphNodeTypeKernel: {
      CUDA_KERNEL_NODE_PARAMS kernel{};
      const cudaError_t error = to_driver(parameters.kernel, &kernel);
      static_assert(sizeof(kernel) == sizeof(out->kernel));
      *out = {};
      std::memcpy(&out->kernel, &kernel, sizeof(kernel));
      out->type = CU_GRAPH_NODE_TYPE_KERNEL;
      return error;
    }
    case cudaGraphNodeTypeMemcpy: {
      *out = {};
      out->type = CU_GRAPH_NODE_TYPE_MEMCPY;
      out->memcpy.copyCtx = node_context(d);
      return describe_box(&parameters.memcpy.copyParams, &out->memcpy.copyParams);
    }
    default:
      std::memcpy(out, &parameters, sizeof(*out));
      if (parameters.type == cudaGraphNodeTypeMemset) out->memset.ctx = node_context(d);
      if (parameters.type == cudaGraphNodeTypeConditional) out->conditional.ctx = node_context(d);
      return cudaSuccess;
  }
}

void return_outputs(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
  if (from.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    to->alloc.dptr = reinterpret_cast<void*>(from.alloc.dptr);
  } else if (from.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    to->conditional.phGraph_out = from.conditional.phGraph_out;
  }
}

}  // namespace

SIMGPU_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                               const cudaGraphNode_t* p_dependencies,
                                               size_t num_dependencies,
                                               const cudaHostNodeParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddHostNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                     cudaHostNodeParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphHostNodeGetParams(node,
                                      reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                     const cudaHostNodeParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphHostNodeSetParams(
        node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t h_graph_exec,
                                                         cudaGraphNode_t node,
                                                         const cudaHostNodeParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecHostNodeSetParams(
        h_graph_exec, node, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* p_graph_node,
                                                     cudaGraph_t graph,
                                                     const cudaGraphNode_t* p_dependencies,
                                                     size_t num_dependencies,
                                                     cudaGraph_t child_graph) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddChildGraphNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                      child_graph);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                                          cudaGraph_t* p_graph) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphChildGraphNodeGetGraph(node, p_graph); });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t h_graph_exec,
                                                               cudaGraphNode_t node,
                                                               cudaGraph_t child_graph) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecChildGraphNodeSetParams(h_graph_exec, node, child_graph);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                const cudaGraphNode_t* p_dependencies,
                                                size_t num_dependencies) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddEmptyNode(p_graph_node, graph, p_dependencies, num_dependencies);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* p_graph_node,
                                                      cudaGraph_t graph,
                                                      const cudaGraphNode_t* p_dependencies,
                                                      size_t num_dependencies, cudaEvent_t event) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddEventRecordNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                       event);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                           cudaEvent_t* event_out) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphEventRecordNodeGetEvent(node, event_out); });
}

SIMGPU_EXPORT cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node,
                                                           cudaEvent_t event) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphEventRecordNodeSetEvent(node, event); });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t h_graph_exec,
                                                               cudaGraphNode_t h_node,
                                                               cudaEvent_t event) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecEventRecordNodeSetEvent(h_graph_exec, h_node, event);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* p_graph_node,
                                                    cudaGraph_t graph,
                                                    const cudaGraphNode_t* p_dependencies,
                                                    size_t num_dependencies, cudaEvent_t event) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddEventWaitNode(p_graph_node, graph, p_dependencies, num_dependencies, event);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node,
                                                         cudaEvent_t* event_out) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphEventWaitNodeGetEvent(node, event_out); });
}

SIMGPU_EXPORT cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphEventWaitNodeSetEvent(node, event); });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t h_graph_exec,
                                                             cudaGraphNode_t h_node,
                                                             cudaEvent_t event) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecEventWaitNodeSetEvent(h_graph_exec, h_node, event);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t h_dst,
                                                            cudaGraphNode_t h_src) {
  return with_context(
      [&](const DriverTable& d) { return d.cuGraphKernelNodeCopyAttributes(h_dst, h_src); });
}

SIMGPU_EXPORT cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t h_node,
                                                          cudaLaunchAttributeID attr,
                                                          cudaLaunchAttributeValue* value_out) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphKernelNodeGetAttribute(h_node, static_cast<CUkernelNodeAttrID>(attr),
                                           reinterpret_cast<CUkernelNodeAttrValue*>(value_out));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t h_node,
                                                          cudaLaunchAttributeID attr,
                                                          const cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphKernelNodeSetAttribute(h_node, static_cast<CUkernelNodeAttrID>(attr),
                                           reinterpret_cast<const CUkernelNodeAttrValue*>(value));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* p_dependencies,
                                                   size_t num_dependencies,
                                                   cudaMemAllocNodeParams* node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddMemAllocNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                    reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                         cudaMemAllocNodeParams* params_out) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphMemAllocNodeGetParams(
        node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(params_out));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* p_dependencies,
                                                  size_t num_dependencies, void* dptr) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddMemFreeNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                   to_device(dptr));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* dptr_out) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(dptr_out));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t h_graph_exec,
                                                           cudaGraphNode_t node,
                                                           const cudaMemsetParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphExecMemsetNodeSetParams(
        h_graph_exec, node, reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(p_node_params),
        node_context(d));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* p_dependencies,
                                                 size_t num_dependencies,
                                                 const cudaMemsetParams* p_memset_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphAddMemsetNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                  reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(p_memset_params),
                                  node_context(d));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemsetParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphMemsetNodeGetParams(node,
                                        reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                       const cudaMemsetParams* p_node_params) {
  return with_context([&](const DriverTable& d) {
    return d.cuGraphMemsetNodeSetParams(
        node, reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(p_node_params));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                           const cudaGraphNode_t* p_dependencies,
                                           const cudaGraphEdgeData* dependency_data,
                                           size_t num_dependencies,
                                           cudaGraphNodeParams* node_params) {
  if (node_params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUgraphNodeParams converted{};
    const cudaError_t error = to_driver(d, *node_params, &converted);
    if (error != cudaSuccess) return error;
    const CUresult result = d.cuGraphAddNode(
        p_graph_node, graph, p_dependencies,
        reinterpret_cast<const CUgraphEdgeData*>(dependency_data), num_dependencies, &converted);
    if (result == CUDA_SUCCESS) return_outputs(converted, node_params);
    return to_error(result);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                 cudaGraphNodeParams* node_params) {
  if (node_params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUgraphNodeParams converted{};
    const cudaError_t error = to_driver(d, *node_params, &converted);
    return error != cudaSuccess ? error : to_error(d.cuGraphNodeSetParams(node, &converted));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graph_exec,
                                                     cudaGraphNode_t node,
                                                     cudaGraphNodeParams* node_params) {
  if (node_params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUgraphNodeParams converted{};
    const cudaError_t error = to_driver(d, *node_params, &converted);
    return error != cudaSuccess
               ? error
               : to_error(d.cuGraphExecNodeSetParams(graph_exec, node, &converted));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* p_dependencies,
                                                 size_t num_dependencies,
                                                 const cudaKernelNodeParams* p_node_params) {
  return with_kernel_parameters(
      p_node_params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& parameters) {
        return d.cuGraphAddKernelNode(p_graph_node, graph, p_dependencies, num_dependencies,
                                      &parameters);
      });
}

SIMGPU_EXPORT cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                                       cudaKernelNodeParams* p_node_params) {
  if (p_node_params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUDA_KERNEL_NODE_PARAMS read{};
    const CUresult result = d.cuGraphKernelNodeGetParams(node, &read);
    if (result != CUDA_SUCCESS) return result;
    // A kernel handle is accepted wherever the runtime takes a function.
    p_node_params->func =
        read.kern != nullptr ? static_cast<void*>(read.kern) : static_cast<void*>(read.func);
    p_node_params->gridDim = dim3(read.gridDimX, read.gridDimY, read.gridDimZ);
    p_node_params->blockDim = dim3(read.blockDimX, read.blockDimY, read.blockDimZ);
    p_node_params->sharedMemBytes = read.sharedMemBytes;
    p_node_params->kernelParams = read.kernelParams;
    p_node_params->extra = read.extra;
    if (read.kern != nullptr) Registry::instance().remember(read.kern);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* p_node_params) {
  return with_kernel_parameters(
      p_node_params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& parameters) {
        return d.cuGraphKernelNodeSetParams(node, &parameters);
      });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t h_graph_exec, cudaGraphNode_t node, const cudaKernelNodeParams* p_node_params) {
  return with_kernel_parameters(
      p_node_params, [&](const DriverTable& d, const CUDA_KERNEL_NODE_PARAMS& parameters) {
        return d.cuGraphExecKernelNodeSetParams(h_graph_exec, node, &parameters);
      });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                 const cudaGraphNode_t* p_dependencies,
                                                 size_t num_dependencies,
                                                 const cudaMemcpy3DParms* p_copy_params) {
  return with_copy(p_copy_params, [&](const DriverTable& d, const CUDA_MEMCPY3D& copy) {
    return d.cuGraphAddMemcpyNode(p_graph_node, graph, p_dependencies, num_dependencies, &copy,
                                  node_context(d));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* p_graph_node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* p_dependencies,
                                                   size_t num_dependencies, void* dst,
                                                   const void* src, size_t count,
                                                   cudaMemcpyKind kind) {
  const cudaMemcpy3DParms parameters = linear_copy(dst, src, count, kind);
  return cudaGraphAddMemcpyNode(p_graph_node, graph, p_dependencies, num_dependencies, &parameters);
}

SIMGPU_EXPORT cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                       cudaMemcpy3DParms* p_node_params) {
  if (p_node_params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& d) {
    CUDA_MEMCPY3D copy{};
    const CUresult result = d.cuGraphMemcpyNodeGetParams(node, &copy);
    if (result != CUDA_SUCCESS) return result;
    *p_node_params = {};
    p_node_params->srcPtr = pitched(address_of(copy.srcMemoryType, copy.srcHost, copy.srcDevice),
                                    copy.srcPitch, copy.WidthInBytes, copy.srcHeight);
    p_node_params->srcPos = {copy.srcXInBytes, copy.srcY, copy.srcZ};
    p_node_params->dstPtr = pitched(address_of(copy.dstMemoryType, copy.dstHost, copy.dstDevice),
                                    copy.dstPitch, copy.WidthInBytes, copy.dstHeight);
    p_node_params->dstPos = {copy.dstXInBytes, copy.dstY, copy.dstZ};
    p_node_params->extent = {copy.WidthInBytes, copy.Height, copy.Depth};
    p_node_params->kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
    return result;
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                                       const cudaMemcpy3DParms* p_node_params) {
  return with_copy(p_node_params, [&](const DriverTable& d, const CUDA_MEMCPY3D& copy) {
    return d.cuGraphMemcpyNodeSetParams(node, &copy);
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst,
                                                         const void* src, size_t count,
                                                         cudaMemcpyKind kind) {
  const cudaMemcpy3DParms parameters = linear_copy(dst, src, count, kind);
  return cudaGraphMemcpyNodeSetParams(node, &parameters);
}

SIMGPU_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t h_graph_exec,
                                                           cudaGraphNode_t node,
                                                           const cudaMemcpy3DParms* p_node_params) {
  return with_copy(p_node_params, [&](const DriverTable& d, const CUDA_MEMCPY3D& copy) {
    return d.cuGraphExecMemcpyNodeSetParams(h_graph_exec, node, &copy, node_context(d));
  });
}

SIMGPU_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t h_graph_exec,
                                                             cudaGraphNode_t node, void* dst,
                                                             const void* src, size_t count,
                                                             cudaMemcpyKind kind) {
  const cudaMemcpy3DParms parameters = linear_copy(dst, src, count, kind);
  return cudaGraphExecMemcpyNodeSetParams(h_graph_exec, node, &parameters);
}

}  // namespace simgpu::cudart
