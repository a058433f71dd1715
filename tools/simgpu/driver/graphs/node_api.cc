// The driver functions of single nodes: adding them, and their parameters.
#include <cstring>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/context/context.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/graph.h"
#include "tools/simgpu/driver/graphs/node_parameters.h"

namespace simgpu {
namespace {

/// Whether a body of a conditional node may have a node of this type.
bool is_allowed_in_body(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

bool is_memory_type(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/// Adds a node of `type`, whose work `make(context, graph, &work)` gives.
template <typename Make>
CUresult add_graph_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
                        const CUgraphEdgeData* data, std::size_t count, CUgraphNodeType type,
                        const Make& make) {
  SIMGPU_CONTEXT(context);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((graph->conditional_body && !is_allowed_in_body(type)) ||
      (graph->owned_by_node && is_memory_type(type))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Dependency> after;
  if (const CUresult result = dependencies_of(*graph, dependencies, data, count, &after);
      result != CUDA_SUCCESS) {
    return result;
  }
  NodeWorkPtr work;
  if (const CUresult result = make(*context, *graph, &work); result != CUDA_SUCCESS) return result;
  *out = graph->add(std::move(work), std::move(after)).handle;
  return CUDA_SUCCESS;
}

/// The node that `handle` names, if it has work of kind `Work`; else null.
template <typename Work>
const Work* work_in(const std::shared_ptr<GraphNode>& node) {
  return node == nullptr ? nullptr : std::get_if<Work>(node->work.get());
}

/// Runs `read(work)` on the work of the node `handle`, which has to be of kind `Work`.
template <typename Work, typename Read>
CUresult read_node(CUgraphNode handle, const void* out, const Read& read) {
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(handle);
  const Work* const work = work_in<Work>(node);
  if (work == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return read(*work);
}

/// Gives the node `handle`, of kind `Work`, the work that `make(context, node, &work)` gives.
template <typename Work, typename Make>
CUresult change_node(CUgraphNode handle, const void* parameters, const Make& make) {
  SIMGPU_CONTEXT(context);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(handle);
  if (work_in<Work>(node) == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  NodeWorkPtr work;
  if (const CUresult result = make(*context, *node, &work); result != CUDA_SUCCESS) return result;
  node->work = keep_attributes(*node->work, std::move(work));
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1& parameters) {
  CUDA_KERNEL_NODE_PARAMS_v2 more{};
  std::memcpy(&more, &parameters, sizeof(parameters));
  return more;
}

CUresult add_kernel_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                         std::size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  SIMGPU_ENTER(cuGraphAddKernelNode);
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(out, graph, dependencies, nullptr, count, CU_GRAPH_NODE_TYPE_KERNEL,
                        [&](Context& context, const Graph&, NodeWorkPtr* work) {
                          return work_of(context, *parameters, work);
                        });
}

CUresult set_kernel_parameters(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  SIMGPU_ENTER(cuGraphKernelNodeSetParams);
  return change_node<KernelNodeWork>(node, parameters,
                                     [&](Context& context, const GraphNode&, NodeWorkPtr* work) {
                                       return work_of(context, *parameters, work);
                                     });
}

CUresult add_any_node(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                      const CUgraphEdgeData* data, std::size_t count,
                      CUgraphNodeParams* parameters) {
  SIMGPU_ENTER(cuGraphAddNode);
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(out, graph, dependencies, data, count, parameters->type,
                        [&](Context& context, const Graph& target, NodeWorkPtr* work) {
                          return work_of(context, target, *parameters, work);
                        });
}

}  // namespace

SIMGPU_EXPORT CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      CUgraphNodeParams* nodeParams) {
  return add_any_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}
SIMGPU_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                         const CUgraphNode* dependencies,
                                         const CUgraphEdgeData* dependencyData,
                                         size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return add_any_node(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                      nodeParams);
}

SIMGPU_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  SIMGPU_ENTER(cuGraphNodeSetParams);
  SIMGPU_CONTEXT(context);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(hNode);
  if (node == nullptr || nodeParams == nullptr || type_of(*node->work) != nodeParams->type) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (is_memory_type(nodeParams->type) || nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH ||
      nodeParams->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  NodeWorkPtr work;
  if (const CUresult result = work_of(*context, *node->graph, *nodeParams, &work);
      result != CUDA_SUCCESS) {
    return result;
  }
  node->work = keep_attributes(*node->work, std::move(work));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  SIMGPU_ENTER(cuGraphNodeGetType);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(hNode);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = type_of(*node->work);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                            const CUgraphNode* dependencies, size_t numDependencies,
                                            const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) {
    return add_kernel_node(phGraphNode, hGraph, dependencies, numDependencies, nullptr);
  }
  const CUDA_KERNEL_NODE_PARAMS_v2 parameters = newer(*nodeParams);
  return add_kernel_node(phGraphNode, hGraph, dependencies, numDependencies, &parameters);
}
SIMGPU_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                               const CUgraphNode* dependencies,
                                               size_t numDependencies,
                                               const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return add_kernel_node(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

SIMGPU_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode,
                                                  CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  SIMGPU_ENTER(cuGraphKernelNodeGetParams);
  return read_node<KernelNodeWork>(hNode, nodeParams, [&](const KernelNodeWork& work) {
    const CUDA_KERNEL_NODE_PARAMS_v2 parameters = parameters_of(work);
    std::memcpy(nodeParams, &parameters, sizeof(*nodeParams));
    return CUDA_SUCCESS;
  });
}
SIMGPU_EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                                     CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphKernelNodeGetParams);
  return read_node<KernelNodeWork>(hNode, nodeParams, [&](const KernelNodeWork& work) {
    *nodeParams = parameters_of(work);
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                                  const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  if (nodeParams == nullptr) return set_kernel_parameters(hNode, nullptr);
  const CUDA_KERNEL_NODE_PARAMS_v2 parameters = newer(*nodeParams);
  return set_kernel_parameters(hNode, &parameters);
}
SIMGPU_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                                     const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return set_kernel_parameters(hNode, nodeParams);
}

