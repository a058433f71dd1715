// Graphs that a program builds: nodes, edges, parameters, copies, user objects.
#include <atomic>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/simgpu/driver/graphs/graph_fixture.h"

namespace simgpu {
namespace {

class BuiltGraphDriver : public GraphDriver {};

TEST_F(BuiltGraphDriver, RunsNodesInTheOrderOfTheirEdges) {
  const CUgraph graph = make_graph();
  std::vector<int> order;
  struct Call {
    std::vector<int>* order;
    int number;
  };
  std::vector<Call> calls{{&order, 0}, {&order, 1}, {&order, 2}};
  std::vector<CUgraphNode> nodes;
  for (Call& call : calls) {
    const CUDA_HOST_NODE_PARAMS host{[](void* data) {
                                       const auto* const made = static_cast<Call*>(data);
                                       made->order->push_back(made->number);
                                     },
                                     &call};
    nodes.emplace_back();
    ASSERT_EQ(cuGraphAddHostNode(&nodes.back(), graph, nullptr, 0, &host), CUDA_SUCCESS);
  }
  const CUgraphNode from[] = {nodes[2], nodes[1]};
  const CUgraphNode to[] = {nodes[1], nodes[0]};
  ASSERT_EQ(cuGraphAddDependencies_v2(graph, from, to, nullptr, 2), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddDependencies_v2(graph, from, to, nullptr, 1), CUDA_ERROR_INVALID_VALUE)
      << "it is there already";
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
}

TEST_F(BuiltGraphDriver, RefusesCyclesWhenInstantiated) {
  const CUgraph graph = make_graph();
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  ASSERT_EQ(cuGraphAddEmptyNode(&first, graph, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddEmptyNode(&second, graph, &first, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddDependencies_v2(graph, &second, &first, nullptr, 1), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  EXPECT_EQ(cuGraphInstantiateWithParams(&executable, graph, &parameters),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_NE(parameters.hErrNode_out, nullptr);
}

TEST_F(BuiltGraphDriver, ListsItsNodesAndEdges) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  CUgraphNode second = add_node(graph, {first});
  CUgraphNode third = add_node(graph, {first, second});
  CUgraphNode nodes[5] = {};
  std::size_t count = 5;
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(nodes[2], third);
  EXPECT_EQ(nodes[3], nullptr);
  count = 5;
  ASSERT_EQ(cuGraphGetRootNodes(graph, nodes, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(nodes[0], first);
  count = 5;
  ASSERT_EQ(cuGraphNodeGetDependentNodes_v2(first, nodes, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2U);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ASSERT_EQ(cuGraphNodeGetType(second, &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  ASSERT_EQ(cuGraphRemoveDependencies_v2(graph, &first, &third, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphRemoveDependencies_v2(graph, &first, &third, nullptr, 1),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphDestroyNode(second), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroyNode(second), CUDA_ERROR_INVALID_VALUE);
  count = 0;
  ASSERT_EQ(cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0U);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphNodeGetType(first, &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(BuiltGraphDriver, KeepsEdgeDataAndLosesNone) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  CUgraphNode second = add_node(graph, {});
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  ASSERT_EQ(cuGraphAddDependencies_v2(graph, &first, &second, &data, 1), CUDA_SUCCESS);
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  std::size_t count = 1;
  EXPECT_EQ(cuGraphGetEdges(graph, &from, &to, &count), CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData read{};
  ASSERT_EQ(cuGraphGetEdges_v2(graph, &from, &to, &read, &count), CUDA_SUCCESS);
  EXPECT_EQ(read.type, data.type);
}

TEST_F(BuiltGraphDriver, TellsAndChangesParametersOfNodes) {
  const CUgraph graph = make_graph();
  const CUgraphNode kernel = add_node(graph, {});
  CUDA_KERNEL_NODE_PARAMS read{};
  ASSERT_EQ(cuGraphKernelNodeGetParams_v2(kernel, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.func, add_);
  EXPECT_EQ(read.blockDimX, 8U);
  ASSERT_NE(read.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(read.kernelParams[0]), out_);
  CUdeviceptr other = device(std::vector<float>(8, 0.0F));
  CUDA_KERNEL_NODE_PARAMS changed = kernel_parameters(&other);
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(kernel, &changed), CUDA_SUCCESS);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 0.0F);
  EXPECT_EQ(runs(other), 1.0F);
  changed.kernelParams = nullptr;
  EXPECT_EQ(cuGraphKernelNodeSetParams_v2(kernel, &changed), CUDA_ERROR_INVALID_VALUE);
  changed = kernel_parameters(&other);
  changed.blockDimX = 4096;
  EXPECT_EQ(cuGraphKernelNodeSetParams_v2(kernel, &changed), CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS host{};
  EXPECT_EQ(cuGraphHostNodeGetParams(kernel, &host), CUDA_ERROR_INVALID_VALUE) << "another kind";
}

TEST_F(BuiltGraphDriver, CopiesAndFills) {
  const CUgraph graph = make_graph();
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = in_;
  fill.value = 0x40400000;  // 3
  fill.elementSize = 4;
  fill.width = 8;
  fill.height = 1;
  CUgraphNode filled = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill, context_), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = in_;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = out_;
  copy.WidthInBytes = 32;
  copy.Height = 1;
  copy.Depth = 1;
  CUgraphNode copied = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, context_), CUDA_SUCCESS);
  CUDA_MEMCPY3D read{};
  ASSERT_EQ(cuGraphMemcpyNodeGetParams(copied, &read), CUDA_SUCCESS);
  EXPECT_EQ(read.srcDevice, in_);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 3.0F);
  copy.srcDevice = 4096;
  EXPECT_EQ(cuGraphAddMemcpyNode(&copied, graph, nullptr, 0, &copy, context_),
            CUDA_ERROR_INVALID_VALUE);
  fill.elementSize = 3;
  EXPECT_EQ(cuGraphMemsetNodeSetParams(filled, &fill), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(BuiltGraphDriver, TakesChildGraphsAsCopies) {
  const CUgraph child = make_graph();
  CUgraphNode inner = add_node(child, {});
  add_node(child, {inner});
  const CUgraph graph = make_graph();
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&first, graph, nullptr, 0, child), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddChildGraphNode(&second, graph, &first, 1, child), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(child), CUDA_SUCCESS);
  CUgraph owned = nullptr;
  ASSERT_EQ(cuGraphChildGraphNodeGetGraph(first, &owned), CUDA_SUCCESS);
  EXPECT_EQ(node_count(owned), 2U);
  EXPECT_EQ(cuGraphDestroy(owned), CUDA_ERROR_INVALID_VALUE) << "its node has it";
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 4.0F);
}

TEST_F(BuiltGraphDriver, ClonesWithAllNodes) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  CUgraph clone = nullptr;
  ASSERT_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
  CUgraphNode found = nullptr;
  ASSERT_EQ(cuGraphNodeFindInClone(&found, first, clone), CUDA_SUCCESS);
  EXPECT_NE(found, first);
  ASSERT_EQ(cuGraphDestroyNode(found), CUDA_SUCCESS);
  EXPECT_EQ(node_count(graph), 2U);
  EXPECT_EQ(node_count(clone), 1U);
  EXPECT_EQ(cuGraphNodeFindInClone(&found, first, clone), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(BuiltGraphDriver, FollowsTheDefaultsOfConditionalHandles) {
  const CUgraph graph = make_graph();
  CUgraphConditionalHandle handle = 0;
  ASSERT_EQ(
      cuGraphConditionalHandleCreate(&handle, graph, context_, 0, CU_GRAPH_COND_ASSIGN_DEFAULT),
      CUDA_SUCCESS);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
  parameters.conditional.size = 2;
  parameters.conditional.ctx = context_;
  CUgraphExec executable = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS instantiation{};
  EXPECT_EQ(cuGraphInstantiateWithParams(&executable, graph, &instantiation),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(instantiation.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &parameters), CUDA_SUCCESS);
  const CUgraph otherwise = parameters.conditional.phGraph_out[1];
  CUgraphNode first = add_node(parameters.conditional.phGraph_out[0], {});
  ASSERT_NE(first, nullptr);
  first = add_node(otherwise, {});
  add_node(otherwise, {first});
  const CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
  EXPECT_EQ(cuGraphAddHostNode(&first, otherwise, nullptr, 0, &host), CUDA_ERROR_INVALID_VALUE);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 2.0F) << "the condition is 0";
  EXPECT_EQ(cuGraphClone(const_cast<CUgraph*>(&otherwise), graph), CUDA_ERROR_INVALID_VALUE);
  // A loop that only device code could end.
  ASSERT_EQ(
      cuGraphConditionalHandleCreate(&handle, graph, context_, 1, CU_GRAPH_COND_ASSIGN_DEFAULT),
      CUDA_SUCCESS);
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  parameters.conditional.size = 1;
  EXPECT_EQ(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &parameters),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(BuiltGraphDriver, KeepsUserObjectsAlive) {
  static std::atomic<int> destroyed{0};
  destroyed = 0;
  const CUgraph graph = make_graph();
  add_node(graph, {});
  CUuserObject object = nullptr;
  ASSERT_EQ(cuUserObjectCreate(
                &object, nullptr, [](void*) { ++destroyed; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
            CUDA_SUCCESS);
  ASSERT_EQ(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(graph);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRetain(object, 1), CUDA_SUCCESS) << "the executable graph keeps it";
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE);
  while (destroyed == 0) std::this_thread::yield();
}

TEST_F(BuiltGraphDriver, CanBePrinted) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  const std::string path = testing::TempDir() + "/graph.dot";
  ASSERT_EQ(cuGraphDebugDotPrint(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE),
            CUDA_SUCCESS);
  std::stringstream text;
  text << std::ifstream{path}.rdbuf();
  EXPECT_NE(text.str().find("digraph"), std::string::npos);
  EXPECT_NE(text.str().find("KERNEL\\nadd"), std::string::npos);
  EXPECT_NE(text.str().find("->"), std::string::npos);
}

}  // namespace
}  // namespace simgpu
