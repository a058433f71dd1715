// Memory that graphs allocate: its address, when it is there, how it is freed.
#include "tests/simgpu/driver/graphs/graph_fixture.h"

namespace simgpu {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 20;

class GraphMemoryDriver : public GraphDriver {
 protected:
  CUgraphNode add_allocation(CUgraph graph, CUdeviceptr* address,
                             std::vector<CUgraphNode> after = {}) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    parameters.bytesize = kBytes;
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, after.data(), after.size(), &parameters),
              CUDA_SUCCESS);
    *address = parameters.dptr;
    return node;
  }
  /// Captures an allocation, a fill of it and, if it is to be freed, its free.
  CUgraph capture_allocation(CUdeviceptr* address, bool frees) {
    EXPECT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocAsync(address, kBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(*address, 0x3C, kBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoDAsync_v2(out_, *address, 32, stream_), CUDA_SUCCESS);
    if (frees) {
      EXPECT_EQ(cuMemFreeAsync(*address, stream_), CUDA_SUCCESS);
    }
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    return graph;
  }
  static cuuint64_t attribute(CUgraphMem_attribute which) {
    cuuint64_t value = 0;
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, which, &value), CUDA_SUCCESS);
    return value;
  }
};

TEST_F(GraphMemoryDriver, IsThereBetweenItsNodes) {
  ASSERT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);  // what earlier tests left
  CUdeviceptr address = 0;
  const std::size_t before = free_bytes();
  const CUgraph graph = capture_allocation(&address, true);
  EXPECT_EQ(node_count(graph), 4U);
  EXPECT_EQ(free_bytes(), before);
  const CUgraphExec executable = instantiate(graph);
  for (int launch = 0; launch < 3; ++launch) {
    launch_and_wait(executable);
    EXPECT_EQ(host<unsigned char>(out_, 32)[31], 0x3C);
  }
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0U);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), kBytes);
  ASSERT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0U);
  EXPECT_EQ(free_bytes(), before);
  launch_and_wait(executable);
  // Outside of the graph nothing is there.
  ASSERT_EQ(cuMemsetD8Async(address, 0, 16, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(GraphMemoryDriver, LivesUntilItIsFreedOutside) {
  CUdeviceptr address = 0;
  const CUgraphExec executable = instantiate(capture_allocation(&address, false));
  EXPECT_EQ(cuMemFreeAsync(address, stream_), CUDA_ERROR_INVALID_VALUE) << "not allocated yet";
  launch_and_wait(executable);
  EXPECT_EQ(host<unsigned char>(address, 32)[31], 0x3C);
  EXPECT_EQ(cuGraphLaunch(executable, stream_), CUDA_ERROR_INVALID_VALUE) << "it is not freed";
  ASSERT_EQ(cuMemFreeAsync(address, stream_), CUDA_SUCCESS);
  launch_and_wait(executable);
  ASSERT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphMemoryDriver, IsFreedByTheNextLaunchIfAsked) {
  CUdeviceptr address = 0;
  const CUgraphExec executable = instantiate(capture_allocation(&address, false),
                                             CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  launch_and_wait(executable);
  launch_and_wait(executable);
  EXPECT_EQ(host<unsigned char>(address, 32)[31], 0x3C);
  EXPECT_EQ(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), kBytes);
  ASSERT_EQ(cuMemFree_v2(address), CUDA_SUCCESS);
}

TEST_F(GraphMemoryDriver, CanBeFreedByAnotherGraph) {
  CUdeviceptr address = 0;
  const CUgraphExec executable = instantiate(capture_allocation(&address, false));
  const CUgraph freeing = make_graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, address), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, freeing, nullptr, 0, address), CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec other = instantiate(freeing);
  EXPECT_EQ(cuGraphLaunch(other, stream_), CUDA_ERROR_INVALID_VALUE) << "nothing to free";
  launch_and_wait(executable);
  launch_and_wait(other);
  launch_and_wait(executable);
  launch_and_wait(other);
}

TEST_F(GraphMemoryDriver, RestrictsItsGraph) {
  const CUgraph graph = make_graph();
  CUdeviceptr address = 0;
  CUgraphNode allocation = add_allocation(graph, &address);
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, &allocation, 1, out_), CUDA_ERROR_INVALID_VALUE)
      << "no graph allocates it";
  ASSERT_EQ(cuGraphAddMemFreeNode(&node, graph, &allocation, 1, address), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph, &allocation, 1, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphDestroyNode(allocation), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphRemoveDependencies_v2(graph, &allocation, &node, nullptr, 1),
            CUDA_ERROR_INVALID_VALUE);
  CUgraph clone = nullptr;
  EXPECT_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, make_graph(), nullptr, 0, graph),
            CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec first = instantiate(graph);
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphExecDestroy(first), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_SUCCESS);
}

TEST_F(GraphMemoryDriver, CapturedFreesAreOfGraphsOnly) {
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(pooled, stream_), CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace simgpu
