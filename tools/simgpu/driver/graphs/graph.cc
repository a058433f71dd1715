#include "tools/simgpu/driver/graphs/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tools/simgpu/driver/entry/handle_table.h"

namespace simgpu {
namespace {

HandleTable<CUgraph, Graph>& graph_table() {
  static auto* const table = new HandleTable<CUgraph, Graph>;
  return *table;
}

HandleTable<CUgraphNode, GraphNode>& node_table() {
  static auto* const table = new HandleTable<CUgraphNode, GraphNode>;
  return *table;
}

/// `work` with copies of the graphs in it.
NodeWorkPtr copy_of(const NodeWorkPtr& work, bool named) {
  if (const auto* const child = std::get_if<ChildWork>(work.get())) {
    ChildWork copy{child->graph->clone(named)};
    copy.graph->owned_by_node = true;
    return seal(std::move(copy));
  }
  if (const auto* const conditional = std::get_if<ConditionalWork>(work.get())) {
    ConditionalWork copy = *conditional;
    copy.body_handles.clear();
    for (GraphPtr& body : copy.bodies) {
      body = body->clone(named);
      body->owned_by_node = true;
      body->conditional_body = true;
      copy.body_handles.push_back(body->handle());
    }
    return seal(std::move(copy));
  }
  return work;
}

}  // namespace

std::mutex& graphs_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::vector<GraphPtr> graphs_in(const NodeWork& work) {
  if (const auto* const child = std::get_if<ChildWork>(&work)) return {child->graph};
  if (const auto* const conditional = std::get_if<ConditionalWork>(&work)) {
    return conditional->bodies;
  }
  return {};
}

GraphPtr Graph::create(bool named) {
  GraphPtr graph{new Graph};
  graph->named_ = named;
  if (named) graph->handle_ = graph_table().add(graph);
  return graph;
}

Graph::~Graph() = default;

GraphPtr Graph::find(CUgraph handle) { return graph_table().find(handle); }

std::shared_ptr<GraphNode> Graph::find_node(CUgraphNode handle) {
  return node_table().find(handle);
}

GraphNode& Graph::add(NodeWorkPtr work, std::vector<Dependency> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = this;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  if (named_) node->handle = node_table().add(node);
  nodes_.push_back(node);
  return *nodes_.back();
}

void Graph::remove(GraphNode& node) {
  for (const GraphPtr& inner : graphs_in(*node.work)) inner->forget_handles();
  for (const auto& other : nodes_) {
    std::erase_if(other->dependencies,
                  [&](const Dependency& dependency) { return dependency.node == &node; });
  }
  if (node.handle != nullptr) node_table().remove(node.handle);
  std::erase_if(nodes_, [&](const auto& each) { return each.get() == &node; });
}

void Graph::forget_handles() {
  if (handle_ != nullptr) graph_table().remove(handle_);
  handle_ = nullptr;
  for (const auto& node : nodes_) {
    if (node->handle != nullptr) node_table().remove(node->handle);
    node->handle = nullptr;
    for (const GraphPtr& inner : graphs_in(*node->work)) inner->forget_handles();
  }
}

GraphPtr Graph::clone(bool named) const {
  GraphPtr copy = create(named);
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : nodes_) {
    GraphNode& made = copy->add(copy_of(node->work, named), {});
    made.original = node->handle != nullptr ? node->handle : node->original;
    made.enabled = node->enabled;
    copies.emplace(node.get(), &made);
  }
  for (const auto& node : nodes_) {
    for (const Dependency& dependency : node->dependencies) {
      copies[node.get()]->dependencies.push_back({copies[dependency.node], dependency.data});
    }
  }
  for (const UserReferences& reference : references) copy->references.push_back(reference.copy());
  copy->conditional_handles = conditional_handles;
  return copy;
}

std::optional<std::vector<GraphNode*>> Graph::in_order() const {
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> dependents;
  std::vector<GraphNode*> order;
  for (const auto& node : nodes_) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) order.push_back(node.get());
    for (const Dependency& dependency : node->dependencies) {
      dependents[dependency.node].push_back(node.get());
    }
  }
  for (std::size_t next = 0; next < order.size(); ++next) {
    for (GraphNode* const dependent : dependents[order[next]]) {
      if (--missing[dependent] == 0) order.push_back(dependent);
    }
  }
  if (order.size() != nodes_.size()) return std::nullopt;
  return order;
}

bool Graph::is_before(const GraphNode& node, const std::vector<Dependency>& from) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open;
  open.reserve(from.size());
  for (const Dependency& dependency : from) open.push_back(dependency.node);
  while (!open.empty()) {
    const GraphNode* const next = open.back();
    open.pop_back();
    if (next == &node) return true;
    if (!seen.insert(next).second) continue;
    for (const Dependency& dependency : next->dependencies) open.push_back(dependency.node);
  }
  return false;
}

std::vector<GraphNode*> Graph::leaves() const {
  std::unordered_set<const GraphNode*> inner;
  for (const auto& node : nodes_) {
    for (const Dependency& dependency : node->dependencies) inner.insert(dependency.node);
  }
  std::vector<GraphNode*> found;
  for (const auto& node : nodes_) {
    if (!inner.contains(node.get())) found.push_back(node.get());
  }
  return found;
}

bool Graph::has_memory_nodes() const { return any(is_memory_work); }

bool Graph::has_conditional_nodes() const {
  return any([](const NodeWork& work) { return std::holds_alternative<ConditionalWork>(work); });
}

}  // namespace simgpu
