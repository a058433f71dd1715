// Executable graphs: launches and their order, updates, memory at each launch.
#include <atomic>
#include <thread>

#include "tests/hang_limit.h"
#include "tests/simgpu/driver/graphs/graph_fixture.h"

namespace simgpu {
namespace {

class ExecutableDriver : public GraphDriver {
 protected:
  /// A graph with `branches` kernels of 3 ms that nothing orders.
  CUgraph branching_graph(int branches) {
    const CUgraph graph = make_graph();
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = function(load(), "nothing");
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    for (int branch = 0; branch < branches; ++branch) {
      CUgraphNode node = nullptr;
      EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &kernel), CUDA_SUCCESS);
    }
    return graph;
  }
};

TEST_F(ExecutableDriver, LaunchesOfOneRunOneAfterAnother) {
  const CUgraph graph = make_graph();
  struct State {
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<int> calls{0};
    std::atomic<bool> all_are_launched{false};
  } state;
  // The first one lasts until all are launched, so that others could run beside it.
  const CUDA_HOST_NODE_PARAMS host{[](void* data) {
                                     auto* const seen = static_cast<State*>(data);
                                     const int now = ++seen->inside;
                                     if (now > seen->most) seen->most = now;
                                     const superpipe::testing::HangGuard guard;
                                     while (!seen->all_are_launched && !guard.is_over()) {
                                       std::this_thread::yield();
                                     }
                                     for (int i = 0; i < 20; ++i) std::this_thread::yield();
                                     --seen->inside;
                                     ++seen->calls;
                                   },
                                   &state};
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddHostNode(&node, graph, nullptr, 0, &host), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(graph);
  for (int launch = 0; launch < 6; ++launch) {
    EXPECT_EQ(cuGraphLaunch(executable, make_stream()), CUDA_SUCCESS);
  }
  state.all_are_launched = true;
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(state.calls, 6);
  EXPECT_EQ(state.most, 1);
}