SIMGPU_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  SIMGPU_ENTER(cuGraphKernelNodeCopyAttributes);
  const std::lock_guard lock{graphs_mutex()};
  const auto from = Graph::find_node(src);
  const auto to = Graph::find_node(dst);
  if (work_in<KernelNodeWork>(from) == nullptr || work_in<KernelNodeWork>(to) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  to->work = keep_attributes(*from->work, to->work);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                     CUkernelNodeAttrValue* value_out) {
  SIMGPU_ENTER(cuGraphKernelNodeGetAttribute);
  return read_node<KernelNodeWork>(hNode, value_out, [&](const KernelNodeWork& work) {
    return get_attribute(work, attr, value_out);
  });
}

SIMGPU_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                                     const CUkernelNodeAttrValue* value) {
  SIMGPU_ENTER(cuGraphKernelNodeSetAttribute);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(hNode);
  const auto* const work = work_in<KernelNodeWork>(node);
  if (work == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KernelNodeWork changed = *work;
  const CUresult result = set_attribute(changed, attr, *value);
  if (result == CUDA_SUCCESS) node->work = seal(std::move(changed));
  return result;
}

SIMGPU_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                            const CUgraphNode* dependencies, size_t numDependencies,
                                            const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  SIMGPU_ENTER(cuGraphAddMemcpyNode);
  if (copyParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                        CU_GRAPH_NODE_TYPE_MEMCPY,
                        [&](Context& context, const Graph&, NodeWorkPtr* work) {
                          return work_of(context, *copyParams, ctx, work);
                        });
}

SIMGPU_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  SIMGPU_ENTER(cuGraphMemcpyNodeGetParams);
  return read_node<CopyNodeWork>(hNode, nodeParams, [&](const CopyNodeWork& work) {
    *nodeParams = work.description;
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode,
                                                  const CUDA_MEMCPY3D* nodeParams) {
  SIMGPU_ENTER(cuGraphMemcpyNodeSetParams);
  return change_node<CopyNodeWork>(
      hNode, nodeParams, [&](Context& context, const GraphNode& node, NodeWorkPtr* work) {
        return work_of(context, *nodeParams, context_of(*node.work)->handle(), work);
      });
}

SIMGPU_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                            const CUgraphNode* dependencies, size_t numDependencies,
                                            const CUDA_MEMSET_NODE_PARAMS* memsetParams,
                                            CUcontext ctx) {
  SIMGPU_ENTER(cuGraphAddMemsetNode);
  if (memsetParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                        CU_GRAPH_NODE_TYPE_MEMSET,
                        [&](Context& context, const Graph&, NodeWorkPtr* work) {
                          return work_of(context, *memsetParams, ctx, work);
                        });
}

SIMGPU_EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode,
                                                  CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphMemsetNodeGetParams);
  return read_node<FillNodeWork>(hNode, nodeParams, [&](const FillNodeWork& work) {
    *nodeParams = parameters_of(work);
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                                  const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphMemsetNodeSetParams);
  return change_node<FillNodeWork>(
      hNode, nodeParams, [&](Context& context, const GraphNode& node, NodeWorkPtr* work) {
        return work_of(context, *nodeParams, context_of(*node.work)->handle(), work);
      });
}

SIMGPU_EXPORT CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                          const CUgraphNode* dependencies, size_t numDependencies,
                                          const CUDA_HOST_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphAddHostNode);
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(
      phGraphNode, hGraph, dependencies, nullptr, numDependencies, CU_GRAPH_NODE_TYPE_HOST,
      [&](Context&, const Graph&, NodeWorkPtr* work) { return work_of(*nodeParams, work); });
}

