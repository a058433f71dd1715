// The driver functions of graphs as wholes: their making, nodes, edges, clones; user objects.
#include <climits>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/graphs/debug_dot.h"
#include "tools/simgpu/driver/graphs/graph.h"
#include "tools/simgpu/driver/graphs/node_parameters.h"

namespace simgpu {
namespace {

bool is_default_edge(const CUgraphEdgeData& data) {
  const CUgraphEdgeData zero{};
  return std::memcmp(&data, &zero, sizeof(data)) == 0;
}

/// One edge of a list that a program asked for.
struct ListedEdge {
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  CUgraphEdgeData data{};
};

/// Gives the program a list: its length if all arrays are null, else as much of it as `*count`
/// says, null where it ends. An array that the program does not want is null.
CUresult give_list(const std::vector<ListedEdge>& list, CUgraphNode* from, CUgraphNode* to,
                   CUgraphEdgeData* data, std::size_t* count) {
  if (from == nullptr && to == nullptr) {
    if (data != nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = list.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t index = 0; index < *count; ++index) {
    const ListedEdge edge = index < list.size() ? list[index] : ListedEdge{};
    if (data == nullptr && !is_default_edge(edge.data)) return CUDA_ERROR_LOSSY_QUERY;
  }
  for (std::size_t index = 0; index < *count; ++index) {
    const ListedEdge edge = index < list.size() ? list[index] : ListedEdge{};
    if (from != nullptr) from[index] = edge.from;
    if (to != nullptr) to[index] = edge.to;
    if (data != nullptr) data[index] = edge.data;
  }
  *count = std::min(*count, list.size());
  return CUDA_SUCCESS;
}

CUresult graph_edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                     std::size_t* count) {
  SIMGPU_ENTER(cuGraphGetEdges);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<ListedEdge> list;
  for (const auto& node : graph->nodes()) {
    for (const Dependency& dependency : node->dependencies) {
      list.push_back({dependency.node->handle, node->handle, dependency.data});
    }
  }
  return give_list(list, from, to, data, count);
}

CUresult node_dependencies(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                           std::size_t* count) {
  SIMGPU_ENTER(cuGraphNodeGetDependencies);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(handle);
  if (node == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<ListedEdge> list;
  for (const Dependency& dependency : node->dependencies) {
    list.push_back({dependency.node->handle, nullptr, dependency.data});
  }
  return give_list(list, out, nullptr, data, count);
}

CUresult node_dependents(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                         std::size_t* count) {
  SIMGPU_ENTER(cuGraphNodeGetDependentNodes);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(handle);
  if (node == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<ListedEdge> list;
  for (const auto& other : node->graph->nodes()) {
    for (const Dependency& dependency : other->dependencies) {
      if (dependency.node == node.get()) list.push_back({other->handle, nullptr, dependency.data});
    }
  }
  return give_list(list, out, nullptr, data, count);
}

/// The nodes that `from[index]` and `to[index]` name, if they are of `graph`.
bool find_edge(const Graph& graph, CUgraphNode from, CUgraphNode to,
               std::shared_ptr<GraphNode>* source, std::shared_ptr<GraphNode>* target) {
  *source = Graph::find_node(from);
  *target = Graph::find_node(to);
  return *source != nullptr && *target != nullptr && *source != *target &&
         (*source)->graph == &graph && (*target)->graph == &graph;
}

CUresult add_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData* data, std::size_t count) {
  SIMGPU_ENTER(cuGraphAddDependencies);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t index = 0; index < count; ++index) {
    std::shared_ptr<GraphNode> source;
    std::shared_ptr<GraphNode> target;
    if (!find_edge(*graph, from[index], to[index], &source, &target)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::vector<Dependency> added;
    if (const CUresult result = dependencies_of(
            *graph, from + index, data == nullptr ? nullptr : data + index, 1, &added);
        result != CUDA_SUCCESS) {
      return result;
    }
    for (const Dependency& known : target->dependencies) {
      if (known.node == source.get()) return CUDA_ERROR_INVALID_VALUE;
    }
    target->dependencies.push_back(added.front());
  }
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData* data, std::size_t count) {
  SIMGPU_ENTER(cuGraphRemoveDependencies);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr)) ||
      (count != 0 && graph->has_memory_nodes())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t index = 0; index < count; ++index) {
    std::shared_ptr<GraphNode> source;
    std::shared_ptr<GraphNode> target;
    if (!find_edge(*graph, from[index], to[index], &source, &target)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUgraphEdgeData wanted = data == nullptr ? CUgraphEdgeData{} : data[index];
    const std::size_t removed = std::erase_if(target->dependencies, [&](const Dependency& each) {
      return each.node == source.get() && std::memcmp(&each.data, &wanted, sizeof(wanted)) == 0;
    });
    if (removed == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult list_nodes(CUgraph handle, CUgraphNode* out, std::size_t* count, bool roots_only) {
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<ListedEdge> list;
  for (const auto& node : graph->nodes()) {
    if (!roots_only || node->dependencies.empty()) list.push_back({node->handle, nullptr, {}});
  }
  return give_list(list, out, nullptr, nullptr, count);
}

bool is_valid_count(unsigned count) { return count != 0 && count <= INT_MAX; }

}  // namespace

SIMGPU_EXPORT CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  SIMGPU_ENTER(cuGraphCreate);
  if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock{graphs_mutex()};
  *phGraph = Graph::create(true)->handle();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphDestroy(CUgraph hGraph) {
  SIMGPU_ENTER(cuGraphDestroy);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(hGraph);
  if (graph == nullptr || graph->owned_by_node || graph->captures != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->forget_handles();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  SIMGPU_ENTER(cuGraphClone);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(originalGraph);
  if (phGraphClone == nullptr || graph == nullptr || graph->has_memory_nodes() ||
      graph->has_conditional_nodes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraphClone = graph->clone(true)->handle();
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                              CUgraph hClonedGraph) {
  SIMGPU_ENTER(cuGraphNodeFindInClone);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(hClonedGraph);
  if (phNode == nullptr || graph == nullptr || Graph::find_node(hOriginalNode) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& node : graph->nodes()) {
    if (node->original != hOriginalNode) continue;
    *phNode = node->handle;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  SIMGPU_ENTER(cuGraphGetNodes);
  return list_nodes(hGraph, nodes, numNodes, false);
}

SIMGPU_EXPORT CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes,
                                           size_t* numRootNodes) {
  SIMGPU_ENTER(cuGraphGetRootNodes);
  return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

SIMGPU_EXPORT CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                       size_t* numEdges) {
  return graph_edges(hGraph, from, to, nullptr, numEdges);
}
SIMGPU_EXPORT CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                          CUgraphEdgeData* edgeData, size_t* numEdges) {
  return graph_edges(hGraph, from, to, edgeData, numEdges);
}

SIMGPU_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies,
                                                  size_t* numDependencies) {
  return node_dependencies(hNode, dependencies, nullptr, numDependencies);
}
SIMGPU_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                                     CUgraphEdgeData* edgeData,
                                                     size_t* numDependencies) {
  return node_dependencies(hNode, dependencies, edgeData, numDependencies);
}

SIMGPU_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                    size_t* numDependentNodes) {
  return node_dependents(hNode, dependentNodes, nullptr, numDependentNodes);
}
SIMGPU_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode,
                                                       CUgraphNode* dependentNodes,
                                                       CUgraphEdgeData* edgeData,
                                                       size_t* numDependentNodes) {
  return node_dependents(hNode, dependentNodes, edgeData, numDependentNodes);
}

