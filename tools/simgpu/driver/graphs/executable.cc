#include "tools/simgpu/driver/graphs/executable.h"

#include <algorithm>
#include <utility>

#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/streams/event.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {
namespace {

/// More branches than these wait for each other although they need not.
constexpr std::size_t kMostLanes = 8;

HandleTable<CUgraphExec, Executable>& executable_table() {
  static auto* const table = new HandleTable<CUgraphExec, Executable>;
  return *table;
}

/// The graph that a conditional node runs, or null. Its value is the handle's default: only device
/// code could set another, and simgpu runs none.
GraphPtr chosen_body(const ConditionalWork& work) {
  std::size_t body = work.value;
  if (work.type == CU_GRAPH_COND_TYPE_IF) body = work.value != 0 ? 0 : 1;
  if (work.type == CU_GRAPH_COND_TYPE_WHILE) return nullptr;  // one whose value is 0
  return body < work.bodies.size() ? work.bodies[body] : nullptr;
}

void index_nodes(const Graph& graph, std::unordered_map<CUgraphNode, GraphNode*>& index) {
  for (const auto& node : graph.nodes()) {
    if (node->original != nullptr) index[node->original] = node.get();
    for (const GraphPtr& inner : graphs_in(*node->work)) index_nodes(*inner, index);
  }
}

/// A node of a cycle in `graph` or in a graph of its nodes, or null.
const GraphNode* find_cycle(const Graph& graph) {
  const auto order = graph.in_order();
  for (const auto& node : graph.nodes()) {
    if (!order && !node->dependencies.empty()) return node.get();
    for (const GraphPtr& inner : graphs_in(*node->work)) {
      if (const GraphNode* const found = find_cycle(*inner)) return found;
    }
  }
  return nullptr;
}

/// Calls `visit` for the work of all enabled nodes that a launch of `graph` runs.
template <typename Visit>
void for_each_work(const Graph& graph, const Visit& visit) {
  for (const auto& node : graph.nodes()) {
    if (const auto* const conditional = std::get_if<ConditionalWork>(node->work.get())) {
      if (const GraphPtr body = chosen_body(*conditional)) for_each_work(*body, visit);
    } else if (const auto* const child = std::get_if<ChildWork>(node->work.get())) {
      for_each_work(*child->graph, visit);
    } else {
      visit(*node->work);
    }
  }
}

CUresult failed(CUgraphExecUpdateResultInfo* info, CUgraphExecUpdateResult why,
                const GraphNode* node, const GraphNode* from = nullptr) {
  info->result = why;
  info->errorNode = node == nullptr ? nullptr : node->handle;
  info->errorFromNode = from == nullptr ? nullptr : from->handle;
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

std::size_t index_of(const Graph& graph, const GraphNode* node) {
  const auto& nodes = graph.nodes();
  return static_cast<std::size_t>(
      std::find_if(nodes.begin(), nodes.end(),
                   [&](const auto& each) { return each.get() == node; }) -
      nodes.begin());
}

/// Whether `next` can take the place of `now`: node by node in the order in which they were added.
CUresult check_update(const Graph& now, const Graph& next, CUgraphExecUpdateResultInfo* info) {
  if (now.nodes().size() != next.nodes().size()) {
    return failed(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  }
  for (std::size_t index = 0; index < now.nodes().size(); ++index) {
    const GraphNode& from = *now.nodes()[index];
    const GraphNode& to = *next.nodes()[index];
    if (from.dependencies.size() != to.dependencies.size()) {
      return failed(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &to);
    }
    for (const Dependency& dependency : to.dependencies) {
      const std::size_t wanted = index_of(next, dependency.node);
      const bool found =
          std::any_of(from.dependencies.begin(), from.dependencies.end(),
                      [&](const Dependency& each) { return index_of(now, each.node) == wanted; });
      if (!found) {
        return failed(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, &to, dependency.node);
      }
    }
    const CUgraphExecUpdateResult change = check_change(*from.work, *to.work);
    if (change != CU_GRAPH_EXEC_UPDATE_SUCCESS) return failed(info, change, &to);
    const std::vector<GraphPtr> inner_now = graphs_in(*from.work);
    const std::vector<GraphPtr> inner_next = graphs_in(*to.work);
    for (std::size_t inner = 0; inner < inner_now.size(); ++inner) {
      const CUresult result = check_update(*inner_now[inner], *inner_next[inner], info);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

/// REQUIRES: check_update() succeeded.
void apply_update(const Graph& now, const Graph& next) {
  for (std::size_t index = 0; index < now.nodes().size(); ++index) {
    GraphNode& node = *now.nodes()[index];
    const NodeWorkPtr& work = next.nodes()[index]->work;
    const std::vector<GraphPtr> inner_now = graphs_in(*node.work);
    const std::vector<GraphPtr> inner_next = graphs_in(*work);
    for (std::size_t inner = 0; inner < inner_now.size(); ++inner) {
      apply_update(*inner_now[inner], *inner_next[inner]);
    }
    if (const auto* const conditional = std::get_if<ConditionalWork>(work.get())) {
      ConditionalWork changed = std::get<ConditionalWork>(*node.work);
      changed.value = conditional->value;
      node.work = seal(std::move(changed));
    } else if (inner_now.empty()) {
      node.work = work;
    }
  }
}

}  // namespace

CUresult Executable::create(const GraphPtr& graph, unsigned long long flags, CUgraphExec* handle,
                            CUgraphInstantiateResult* problem, CUgraphNode* node) {
  *problem = CUDA_GRAPH_INSTANTIATE_ERROR;
  *node = nullptr;
  Context* const home = current_context();
  const bool memory = graph->has_memory_nodes();
  if (graph->captures != 0 || graph->owned_by_node ||
      ((memory || graph->has_conditional_nodes()) && !graph->executable.expired())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const GraphNode* const found = find_cycle(*graph)) {
    *problem = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    *node = found->handle;
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const CUgraphConditionalHandle conditional : graph->conditional_handles) {
    const bool used = graph->any([&](const NodeWork& work) {
      const auto* const found = std::get_if<ConditionalWork>(&work);
      return found != nullptr && found->handle == conditional;
    });
    if (used) continue;
    *problem = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::shared_ptr<Executable> made{new Executable(graph->clone(false), flags, *home)};
  index_nodes(*made->graph_, made->by_original_);
  made->plan();
  graph->executable = made;
  *handle = executable_table().add(made);
  *problem = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

std::shared_ptr<Executable> Executable::find(CUgraphExec handle) {
  return executable_table().find(handle);
}

bool Executable::destroy(CUgraphExec handle) {
  return executable_table().remove(handle) != nullptr;
}

Executable::~Executable() {
  for (const Lane& lane : lanes_) {
    if (lane.stream != nullptr) lane.stream->close();
  }
}

void Executable::plan() {
  for (const Lane& lane : lanes_) {
    if (lane.stream != nullptr) lane.stream->close();
  }
  steps_.clear();
  lanes_.clear();
  plan_is_stale_ = false;
  plan_graph(*graph_, {});
  for (std::size_t step = 0; step < steps_.size(); ++step) choose_lane(step);
  for (const Lane& lane : lanes_) steps_[lane.tail].last_of_lane = true;
}

std::vector<std::size_t> Executable::plan_graph(const Graph& graph,
                                                const std::vector<std::size_t>& entry) {
  // The steps that whoever depends on a node has to wait for.
  std::unordered_map<const GraphNode*, std::vector<std::size_t>> ends;
  const std::vector<GraphNode*> order = graph.in_order().value_or(std::vector<GraphNode*>{});
  for (GraphNode* const node : order) {
    std::vector<std::size_t> after;
    for (const Dependency& dependency : node->dependencies) {
      const std::vector<std::size_t>& more = ends[dependency.node];
      after.insert(after.end(), more.begin(), more.end());
    }
    if (node->dependencies.empty()) after = entry;
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    GraphPtr inner;
    if (const auto* const child = std::get_if<ChildWork>(node->work.get())) {
      inner = child->graph;
    } else if (const auto* const conditional = std::get_if<ConditionalWork>(node->work.get())) {
      inner = chosen_body(*conditional);
    }
    if (inner != nullptr) {
      ends[node] = plan_graph(*inner, after);
      continue;
    }
    Context* const context = context_of(*node->work);
    steps_.push_back({node, std::move(after), context != nullptr ? context : &home_, 0, false});
    ends[node] = {steps_.size() - 1};
  }
  std::vector<std::size_t> all;
  for (const GraphNode* const leaf : graph.leaves()) {
    all.insert(all.end(), ends[leaf].begin(), ends[leaf].end());
  }
  return order.empty() ? entry : all;
}

void Executable::choose_lane(std::size_t index) {
  Step& step = steps_[index];
  std::size_t chosen = lanes_.size();
  std::size_t of_context = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].context != step.context) continue;
    ++of_context;
    const bool follows =
        std::find(step.after.begin(), step.after.end(), lanes_[lane].tail) != step.after.end();
    if (follows) {
      chosen = lane;
      break;
    }
  }
  if (chosen == lanes_.size() && of_context >= kMostLanes) {
    // Behind whatever has been there the longest.
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].context != step.context) continue;
      if (chosen == lanes_.size() || lanes_[lane].tail < lanes_[chosen].tail) chosen = lane;
    }
  }
  if (chosen == lanes_.size()) lanes_.push_back({step.context, index, nullptr});
  lanes_[chosen].tail = index;
  step.lane = chosen;
}

const StreamPtr& Executable::stream_of(Lane& lane) {
  if (lane.stream == nullptr || lane.stream->closed) {
    lane.stream = make_stream(*lane.context, StreamKind::kNonBlocking, CU_STREAM_NON_BLOCKING, 0);
  }
  return lane.stream;
}

CUresult Executable::upload() {
  std::vector<GraphAllocationPtr> all;
  {
    const std::lock_guard lock{graphs_mutex()};
    for_each_work(*graph_, [&](const NodeWork& work) {
      const auto* const allocate = std::get_if<AllocateWork>(&work);
      if (allocate != nullptr) all.push_back(allocate->allocation);
    });
  }
  for (const GraphAllocationPtr& allocation : all) {
    if (const CUresult result = allocation->back(); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Executable::prepare_memory(std::vector<GraphAllocationPtr>* left) {
  std::vector<GraphAllocationPtr> allocated;
  bool possible = true;
  for_each_work(*graph_, [&](const NodeWork& work) {
    if (const auto* const allocate = std::get_if<AllocateWork>(&work)) {
      if (allocate->allocation->live()) left->push_back(allocate->allocation);
      allocated.push_back(allocate->allocation);
    } else if (const auto* const release = std::get_if<FreeWork>(&work)) {
      const bool here =
          std::find(allocated.begin(), allocated.end(), release->allocation) != allocated.end();
      possible = possible && (here || release->allocation->live());
    }
  });
  const bool frees = (flags_ & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  if (!possible || (!left->empty() && !frees)) return CUDA_ERROR_INVALID_VALUE;
  for (const GraphAllocationPtr& allocation : allocated) {
    if (const CUresult result = allocation->back(); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CompletionPtr Executable::submit(const NodeWorkPtr& work, const StreamPtr& stream,
                                 std::vector<CompletionPtr> waits) {
  if (const auto* const record = std::get_if<RecordWork>(work.get())) {
    CompletionPtr completion;
    if (record_on(record->event, stream, waits, &completion) == CUDA_SUCCESS) return completion;
  }
  if (const auto* const wait = std::get_if<WaitWork>(work.get())) {
    EventRecord last;
    const CUresult result = event_record(wait->event, &last);
    if (result == CUDA_SUCCESS && last.completion != nullptr) {
      waits.push_back(std::move(last.completion));
    }
  }
  Operation operation = operation_of(work, context_of(*stream));
  operation.waits.insert(operation.waits.end(), waits.begin(), waits.end());
  return enqueue(stream, std::move(operation));
}

CUresult Executable::launch(const StreamPtr& stream) {
  await_room(stream);  // once for the graph, however many nodes it has
  const std::lock_guard launch_lock{launch_mutex_};
  std::vector<NodeWorkPtr> works;
  std::vector<GraphAllocationPtr> left;
  {
    const std::lock_guard lock{graphs_mutex()};
    if (const CUresult result = prepare_memory(&left); result != CUDA_SUCCESS) return result;
    if (plan_is_stale_) plan();
    static const NodeWorkPtr* const disabled = new NodeWorkPtr{seal(EmptyWork{})};
    for (const Step& step : steps_) {
      works.push_back(step.node->enabled ? step.node->work : *disabled);
    }
  }
  Operation begin;
  begin.label = "the begin of a graph";
  if (last_ != nullptr && !last_->complete()) begin.waits.push_back(last_);
  const CompletionPtr start = enqueue(stream, std::move(begin));
  for (const GraphAllocationPtr& allocation : left) {
    enqueue(stream, GraphAllocation::free(allocation));
  }
  // What runs beside the stream comes after what the stream was given just now.
  CompletionPtr ready = start;
  if (!left.empty()) ready = enqueue(stream, Operation{});
  const bool first_in_stream = !lanes_.empty() && lanes_.front().context == &context_of(*stream);
  std::vector<CompletionPtr> ends(steps_.size());
  Operation end;
  end.label = "the end of a graph";
  for (std::size_t index = 0; index < steps_.size(); ++index) {
    const Step& step = steps_[index];
    const bool in_stream = step.lane == 0 && first_in_stream;
    const StreamPtr& target = in_stream ? stream : stream_of(lanes_[step.lane]);
    std::vector<CompletionPtr> waits;
    if (!in_stream) waits.push_back(ready);
    for (const std::size_t before : step.after) {
      if (steps_[before].lane != step.lane) waits.push_back(ends[before]);
    }
    ends[index] = submit(works[index], target, std::move(waits));
    if (step.last_of_lane && !in_stream) end.waits.push_back(ends[index]);
  }
  last_ = enqueue(stream, std::move(end));
  return CUDA_SUCCESS;
}

GraphNode* Executable::find_node(CUgraphNode original) {
  const auto found = by_original_.find(original);
  return found == by_original_.end() || Graph::find_node(original) == nullptr ? nullptr
                                                                              : found->second;
}

CUresult Executable::set_work(GraphNode& node, NodeWorkPtr work) {
  if (check_change(*node.work, *work) != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  node.work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult Executable::update(const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  *info = {};
  const CUresult result = check_update(*graph_, graph, info);
  if (result != CUDA_SUCCESS) return result;
  apply_update(*graph_, graph);
  plan_is_stale_ = plan_is_stale_ || graph_->has_conditional_nodes();
  return CUDA_SUCCESS;
}

CUresult Executable::update_child(GraphNode& node, const Graph& graph,
                                  CUgraphExecUpdateResultInfo* info) {
  const auto* const child = std::get_if<ChildWork>(node.work.get());
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = check_update(*child->graph, graph, info);
  if (result != CUDA_SUCCESS) return result;
  apply_update(*child->graph, graph);
  return CUDA_SUCCESS;
}

}  // namespace simgpu