TEST_F(ExecutableDriver, KeepsTheOrderOfItsStream) {
  const CUgraph graph = make_graph();
  CUgraphNode node = add_node(graph, {});
  node = add_node(graph, {node});
  add_node(graph, {node});
  const CUgraphExec executable = instantiate(graph);
  ASSERT_EQ(cuMemsetD32Async(out_, 0, 8, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(in_, out_, 32, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(out_, 0, 8, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(runs(), 9.0F);
}

// Host functions of two branches that wait for each other.
TEST_F(ExecutableDriver, BranchesRunAtTheSameTime) {
  const CUgraph graph = make_graph();
  struct Meeting {
    std::atomic<int> arrived{0};
    std::atomic<int> met{0};
  } meeting;
  const CUDA_HOST_NODE_PARAMS host{[](void* data) {
                                     auto* const both = static_cast<Meeting*>(data);
                                     ++both->arrived;
                                     const superpipe::testing::HangGuard guard;
                                     while (both->arrived < 2) {
                                       if (guard.is_over()) return;
                                       std::this_thread::yield();
                                     }
                                     ++both->met;
                                   },
                                   &meeting};
  for (int branch = 0; branch < 2; ++branch) {
    CUgraphNode node = nullptr;
    ASSERT_EQ(cuGraphAddHostNode(&node, graph, nullptr, 0, &host), CUDA_SUCCESS);
  }
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(meeting.met, 2);
}

TEST_F(ExecutableDriver, RunsMoreBranchesThanItHasLanes) {
  launch_and_wait(instantiate(branching_graph(20)));
}

TEST_F(ExecutableDriver, DestroyedInFlightStillFinishes) {
  const CUgraph graph = make_graph();
  const CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  const CUgraphExec executable = instantiate(graph);
  const CUfunction nothing = function(load(), "nothing");
  ASSERT_EQ(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(runs(), 2.0F);
}

TEST_F(ExecutableDriver, NodesCanBeGivenOtherParameters) {
  const CUgraph graph = make_graph();
  const CUgraphNode node = add_node(graph, {});
  const CUgraphExec executable = instantiate(graph);
  CUdeviceptr other = device(std::vector<float>(8, 0.0F));
  CUDA_KERNEL_NODE_PARAMS changed = kernel_parameters(&other);
  ASSERT_EQ(cuGraphExecKernelNodeSetParams_v2(executable, node, &changed), CUDA_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 0.0F);
  EXPECT_EQ(runs(other), 1.0F);
  launch_and_wait(instantiate(graph));
  EXPECT_EQ(runs(), 1.0F) << "the graph itself has not changed";
  CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
  EXPECT_EQ(cuGraphExecHostNodeSetParams(executable, node, &host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(executable, add_node(graph, {}), &changed),
            CUDA_ERROR_INVALID_VALUE)
      << "it was not there yet";
}

TEST_F(ExecutableDriver, CopyNodesMayChangeAddressesOnly) {
  const CUgraph graph = make_graph();
  CUdeviceptr other = device(std::vector<float>(8, 7.0F));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = in_;
  copy.dstDevice = out_;
  copy.WidthInBytes = 32;
  copy.Height = copy.Depth = 1;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(graph);
  copy.srcDevice = other;
  ASSERT_EQ(cuGraphExecMemcpyNodeSetParams(executable, node, &copy, context_), CUDA_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 7.0F);
  copy.WidthInBytes = 16;
  copy.srcPitch = copy.dstPitch = 16;
  copy.Height = 2;
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(executable, node, &copy, context_),
            CUDA_ERROR_INVALID_VALUE);
  std::vector<float> bytes(8);
  copy.WidthInBytes = 32;
  copy.Height = 1;
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.data();
  EXPECT_EQ(cuGraphExecMemcpyNodeSetParams(executable, node, &copy, context_),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExecutableDriver, CanBeUpdatedFromAGraphOfTheSameShape) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  const CUgraphExec executable = instantiate(graph);
  const CUdeviceptr original = out_;
  out_ = device(std::vector<float>(8, 0.0F));
  const CUgraph same = make_graph();
  first = add_node(same, {});
  add_node(same, {first});
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(cuGraphExecUpdate_v2(executable, same, &info), CUDA_SUCCESS);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 2.0F);
  EXPECT_EQ(runs(original), 0.0F);
}

TEST_F(ExecutableDriver, SaysWhyItCannotBeUpdated) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  const CUgraphExec executable = instantiate(graph);
  CUgraphExecUpdateResultInfo info{};
  const auto expect_failure = [&](CUgraph other, CUgraphExecUpdateResult why, CUgraphNode node) {
    EXPECT_EQ(cuGraphExecUpdate_v2(executable, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, why);
    EXPECT_EQ(info.errorNode, node);
  };
  const CUgraph fewer = make_graph();
  first = add_node(fewer, {});
  expect_failure(fewer, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
  CUgraphNode second = add_node(fewer, {});
  expect_failure(fewer, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, second);
  const CUgraph kinds = make_graph();
  first = add_node(kinds, {});
  ASSERT_EQ(cuGraphAddEmptyNode(&second, kinds, &first, 1), CUDA_SUCCESS);
  expect_failure(kinds, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, second);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 2.0F) << "nothing has changed";
}

TEST_F(ExecutableDriver, ChildGraphsCanBeUpdated) {
  const CUgraph child = make_graph();
  add_node(child, {});
  const CUgraph graph = make_graph();
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(graph);
  const CUdeviceptr original = out_;
  out_ = device(std::vector<float>(8, 0.0F));
  const CUgraph other = make_graph();
  add_node(other, {});
  ASSERT_EQ(cuGraphExecChildGraphNodeSetParams(executable, node, other), CUDA_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 1.0F);
  EXPECT_EQ(runs(original), 0.0F);
  add_node(other, {});
  EXPECT_EQ(cuGraphExecChildGraphNodeSetParams(executable, node, other), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExecutableDriver, NodesCanBeDisabled) {
  const CUgraph graph = make_graph();
  CUgraphNode first = add_node(graph, {});
  add_node(graph, {first});
  const CUgraphExec executable = instantiate(graph);
  unsigned enabled = 7;
  ASSERT_EQ(cuGraphNodeSetEnabled(executable, first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphNodeGetEnabled(executable, first, &enabled), CUDA_SUCCESS);
  EXPECT_EQ(enabled, 0U);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 1.0F);
  ASSERT_EQ(cuGraphNodeSetEnabled(executable, first, 1), CUDA_SUCCESS);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 3.0F);
}

TEST_F(ExecutableDriver, FaultsWhenWhatItNamesIsGone) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(add_on(stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  const CUgraphExec executable = instantiate(graph);
  launch_and_wait(executable);
  ASSERT_EQ(cuMemFree_v2(in_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// The memory that a captured kernel names is looked up again at each launch.
TEST_F(ExecutableDriver, UsesWhatIsMappedWhenItIsLaunched) {
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAddressReserve(&address, kBytes, 0, 0, 0), CUDA_SUCCESS);
  const auto map_new = [&] {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(cuMemCreate(&handle, kBytes, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(address, kBytes, 0, handle, 0), CUDA_SUCCESS);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(cuMemSetAccess(address, kBytes, &access, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  };
  map_new();
  out_ = address;
  const CUgraph graph = make_graph();
  add_node(graph, {});
  const CUgraphExec executable = instantiate(graph);
  launch_and_wait(executable);
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 2.0F);
  ASSERT_EQ(cuMemUnmap(address, kBytes), CUDA_SUCCESS);
  map_new();
  launch_and_wait(executable);
  EXPECT_EQ(runs(), 1.0F);
}

}  // namespace
}  // namespace simgpu
