#include "tools/simgpu/driver/graphs/debug_dot.h"

#include <fstream>
#include <unordered_map>

namespace simgpu {
namespace {

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "WAIT_EVENT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "OTHER";
  }
}

/// Writes one graph. `next` numbers the graphs, so that nodes of different ones have other names.
void write_graph(std::ostream& out, const Graph& graph, int& next) {
  const int number = next++;
  const auto id = [&](std::size_t index) {
    return "\"graph_" + std::to_string(number) + "_node_" + std::to_string(index) + "\"";
  };
  out << "subgraph cluster_" << number << " {\nlabel=\"graph_" << number << "\"\n";
  std::unordered_map<const GraphNode*, std::size_t> indices;
  for (const auto& node : graph.nodes()) {
    const std::size_t index = indices.size();
    indices.emplace(node.get(), index);
    out << id(index) << " [label=\"" << index << ' ' << name_of(type_of(*node->work));
    if (const auto* const kernel = std::get_if<KernelNodeWork>(node->work.get())) {
      out << "\\n" << kernel->launch.function->code->image().name;
    }
    out << "\"]\n";
  }
  for (const auto& node : graph.nodes()) {
    for (const Dependency& dependency : node->dependencies) {
      out << id(indices[dependency.node]) << " -> " << id(indices[node.get()]) << '\n';
    }
  }
  out << "}\n";
  for (const auto& node : graph.nodes()) {
    for (const GraphPtr& inner : graphs_in(*node->work)) write_graph(out, *inner, next);
  }
}

}  // namespace

bool write_dot(const Graph& graph, const std::string& path) {
  std::ofstream out{path};
  int next = 1;
  out << "digraph dot {\n";
  write_graph(out, graph, next);
  out << "}\n";
  return static_cast<bool>(out.flush());
}

}  // namespace simgpu