SIMGPU_EXPORT CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from,
                                              const CUgraphNode* to, size_t numDependencies) {
  return add_edges(hGraph, from, to, nullptr, numDependencies);
}
SIMGPU_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                                 const CUgraphNode* to,
                                                 const CUgraphEdgeData* edgeData,
                                                 size_t numDependencies) {
  return add_edges(hGraph, from, to, edgeData, numDependencies);
}

SIMGPU_EXPORT CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from,
                                                 const CUgraphNode* to, size_t numDependencies) {
  return remove_edges(hGraph, from, to, nullptr, numDependencies);
}
SIMGPU_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                                    const CUgraphNode* to,
                                                    const CUgraphEdgeData* edgeData,
                                                    size_t numDependencies) {
  return remove_edges(hGraph, from, to, edgeData, numDependencies);
}

SIMGPU_EXPORT CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  SIMGPU_ENTER(cuGraphDestroyNode);
  const std::lock_guard lock{graphs_mutex()};
  const auto node = Graph::find_node(hNode);
  if (node == nullptr || node->graph->captures != 0 || node->graph->has_memory_nodes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  node->graph->remove(*node);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out,
                                                      CUgraph hGraph, CUcontext ctx,
                                                      unsigned int defaultLaunchValue,
                                                      unsigned int flags) {
  SIMGPU_ENTER(cuGraphConditionalHandleCreate);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(hGraph);
  if (pHandle_out == nullptr || graph == nullptr || flags > CU_GRAPH_COND_ASSIGN_DEFAULT ||
      (ctx != nullptr && check_context(find_context(ctx)) != CUDA_SUCCESS)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pHandle_out = make_conditional_handle(*graph, defaultLaunchValue, flags);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  SIMGPU_ENTER(cuGraphDebugDotPrint);
  (void)flags;  // what they add is given always, or not known
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr graph = Graph::find(hGraph);
  if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return write_dot(*graph, path) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

SIMGPU_EXPORT CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                          unsigned int initialRefcount, unsigned int flags) {
  SIMGPU_ENTER(cuUserObjectCreate);
  if (object_out == nullptr || destroy == nullptr || !is_valid_count(initialRefcount) ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *object_out = UserObject::create(destroy, ptr, initialRefcount);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  SIMGPU_ENTER(cuUserObjectRetain);
  const auto found = UserObject::find(object);
  if (found == nullptr || !is_valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  found->retain(count);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  SIMGPU_ENTER(cuUserObjectRelease);
  const auto found = UserObject::find(object);
  if (found == nullptr || !is_valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  return found->release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
                                               unsigned int count, unsigned int flags) {
  SIMGPU_ENTER(cuGraphRetainUserObject);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr found = Graph::find(graph);
  const auto retained = UserObject::find(object);
  if (found == nullptr || retained == nullptr || !is_valid_count(count) ||
      flags > CU_GRAPH_USER_OBJECT_MOVE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) retained->retain(count);
  for (UserReferences& references : found->references) {
    if (references.object() != retained) continue;
    references.add(count);
    return CUDA_SUCCESS;
  }
  found->references.emplace_back(retained, count);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
                                                unsigned int count) {
  SIMGPU_ENTER(cuGraphReleaseUserObject);
  const std::lock_guard lock{graphs_mutex()};
  const GraphPtr found = Graph::find(graph);
  const auto retained = UserObject::find(object);
  if (found == nullptr || retained == nullptr || !is_valid_count(count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (UserReferences& references : found->references) {
    if (references.object() != retained) continue;
    if (references.count() < count) return CUDA_ERROR_INVALID_VALUE;
    references.drop(count);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIMGPU_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  SIMGPU_ENTER(cuDeviceGraphMemTrim);
  const Device* const found = find_device(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  GraphAllocation::trim_all_of(*found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                                    void* value) {
  SIMGPU_ENTER(cuDeviceGetGraphMemAttribute);
  const Device* const found = find_device(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GraphAllocation::get_attribute(*found, attr, value);
}

SIMGPU_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                                    void* value) {
  SIMGPU_ENTER(cuDeviceSetGraphMemAttribute);
  const Device* const found = find_device(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GraphAllocation::set_attribute(*found, attr, value);
}

}  // namespace simgpu
