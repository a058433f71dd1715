// Graphs over the null driver: what is read of them, and when their buffers are used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "interposer/graphs/graph_reader.h"
#include "profiler/trace_reader.h"
#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Handle>
Handle fake_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);  // NOLINT(performance-no-int-to-ptr): a handle
}
auto* const kFakeGraph = fake_handle<CUgraph>(0x100);
auto* const kExecutable = fake_handle<CUgraphExec>(0x200);
auto* const kGraphStream = fake_handle<CUstream>(0x5550);

/// A graph as the driver would tell of it.
struct FakeNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::array<CUdeviceptr, 2> parameters{};
  std::array<void*, 2> pointers{};
  CUgraph child = nullptr;
  bool device_updatable = false;
};
std::map<CUgraph, std::vector<CUgraphNode>> fake_graphs;
std::map<CUgraphNode, FakeNode> fake_nodes;

CUgraphNode add(CUgraph graph, const FakeNode& node) {
  auto* const made = fake_handle<CUgraphNode>(0x1000 + fake_nodes.size());
  FakeNode& kept = fake_nodes[made];
  kept = node;
  kept.pointers = {&kept.parameters[0], &kept.parameters[1]};
  fake_graphs[graph].push_back(made);
  return made;
}

class GraphHooksTest : public testing::BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    fake_graphs.clear();
    fake_nodes.clear();
    auto& table = driver_table;
    table.cuGraphGetNodes = [](CUgraph graph, CUgraphNode* found, std::size_t* count) {
      const auto& known = fake_graphs[graph];
      if (found != nullptr) std::copy(known.begin(), known.end(), found);
      *count = known.size();
      return CUDA_SUCCESS;
    };
    table.cuGraphNodeGetType = [](CUgraphNode node, CUgraphNodeType* type) {
      *type = fake_nodes[node].type;
      return CUDA_SUCCESS;
    };
    table.cuGraphKernelNodeGetParams_v2 = [](CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* told) {
      told->func = testing::null_kernel(1);
      told->kernelParams = fake_nodes[node].pointers.data();
      return CUDA_SUCCESS;
    };
    table.cuGraphKernelNodeGetAttribute = [](CUgraphNode node, CUlaunchAttributeID,
                                             CUlaunchAttributeValue* value) {
      value->deviceUpdatableKernelNode.deviceUpdatable = fake_nodes[node].device_updatable ? 1 : 0;
      return CUDA_SUCCESS;
    };
    table.cuGraphMemsetNodeGetParams = [](CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1* told) {
      told->dst = fake_nodes[node].parameters[0];
      return CUDA_SUCCESS;
    };
    table.cuGraphMemcpyNodeGetParams = [](CUgraphNode, CUDA_MEMCPY3D*) {
      return CUDA_ERROR_NOT_SUPPORTED;
    };
    table.cuGraphChildGraphNodeGetGraph = [](CUgraphNode node, CUgraph* child) {
      *child = fake_nodes[node].child;
      return CUDA_SUCCESS;
    };
    table.cuGraphInstantiateWithFlags = [](CUgraphExec* executable, CUgraph, unsigned long long) {
      *executable = kExecutable;
      return CUDA_SUCCESS;
    };
    table.cuGraphExecDestroy = [](CUgraphExec) { return CUDA_SUCCESS; };
    table.cuGraphExecKernelNodeSetParams_v2 =
        [](CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*) { return CUDA_SUCCESS; };
    table.cuGraphLaunch = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  }

  static FakeNode kernel(CUdeviceptr first, CUdeviceptr second) {
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_KERNEL;
    node.parameters = {first, second};
    return node;
  }
  static CUresult instantiate(unsigned long long flags = 0) {
    CUgraphExec executable = nullptr;
    return hook::cuGraphInstantiateWithFlags(&executable, kFakeGraph, flags);
  }
  static std::uint64_t accesses() {
    return ContextRegistry::managed()->residency().stats().accesses;
  }
  /// How many buffers a launch of the graph uses.
  static std::uint64_t used() {
    const std::uint64_t before = accesses();
    EXPECT_EQ(hook::cuGraphLaunch(kExecutable, kGraphStream), CUDA_SUCCESS);
    return accesses() - before;
  }
  /// Whether the buffer could not leave the device if all others came.
  bool stays(CUdeviceptr buffer) {
    const std::vector<CUdeviceptr> others = use_others_after(buffer);
    const std::uint64_t before = fetches();
    launch(testing::null_kernel(1), buffer, 0);
    const bool stayed = fetches() == before;
    for (const CUdeviceptr other : others) hook::cuMemFree_v2(other);
    return stayed;
  }
  /// Launches name the buffer, and then others that leave it no room.
  static std::vector<CUdeviceptr> use_others_after(CUdeviceptr buffer) {
    launch(testing::null_kernel(1), buffer, 0);  // which writes it
    std::vector<CUdeviceptr> others;
    for (int i = 0; i < 40; ++i) others.push_back(allocate(2 << 20));
    for (const CUdeviceptr other : others) launch(testing::null_kernel(1), other, 0);
    return others;
  }
  static std::uint64_t pinned() {
    return ContextRegistry::managed()->residency().stats().pinned_buffers;
  }
  static std::uint64_t fetches() {
    const auto stats = ContextRegistry::managed()->residency().stats();
    return stats.demand_fetches + stats.prefetches;
  }
};

