// Executable graphs: what cuGraphInstantiate makes, and how launches of them run.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tools/simgpu/driver/graphs/graph.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {

/// One graph, ready to be launched.
///
/// It has a copy of the graph, whose nodes do what the graph's did when it was instantiated until
/// they are updated. A launch puts the nodes into lanes, which run at the same time: the first is
/// the stream that it is launched in, the others are streams of its own. A node waits for those
/// that it depends on, the first for all that was launched of the same executable graph before,
/// and the stream goes on when all have ended.
///
/// Thread-safe. Functions REQUIRE graphs_mutex() where they say so, else that it is not held.
class Executable {
 public:
  /// Instantiates `graph`, for programs. REQUIRES: graphs_mutex(). @return what
  /// cuGraphInstantiate documents; `*problem` and `*node` then say more.
  static CUresult create(const GraphPtr& graph, unsigned long long flags, CUgraphExec* handle,
                         CUgraphInstantiateResult* problem, CUgraphNode* node);
  /// Null if the handle is stale or was never one.
  static std::shared_ptr<Executable> find(CUgraphExec handle);
  /// Invalidates the handle; launches under way go on. @return false if there is no such one.
  static bool destroy(CUgraphExec handle);

  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  [[nodiscard]] unsigned long long flags() const { return flags_; }
  [[nodiscard]] const GraphPtr& graph() const { return graph_; }

  /// Enqueues one launch on `stream`. Waits while the queue of `stream` is full, not for more.
  /// @return CUDA_ERROR_INVALID_VALUE if an allocation of the last launch is not freed, or one to
  ///     be freed is not allocated; CUDA_ERROR_OUT_OF_MEMORY.
  CUresult launch(const StreamPtr& stream);
  /// Takes the memory that its allocations need. @return CUDA_ERROR_OUT_OF_MEMORY.
  CUresult upload();

  /// The copy of the node that `original` names, or null. REQUIRES: graphs_mutex().
  GraphNode* find_node(CUgraphNode original);
  /// Lets the copy of a node do `work` from the next launch on. REQUIRES: graphs_mutex().
  /// @return CUDA_ERROR_INVALID_VALUE for a change that is not allowed.
  CUresult set_work(GraphNode& node, NodeWorkPtr work);
  /// Lets all nodes do what those of `graph` do. REQUIRES: graphs_mutex().
  /// @return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, and nothing has changed.
  CUresult update(const Graph& graph, CUgraphExecUpdateResultInfo* info);
  /// update() for the child graph of one node.
  CUresult update_child(GraphNode& node, const Graph& graph, CUgraphExecUpdateResultInfo* info);

 private:
  /// One node in a launch.
  struct Step {
    GraphNode* node = nullptr;
    std::vector<std::size_t> after;  ///< indices of earlier steps
    Context* context = nullptr;
    std::size_t lane = 0;
    bool last_of_lane = false;
  };
  /// Where steps run one after another.
  struct Lane {
    Context* context = nullptr;
    std::size_t tail = 0;  ///< the step that was put there last
    StreamPtr stream;      ///< its own; null before its first use, and for the first lane mostly
  };

  Executable(GraphPtr graph, unsigned long long flags, Context& home)
      : graph_(std::move(graph)), flags_(flags), home_(home) {}
  void plan();
  std::vector<std::size_t> plan_graph(const Graph& graph, const std::vector<std::size_t>& entry);
  void choose_lane(std::size_t step);
  CUresult prepare_memory(std::vector<GraphAllocationPtr>* left);
  static CompletionPtr submit(const NodeWorkPtr& work, const StreamPtr& stream,
                              std::vector<CompletionPtr> waits);
  const StreamPtr& stream_of(Lane& lane);

  const GraphPtr graph_;  ///< the copy
  const unsigned long long flags_;
  Context& home_;  ///< of nodes that have none
  std::unordered_map<CUgraphNode, GraphNode*> by_original_;

  bool plan_is_stale_ = false;  ///< under graphs_mutex(): an update may have chosen other bodies

  std::mutex launch_mutex_;  ///< one launch at a time is enqueued; before graphs_mutex()
  std::vector<Step> steps_;  ///< changed under graphs_mutex() too
  std::vector<Lane> lanes_;
  CompletionPtr last_;  ///< the end of the last launch
};

}  // namespace simgpu
