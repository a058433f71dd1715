// Graphs: what the driver tells of their nodes, and when it needs what these name.

#include <cstring>
#include <vector>

#include "tests/conformance/fixture.h"

namespace conformance {
namespace {

using GraphNodes = ConformanceTest;
using ExecutableGraph = ConformanceTest;

constexpr uint32_t kCount = 64;

/// The graph into which `submit(stream)` is captured; null if it could not be.
template <typename Submit>
CUgraph capture(const Submit& submit) {
  const Stream stream;
  CUgraph graph = nullptr;
  CU_EXPECT(CUDA_SUCCESS,
            cu().cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CU_EXPECT(CUDA_SUCCESS, submit(stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamEndCapture(stream.get(), &graph));
  return graph;
}

std::vector<CUgraphNode> nodes_of(CUgraph graph) {
  std::size_t count = 0;
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphGetNodes(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(count, nodes.size());
  return nodes;
}

CUgraphNodeType type_of(CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphNodeGetType(node, &type));
  return type;
}

/// Launches a graph and waits for it.
void run(CUgraphExec executable) {
  const Stream stream;
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphLaunch(executable, stream.get()));
  CU_EXPECT(CUDA_SUCCESS, cu().cuStreamSynchronize(stream.get()));
}

/// The parameters of a kernel node that copies words.
class CopyKernel {
 public:
  CopyKernel(CUdeviceptr out, CUdeviceptr in) : out_(out), in_(in) {
    node_.func = function("copy_words");
    node_.gridDimX = node_.gridDimY = node_.gridDimZ = 1;
    node_.blockDimX = node_.blockDimY = node_.blockDimZ = 1;
    node_.kernelParams = parameters_;
  }
  CopyKernel(const CopyKernel&) = delete;
  CopyKernel& operator=(const CopyKernel&) = delete;
  [[nodiscard]] const CUDA_KERNEL_NODE_PARAMS* node() const { return &node_; }

 private:
  CUdeviceptr out_;
  CUdeviceptr in_;
  uint32_t count_ = kCount;
  void* parameters_[3] = {&out_, &in_, &count_};
  CUDA_KERNEL_NODE_PARAMS node_{};
};

TEST_F(GraphNodes, TellTheParametersOfACapturedLaunch) {
  const Buffer in(kCount);
  const Buffer out(kCount);
  const CUgraph graph = capture(
      [&](CUstream stream) { return copy_words(stream, out.address(), in.address(), kCount); });
  const auto nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 1U);
  ASSERT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_KERNEL);
  CUDA_KERNEL_NODE_PARAMS told{};
  CU_ASSERT(cu().cuGraphKernelNodeGetParams(nodes[0], &told));
  ASSERT_NE(told.kernelParams, nullptr);
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  std::memcpy(&first, told.kernelParams[0], sizeof first);
  std::memcpy(&second, told.kernelParams[1], sizeof second);
  EXPECT_EQ(first, out.address());
  EXPECT_EQ(second, in.address());
  // The handle that comes with them is one that tells its parameters, as at a launch.
  std::size_t offset = 0;
  std::size_t size = 0;
  CU_EXPECT(CUDA_SUCCESS, cu().cuFuncGetParamInfo(told.func, 1, &offset, &size));
  EXPECT_EQ(size, sizeof(CUdeviceptr));
  CUlaunchAttributeValue attribute{};
  const CUresult known = cu().cuGraphKernelNodeGetAttribute(
      nodes[0], CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &attribute);
  if (known == CUDA_SUCCESS) {
    EXPECT_EQ(attribute.deviceUpdatableKernelNode.deviceUpdatable, 0);
  }
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(GraphNodes, TellTheAddressesOfACapturedCopyAndFill) {
  const Buffer in(kCount);
  const Buffer out(kCount);
  const CUgraph graph = capture([&](CUstream stream) {
    const CUresult copied = cu().cuMemcpyDtoDAsync(out.address(), in.address(), kCount * 4, stream);
    return copied == CUDA_SUCCESS ? cu().cuMemsetD32Async(in.address(), 7, kCount, stream) : copied;
  });
  bool copies = false;
  bool fills = false;
  for (const CUgraphNode node : nodes_of(graph)) {
    if (type_of(node) == CU_GRAPH_NODE_TYPE_MEMCPY) {
      CUDA_MEMCPY3D told{};
      CU_ASSERT(cu().cuGraphMemcpyNodeGetParams(node, &told));
      EXPECT_EQ(told.srcDevice, in.address());
      EXPECT_EQ(told.dstDevice, out.address());
      copies = true;
    } else if (type_of(node) == CU_GRAPH_NODE_TYPE_MEMSET) {
      CUDA_MEMSET_NODE_PARAMS told{};
      CU_ASSERT(cu().cuGraphMemsetNodeGetParams(node, &told));
      EXPECT_EQ(told.dst, in.address());
      fills = true;
    }
  }
  EXPECT_TRUE(copies);
  EXPECT_TRUE(fills);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(GraphNodes, TellTheGraphInANode) {
  const Buffer in(kCount);
  const Buffer out(kCount);
  const CUgraph inner = capture(
      [&](CUstream stream) { return copy_words(stream, out.address(), in.address(), kCount); });
  CUgraph outer = nullptr;
  CUgraphNode node = nullptr;
  CU_ASSERT(cu().cuGraphCreate(&outer, 0));
  CU_ASSERT(cu().cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
  CU_ASSERT(cu().cuGraphDestroy(inner));
  ASSERT_EQ(type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
  CUgraph told = nullptr;
  CU_ASSERT(cu().cuGraphChildGraphNodeGetGraph(node, &told));
  const auto nodes = nodes_of(told);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(type_of(nodes[0]), CU_GRAPH_NODE_TYPE_KERNEL);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(outer));
}

TEST_F(ExecutableGraph, NeedsWhatItsKernelsNameOnlyWhenItIsLaunched) {
  const Reservation reserved(kGranule);
  CU_ASSERT(reserved.status());
  const Buffer in(kCount);
  {
    const Stream stream;
    CU_ASSERT(fill(stream.get(), in.address(), 41, kCount));
    CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  }
  // Nothing is mapped there while the launch is captured and the graph is instantiated.
  const CUgraph graph = capture([&](CUstream stream) {
    return copy_words(stream, reserved.address(), in.address(), kCount);
  });
  CUgraphExec executable = nullptr;
  CU_ASSERT(cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  const Pages first(kGranule);
  const Pages second(kGranule);
  for (const Pages* const pages : {&first, &second}) {
    CU_ASSERT(map(reserved.address(), kGranule, pages->handle()));
    CU_ASSERT(cu().cuMemsetD32(reserved.address(), 0, kCount));
    CU_ASSERT(cu().cuCtxSynchronize());  // the graph's stream does not wait for the null stream
    run(executable);
    EXPECT_EQ(word_at(reserved.address()), 41U);
    CU_ASSERT(cu().cuMemUnmap(reserved.address(), kGranule));
  }
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphExecDestroy(executable));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(ExecutableGraph, IsChangedByTheNodesOfItsGraph) {
  const Buffer in(kCount);
  const Buffer first(kCount);
  const Buffer second(kCount);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), in.address(), 43, kCount));
  CU_ASSERT(fill(stream.get(), first.address(), 0, kCount));
  CU_ASSERT(fill(stream.get(), second.address(), 0, kCount));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  const CUgraph graph = capture([&](CUstream captured) {
    return copy_words(captured, first.address(), in.address(), kCount);
  });
  CUDA_GRAPH_INSTANTIATE_PARAMS how{};
  CUgraphExec executable = nullptr;
  CU_ASSERT(cu().cuGraphInstantiateWithParams(&executable, graph, &how));
  const CUgraphNode node = nodes_of(graph).front();
  const CopyKernel to_second(second.address(), in.address());
  CU_ASSERT(cu().cuGraphExecKernelNodeSetParams(executable, node, to_second.node()));
  run(executable);
  EXPECT_EQ(word_at(first.address()), 0U);
  EXPECT_EQ(word_at(second.address()), 43U);
  // And by the call for nodes of any kind.
  const CopyKernel back(first.address(), second.address());
  CUgraphNodeParams any{};
  any.type = CU_GRAPH_NODE_TYPE_KERNEL;
  std::memcpy(&any.kernel, back.node(), sizeof *back.node());
  CU_ASSERT(cu().cuGraphExecNodeSetParams(executable, node, &any));
  run(executable);
  EXPECT_EQ(word_at(first.address()), 43U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphExecDestroy(executable));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(ExecutableGraph, DoesWhatTheGraphDoesThatItIsUpdatedWith) {
  const Buffer in(kCount);
  const Buffer first(kCount);
  const Buffer second(kCount);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), in.address(), 44, kCount));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  const auto copy_to = [&](const Buffer& out) {
    return capture([&](CUstream captured) {
      return copy_words(captured, out.address(), in.address(), kCount);
    });
  };
  CUgraphExec executable = nullptr;
  const CUgraph graph = copy_to(first);
  CU_ASSERT(cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  const CUgraph other = copy_to(second);
  CUgraphExecUpdateResultInfo info{};
  CU_ASSERT(cu().cuGraphExecUpdate(executable, other, &info));
  CU_ASSERT(cu().cuGraphDestroy(other));
  run(executable);
  EXPECT_EQ(word_at(second.address()), 44U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphExecDestroy(executable));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
}

TEST_F(GraphNodes, TellWhatTheyAllocateAndFree) {
  CUdeviceptr memory = 0;
  const CUgraph graph = capture([&](CUstream stream) {
    CUresult result = cu().cuMemAllocAsync(&memory, 5000, stream);
    if (result == CUDA_SUCCESS) result = cu().cuMemsetD8Async(memory, 1, 5000, stream);
    return result == CUDA_SUCCESS ? cu().cuMemFreeAsync(memory, stream) : result;
  });
  int told = 0;
  for (const CUgraphNode node : nodes_of(graph)) {
    if (type_of(node) == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
      CU_ASSERT(cu().cuGraphMemAllocNodeGetParams(node, &allocation));
      EXPECT_EQ(allocation.dptr, memory);
      EXPECT_GE(allocation.bytesize, 5000U);
      EXPECT_EQ(allocation.poolProps.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
      EXPECT_EQ(allocation.poolProps.location.id, 0);
      ++told;
    } else if (type_of(node) == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      CUdeviceptr freed = 0;
      CU_ASSERT(cu().cuGraphMemFreeNodeGetParams(node, &freed));
      EXPECT_EQ(freed, memory);
      ++told;
    }
  }
  EXPECT_EQ(told, 2);
  CUgraphExec executable = nullptr;
  CU_ASSERT(cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  const Stream stream;
  CU_ASSERT(cu().cuGraphUpload(executable, stream.get()));
  run(executable);
  CU_ASSERT(cu().cuDeviceGraphMemTrim(0));
  run(executable);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphExecDestroy(executable));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(graph));
  CU_EXPECT(CUDA_SUCCESS, cu().cuDeviceGraphMemTrim(0));
}

TEST_F(ExecutableGraph, TakesAnotherGraphForOneInANode) {
  const Buffer in(kCount);
  const Buffer first(kCount);
  const Buffer second(kCount);
  const Stream stream;
  CU_ASSERT(fill(stream.get(), in.address(), 47, kCount));
  CU_ASSERT(fill(stream.get(), second.address(), 0, kCount));
  CU_ASSERT(cu().cuStreamSynchronize(stream.get()));
  const auto copy_to = [&](const Buffer& out) {
    return capture([&](CUstream captured) {
      return copy_words(captured, out.address(), in.address(), kCount);
    });
  };
  CUgraph outer = nullptr;
  CUgraphNode node = nullptr;
  CU_ASSERT(cu().cuGraphCreate(&outer, 0));
  CU_ASSERT(cu().cuGraphAddChildGraphNode(&node, outer, nullptr, 0, copy_to(first)));
  CUgraphExec executable = nullptr;
  CU_ASSERT(cu().cuGraphInstantiateWithFlags(&executable, outer, 0));
  CU_ASSERT(cu().cuGraphExecChildGraphNodeSetParams(executable, node, copy_to(second)));
  run(executable);
  EXPECT_EQ(word_at(second.address()), 47U);
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphExecDestroy(executable));
  CU_EXPECT(CUDA_SUCCESS, cu().cuGraphDestroy(outer));
}

}  // namespace
}  // namespace conformance
