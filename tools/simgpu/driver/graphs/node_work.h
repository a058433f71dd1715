// What a node of a graph does at each launch of the graph.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "tools/simgpu/driver/copies/copy.h"
#include "tools/simgpu/driver/copies/fill.h"
#include "tools/simgpu/driver/entry/api.h"
#include "tools/simgpu/driver/graphs/graph_allocation.h"
#include "tools/simgpu/driver/launch/launch.h"

namespace simgpu {

class Graph;
using GraphPtr = std::shared_ptr<Graph>;

/// @name The kinds of work
/// Immutable once a node has them: a node whose parameters change gets another one, so that clones
/// and executable graphs share what has not changed.
/// @{
struct EmptyWork {};

struct KernelNodeWork {
  PreparedLaunch launch;
  bool as_extra = false;  ///< the program gave its parameters as one buffer, and reads them so
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;  ///< but for those of the shape
  std::vector<void*> pointers;  ///< to each parameter in `launch.parameters`; by seal()
  std::size_t size = 0;         ///< of `launch.parameters`; by seal()
  std::vector<void*> extra;     ///< a CU_LAUNCH_PARAM_* list; by seal()
};

struct CopyNodeWork {
  CopyWork copy;
  CUDA_MEMCPY3D description{};
  Context* context = nullptr;
};

struct FillNodeWork {
  FillWork fill;
  Context* context = nullptr;
};

struct HostWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
};

struct ChildWork {
  GraphPtr graph;
};

struct RecordWork {
  CUevent event = nullptr;
};

struct WaitWork {
  CUevent event = nullptr;
};

struct AllocateWork {
  GraphAllocationPtr allocation;
  CUmemPoolProps properties{};
};

struct FreeWork {
  GraphAllocationPtr allocation;
};

struct ConditionalWork {
  CUgraphConditionalHandle handle = 0;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  unsigned value = 0;  ///< the handle's default
  std::vector<GraphPtr> bodies;
  std::vector<CUgraph> body_handles;
};
/// @}

using NodeWork =
    std::variant<EmptyWork, KernelNodeWork, CopyNodeWork, FillNodeWork, HostWork, ChildWork,
                 RecordWork, WaitWork, AllocateWork, FreeWork, ConditionalWork>;
using NodeWorkPtr = std::shared_ptr<const NodeWork>;

/// Makes `work` final.
NodeWorkPtr seal(NodeWork work);
/// Work that was submitted to `stream`, which captures.
NodeWorkPtr seal(PreparedLaunch launch, const Stream& stream);
NodeWorkPtr seal(const CopyWork& copy, const Stream& stream);
NodeWorkPtr seal(const FillWork& fill, const Stream& stream);

/// The kind of node that has `work`.
CUgraphNodeType type_of(const NodeWork& work);

/// The context that the work runs in; null for work that has none.
Context* context_of(const NodeWork& work);

/// Whether the work allocates or frees memory of graphs.
bool is_memory_work(const NodeWork& work);

/// The description of `copy` as a node's parameters.
CUDA_MEMCPY3D description_of(const CopyWork& copy);

/// The operation that does `work` on a stream of `context`, which names its memory as of now. For
/// nodes that are one operation: not for child graphs, conditional nodes, event nodes.
Operation operation_of(const NodeWorkPtr& work, Context& context);

/// Whether an executable graph's node may do `next` instead of `now`.
/// @return CU_GRAPH_EXEC_UPDATE_SUCCESS, or what cuGraphExecUpdate documents.
CUgraphExecUpdateResult check_change(const NodeWork& now, const NodeWork& next);

}  // namespace simgpu
