// From the parameters that programs give nodes to the nodes' work, and back.
#pragma once

#include "tools/simgpu/driver/graphs/graph.h"

namespace simgpu {

/// @name Work from parameters
/// Codes are those that the functions that add such a node document; `*work` is untouched then.
/// `context` is the current one. They REQUIRE graphs_mutex(), since some name graphs.
/// @{
CUresult work_of(Context& context, const CUDA_KERNEL_NODE_PARAMS_v2& parameters, NodeWorkPtr* work);
CUresult work_of(Context& context, const CUDA_MEMCPY3D& parameters, CUcontext node_context,
                 NodeWorkPtr* work);
CUresult work_of(Context& context, const CUDA_MEMSET_NODE_PARAMS_v1& parameters,
                 CUcontext node_context, NodeWorkPtr* work);
CUresult work_of(const CUDA_HOST_NODE_PARAMS_v1& parameters, NodeWorkPtr* work);
/// A record if `records`, else a wait.
CUresult event_work_of(CUevent event, bool records, NodeWorkPtr* work);
/// `parent` is the graph that the node is added to.
CUresult child_work_of(const Graph& parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership,
                       NodeWorkPtr* work);
/// `*address` is where the memory will be.
CUresult allocation_work_of(const CUmemPoolProps& properties, std::uint64_t size, NodeWorkPtr* work,
                            CUdeviceptr* address);
/// Fills `parameters.phGraph_out`, which stays valid as long as the node.
CUresult conditional_work_of(CUDA_CONDITIONAL_NODE_PARAMS& parameters, NodeWorkPtr* work);
/// Any of them, and free nodes. Fills what `parameters` return.
CUresult work_of(Context& context, const Graph& graph, CUgraphNodeParams& parameters,
                 NodeWorkPtr* work);
/// @}

/// A conditional handle of `graph` with its default. REQUIRES: graphs_mutex().
CUgraphConditionalHandle make_conditional_handle(Graph& graph, unsigned value, unsigned flags);

/// The parameters of a kernel node; its arrays live as long as the node has this work.
CUDA_KERNEL_NODE_PARAMS_v2 parameters_of(const KernelNodeWork& kernel);
CUDA_MEMSET_NODE_PARAMS_v1 parameters_of(const FillNodeWork& fill);

/// `now` with other parameters, but its attributes.
NodeWorkPtr keep_attributes(const NodeWork& now, NodeWorkPtr next);

/// @name Attributes of kernel nodes
/// @return CUDA_ERROR_INVALID_VALUE for an attribute that kernel nodes do not have.
/// @{
CUresult get_attribute(const KernelNodeWork& kernel, CUlaunchAttributeID attribute,
                       CUlaunchAttributeValue* value);
CUresult set_attribute(KernelNodeWork& kernel, CUlaunchAttributeID attribute,
                       const CUlaunchAttributeValue& value);
/// @}

}  // namespace simgpu