SIMGPU_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode hNode,
                                                CUDA_HOST_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphHostNodeGetParams);
  return read_node<HostWork>(hNode, nodeParams, [&](const HostWork& work) {
    *nodeParams = {work.function, work.data};
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode hNode,
                                                const CUDA_HOST_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphHostNodeSetParams);
  return change_node<HostWork>(
      hNode, nodeParams,
      [&](Context&, const GraphNode&, NodeWorkPtr* work) { return work_of(*nodeParams, work); });
}

SIMGPU_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                                const CUgraphNode* dependencies,
                                                size_t numDependencies, CUgraph childGraph) {
  SIMGPU_ENTER(cuGraphAddChildGraphNode);
  return add_graph_node(
      phGraphNode, hGraph, dependencies, nullptr, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH,
      [&](Context&, const Graph& graph, NodeWorkPtr* work) {
        return child_work_of(graph, childGraph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, work);
      });
}

SIMGPU_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  SIMGPU_ENTER(cuGraphChildGraphNodeGetGraph);
  return read_node<ChildWork>(hNode, phGraph, [&](const ChildWork& work) {
    *phGraph = work.graph->handle();
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                           const CUgraphNode* dependencies,
                                           size_t numDependencies) {
  SIMGPU_ENTER(cuGraphAddEmptyNode);
  return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                        CU_GRAPH_NODE_TYPE_EMPTY, [](Context&, const Graph&, NodeWorkPtr* work) {
                          *work = seal(EmptyWork{});
                          return CUDA_SUCCESS;
                        });
}

/// The functions of event nodes of one kind: `records` or not.
#define SIMGPU_EVENT_NODE_API(name, type, Work, records)                                           \
  SIMGPU_EXPORT CUresult cuGraphAdd##name(CUgraphNode* phGraphNode, CUgraph hGraph,                \
                                          const CUgraphNode* dependencies, size_t numDependencies, \
                                          CUevent event) {                                         \
    SIMGPU_ENTER(cuGraphAdd##name);                                                                \
    return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies, type,       \
                          [&](Context&, const Graph&, NodeWorkPtr* work) {                         \
                            return event_work_of(event, records, work);                            \
                          });                                                                      \
  }                                                                                                \
  SIMGPU_EXPORT CUresult cuGraph##name##GetEvent(CUgraphNode hNode, CUevent* event_out) {          \
    SIMGPU_ENTER(cuGraph##name##GetEvent);                                                         \
    return read_node<Work>(hNode, event_out, [&](const Work& work) {                               \
      *event_out = work.event;                                                                     \
      return CUDA_SUCCESS;                                                                         \
    });                                                                                            \
  }                                                                                                \
  SIMGPU_EXPORT CUresult cuGraph##name##SetEvent(CUgraphNode hNode, CUevent event) {               \
    SIMGPU_ENTER(cuGraph##name##SetEvent);                                                         \
    return change_node<Work>(hNode, event, [&](Context&, const GraphNode&, NodeWorkPtr* work) {    \
      return event_work_of(event, records, work);                                                  \
    });                                                                                            \
  }                                                                                                \
  static_assert(true, "take a semicolon")

SIMGPU_EVENT_NODE_API(EventRecordNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, RecordWork, true);
SIMGPU_EVENT_NODE_API(EventWaitNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, WaitWork, false);

SIMGPU_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                              const CUgraphNode* dependencies,
                                              size_t numDependencies,
                                              CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  SIMGPU_ENTER(cuGraphAddMemAllocNode);
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                        CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                        [&](Context&, const Graph&, NodeWorkPtr* work) {
                          return allocation_work_of(nodeParams->poolProps, nodeParams->bytesize,
                                                    work, &nodeParams->dptr);
                        });
}

SIMGPU_EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                                    CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  SIMGPU_ENTER(cuGraphMemAllocNodeGetParams);
  return read_node<AllocateWork>(hNode, params_out, [&](const AllocateWork& work) {
    *params_out = {};
    params_out->poolProps = work.properties;
    params_out->bytesize = work.allocation->size();
    params_out->dptr = work.allocation->address();
    return CUDA_SUCCESS;
  });
}

SIMGPU_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                             const CUgraphNode* dependencies,
                                             size_t numDependencies, CUdeviceptr dptr) {
  SIMGPU_ENTER(cuGraphAddMemFreeNode);
  return add_graph_node(phGraphNode, hGraph, dependencies, nullptr, numDependencies,
                        CU_GRAPH_NODE_TYPE_MEM_FREE,
                        [&](Context&, const Graph& graph, NodeWorkPtr* work) {
                          return free_work_of(graph, dptr, work);
                        });
}

SIMGPU_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  SIMGPU_ENTER(cuGraphMemFreeNodeGetParams);
  return read_node<FreeWork>(hNode, dptr_out, [&](const FreeWork& work) {
    *dptr_out = work.allocation->address();
    return CUDA_SUCCESS;
  });
}

}  // namespace simgpu
