// Graphs: nodes of work, and the order between them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/graphs/node_work.h"
#include "tools/simgpu/driver/graphs/user_object.h"

namespace simgpu {

struct GraphNode;
class Executable;

/// That a node comes after `node`; `data` is what the program says about it and simgpu only keeps.
struct Dependency {
  GraphNode* node = nullptr;
  CUgraphEdgeData data{};
};

/// One node. Fields belong to its graph, under the lock of graphs.
struct GraphNode {
  CUgraphNode handle = nullptr;  ///< null in an executable graph's copy
  Graph* graph = nullptr;
  NodeWorkPtr work;
  std::vector<Dependency> dependencies;
  CUgraphNode original = nullptr;  ///< the node that this one is a copy of, or null
  bool enabled = true;             ///< in an executable graph's copy
};

/// Held by every function that reads or changes graphs, captures or what executable graphs do.
/// Taken before the locks of events, memory and streams. Nothing waits while it holds it.
std::mutex& graphs_mutex();

/// A graph. All functions REQUIRE graphs_mutex().
class Graph {
 public:
  /// An empty graph; `named`: with handles for itself and its nodes.
  static GraphPtr create(bool named);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Null if the handle is stale or was never one.
  static GraphPtr find(CUgraph handle);
  static std::shared_ptr<GraphNode> find_node(CUgraphNode handle);

  [[nodiscard]] CUgraph handle() const { return handle_; }
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<std::shared_ptr<GraphNode>>& nodes() const { return nodes_; }

  GraphNode& add(NodeWorkPtr work, std::vector<Dependency> dependencies);
  void remove(GraphNode& node);
  /// Invalidates the handles of the graph and of all graphs in its nodes.
  void forget_handles();

  /// A copy with all graphs in its nodes; `named` as for create(). Work is shared.
  [[nodiscard]] GraphPtr clone(bool named) const;
  /// Each node after those that it depends on, else in the order of nodes().
  /// @return nullopt if there is a cycle.
  [[nodiscard]] std::optional<std::vector<GraphNode*>> in_order() const;
  /// Whether `node` is one of `from` or one of them depends on it.
  static bool is_before(const GraphNode& node, const std::vector<Dependency>& from);
  /// The nodes that no other depends on.
  [[nodiscard]] std::vector<GraphNode*> leaves() const;

  /// Whether a node of this graph or of one in its nodes has work for which `is(work)`.
  template <typename Predicate>
  [[nodiscard]] bool any(const Predicate& is) const;
  [[nodiscard]] bool has_memory_nodes() const;
  [[nodiscard]] bool has_conditional_nodes() const;

  int captures = 0;            ///< under way that add to it
  bool owned_by_node = false;  ///< of a child or conditional node, with which it goes
  bool conditional_body = false;
  std::weak_ptr<Executable> executable;  ///< the last made of it
  std::vector<UserReferences> references;
  std::vector<CUgraphConditionalHandle> conditional_handles;

 private:
  Graph() = default;

  CUgraph handle_ = nullptr;
  bool named_ = false;
  std::vector<std::shared_ptr<GraphNode>> nodes_;
};

/// The graphs in a node that has `work`: a child's, a conditional node's bodies.
std::vector<GraphPtr> graphs_in(const NodeWork& work);

template <typename Predicate>
bool Graph::any(const Predicate& is) const {
  for (const auto& node : nodes_) {
    if (is(*node->work)) return true;
    for (const GraphPtr& inner : graphs_in(*node->work)) {
      if (inner->any(is)) return true;
    }
  }
  return false;
}

}  // namespace simgpu