TEST_F(GraphHooksTest, ALaunchUsesWhatTheNodesName) {
  add(kFakeGraph, kernel(buffer_, 0));
  FakeNode fill;
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.parameters = {other_, 0};
  add(kFakeGraph, fill);
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(used(), 2U);
}

TEST_F(GraphHooksTest, ALaunchUsesWhatGraphsInNodesName) {
  auto* const inner = fake_handle<CUgraph>(0x101);
  add(inner, kernel(buffer_, other_));
  FakeNode parent;
  parent.type = CU_GRAPH_NODE_TYPE_GRAPH;
  parent.child = inner;
  add(kFakeGraph, parent);
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(used(), 2U);
}

TEST_F(GraphHooksTest, ALaunchUsesWhatANodeWasGivenSince) {
  const CUgraphNode node = add(kFakeGraph, kernel(buffer_, other_));
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  CUdeviceptr first = buffer_;
  CUdeviceptr none = 0;
  void* parameters[] = {&first, &none};
  CUDA_KERNEL_NODE_PARAMS changed{};
  changed.func = testing::null_kernel(1);
  changed.kernelParams = parameters;
  ASSERT_EQ(hook::cuGraphExecKernelNodeSetParams_v2(kExecutable, node, &changed), CUDA_SUCCESS);
  EXPECT_EQ(used(), 1U);
  driver_table.cuGraphExecKernelNodeSetParams_v2 = [](CUgraphExec, CUgraphNode,
                                                      const CUDA_KERNEL_NODE_PARAMS*) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  first = none;
  EXPECT_EQ(hook::cuGraphExecKernelNodeSetParams_v2(kExecutable, node, &changed),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(used(), 1U) << "the driver has refused to change it";
}

TEST_F(GraphHooksTest, AGraphThatIsDestroyedUsesNothing) {
  add(kFakeGraph, kernel(buffer_, other_));
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  ASSERT_EQ(hook::cuGraphExecDestroy(kExecutable), CUDA_SUCCESS);
  EXPECT_EQ(used(), 0U);
}

TEST_F(GraphHooksTest, AGraphThatTheDriverRefusesIsNotRemembered) {
  add(kFakeGraph, kernel(buffer_, other_));
  driver_table.cuGraphInstantiateWithFlags = [](CUgraphExec*, CUgraph, unsigned long long) {
    return CUDA_ERROR_INVALID_VALUE;
  };
  EXPECT_EQ(instantiate(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(used(), 0U);
}

TEST_F(GraphHooksTest, BuffersMayLeaveBetweenLaunches) {
  add(kFakeGraph, kernel(buffer_, 0));
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  EXPECT_FALSE(stays(buffer_));
}

// Drivers look the addresses of copies and fills up when they take a node.
TEST_F(GraphHooksTest, WhatAFillNamesIsThereWhenTheDriverTakesItsNode) {
  use_others_after(buffer_);
  FakeNode fill;
  fill.type = CU_GRAPH_NODE_TYPE_MEMSET;
  fill.parameters = {buffer_, 0};
  add(kFakeGraph, fill);
  static std::uint64_t before;
  before = fetches();
  driver_table.cuGraphInstantiateWithFlags = [](CUgraphExec* executable, CUgraph,
                                                unsigned long long) {
    EXPECT_EQ(fetches(), before + 1);
    *executable = kExecutable;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(instantiate(), CUDA_SUCCESS);
}

TEST_F(GraphHooksTest, WhatDeviceCodeMayLaunchStays) {
  add(kFakeGraph, kernel(buffer_, 0));
  ASSERT_EQ(instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_SUCCESS);
  EXPECT_TRUE(stays(buffer_));
}

TEST_F(GraphHooksTest, WhatDeviceCodeMayLaunchStaysAfterAChange) {
  const CUgraphNode node = add(kFakeGraph, kernel(buffer_, 0));
  ASSERT_EQ(instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_SUCCESS);
  EXPECT_FALSE(stays(other_));
  void* parameters[] = {&other_, &other_};
  CUDA_KERNEL_NODE_PARAMS changed{};
  changed.func = testing::null_kernel(1);
  changed.kernelParams = parameters;
  driver_table.cuGraphExecKernelNodeSetParams_v2 = [](CUgraphExec, CUgraphNode,
                                                      const CUDA_KERNEL_NODE_PARAMS*) {
    EXPECT_EQ(pinned(), 2U) << "device code may launch it at once";
    return CUDA_SUCCESS;
  };
  ASSERT_EQ(hook::cuGraphExecKernelNodeSetParams_v2(kExecutable, node, &changed), CUDA_SUCCESS);
  EXPECT_TRUE(stays(other_));
}

TEST_F(GraphHooksTest, WhatWasCapturedStaysIfANodeDoesNotTellWhatItUses) {
  testing::set_captured_stream(kGraphStream);
  ASSERT_EQ(hook::cuStreamBeginCapture_v2(kGraphStream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  ASSERT_EQ(launch(testing::null_kernel(1), buffer_, 0, kGraphStream), CUDA_SUCCESS);
  testing::set_captured_stream(nullptr);
  CUgraph graph = nullptr;
  ASSERT_EQ(hook::cuStreamEndCapture(kGraphStream, &graph), CUDA_SUCCESS);
  EXPECT_FALSE(stays(buffer_)) << "as long as nothing says otherwise";
  FakeNode silent;
  silent.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  add(kFakeGraph, silent);
  ASSERT_EQ(instantiate(), CUDA_SUCCESS);
  EXPECT_TRUE(stays(buffer_));
  EXPECT_FALSE(stays(other_)) << "it was never captured";
  EXPECT_EQ(used(), 1U) << "or what comes to lie there later would not be used";
}

TEST_F(GraphHooksTest, ReadsWhetherItIsComplete) {
  ManagedContext& managed = *ContextRegistry::managed();
  const CUgraphNode node = add(kFakeGraph, kernel(buffer_, 0));
  ReadGraph read = read_graph(managed, kFakeGraph);
  EXPECT_TRUE(read.complete);
  EXPECT_EQ(read.nodes, 1U);
  EXPECT_THAT(read.words.all(), ElementsAre(buffer_));
  EXPECT_THAT(read.checked, IsEmpty());
  fake_nodes[node].device_updatable = true;
  EXPECT_FALSE(read_graph(managed, kFakeGraph).complete) << "device code may change it";
  fake_nodes[node].device_updatable = false;
  fake_nodes[node].type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  EXPECT_FALSE(read_graph(managed, kFakeGraph).complete) << "its graphs are not told";
  fake_nodes[node].type = CU_GRAPH_NODE_TYPE_MEMSET;
  EXPECT_THAT(read_graph(managed, kFakeGraph).checked, ElementsAre(buffer_));
}

/// Graphs whose one node allocates, of which the driver takes memory at the first launch.
class GraphAllocationHooksTest : public GraphHooksTest {
 protected:
  void SetUp() override {
    GraphHooksTest::SetUp();
    launches_refused = launches_asked = 0;
    driver().cuGraphMemAllocNodeGetParams = [](CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS* told) {
      told->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      told->bytesize = (4_MiB).count();
      told->dptr = 0x7700;
      return CUDA_SUCCESS;
    };
    driver().cuGraphLaunch = [](CUgraphExec, CUstream) {
      return ++launches_asked <= launches_refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    };
    FakeNode allocation;
    allocation.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    add(kFakeGraph, allocation);
    add(kFakeGraph, kernel(buffer_, 0));
    // Which leaves pages to give back.
    launch(testing::null_kernel(1), allocate((8_MiB).count()), other_);
    EXPECT_EQ(instantiate(), CUDA_SUCCESS);
  }
  static inline int launches_refused = 0;
  static inline int launches_asked = 0;
};

TEST_F(GraphAllocationHooksTest, ALaunchThatIsAskedForTwiceIsOneLaunch) {
  launches_refused = 1;
  EXPECT_EQ(used(), 1U);
  EXPECT_EQ(launches_asked, 2);
}

TEST_F(GraphAllocationHooksTest, ALaunchIsAskedForTwiceAtMost) {
  launches_refused = 3;
  EXPECT_EQ(hook::cuGraphLaunch(kExecutable, kGraphStream), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(launches_asked, 2);
}

class TracedGraphHooksTest : public GraphHooksTest {
 protected:
  void configure(Configuration& configuration) override {
    GraphHooksTest::configure(configuration);
    configuration.trace_file = file_;
  }
  ~TracedGraphHooksTest() override { std::filesystem::remove(file_); }

  const std::string file_ =
      ::testing::TempDir() + "graph_hooks_test." + std::to_string(::getpid()) + ".sptrace";
};

TEST_F(TracedGraphHooksTest, ALaunchThatTheDriverHoldsUpIsAWait) {
  class GraphWaits : public TraceVisitor {
   public:
    void on_wait(const TraceMoment&, const TraceWait& event) override {
      if (event.what == TraceWait::kLaunch && event.duration_ns >= 20'000'000) ++waits;
    }
    int waits = 0;
  } told;
  driver().cuGraphLaunch = [](CUgraphExec, CUstream) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return CUDA_SUCCESS;
  };
  add(kFakeGraph, kernel(buffer_, other_));
  EXPECT_EQ(instantiate(), CUDA_SUCCESS);
  EXPECT_EQ(used(), 2U);
  auto* const kOfNoBuffers = fake_handle<CUgraphExec>(0x201);
  EXPECT_EQ(hook::cuGraphLaunch(kOfNoBuffers, kGraphStream), CUDA_SUCCESS);
  ContextRegistry::managed()->finish_trace();
  auto reader = TraceReader::open(file_);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->read_all(told), std::nullopt);
  EXPECT_GE(told.waits, 2) << "the machine may stop for as long, too";
}

}  // namespace
}  // namespace superpipe
