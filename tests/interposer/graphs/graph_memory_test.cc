// Host memory runs out while an executable graph is changed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/interposer/managed_fixture.h"
#include "tests/residency/allocation_faults.h"

namespace superpipe::testing {
namespace {

auto* const kFilled = reinterpret_cast<CUgraphExec>(0x200);
auto* const kFill = reinterpret_cast<CUgraphNode>(0x300);

/// What the one node of every graph fills, for the driver.
CUdeviceptr filled = 0;
bool was_changed = false;

class GraphMemoryTest : public BudgetFixture {
 protected:
  void SetUp() override {
    BudgetFixture::SetUp();
    driver().cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
      if (nodes != nullptr) *nodes = kFill;
      *count = 1;
      return CUDA_SUCCESS;
    };
    driver().cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
      *type = CU_GRAPH_NODE_TYPE_MEMSET;
      return CUDA_SUCCESS;
    };
    driver().cuGraphMemsetNodeGetParams = [](CUgraphNode, CUDA_MEMSET_NODE_PARAMS_v1* told) {
      told->dst = filled;
      return CUDA_SUCCESS;
    };
    driver().cuGraphInstantiateWithFlags = [](CUgraphExec* made, CUgraph, unsigned long long) {
      *made = kFilled;
      return CUDA_SUCCESS;
    };
    driver().cuGraphExecUpdate_v2 = [](CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) {
      was_changed = true;
      return CUDA_SUCCESS;
    };
    driver().cuGraphExecChildGraphNodeSetParams = [](CUgraphExec, CUgraphNode, CUgraph) {
      was_changed = true;
      return CUDA_SUCCESS;
    };
    driver().cuGraphExecMemsetNodeSetParams = [](CUgraphExec, CUgraphNode,
                                                 const CUDA_MEMSET_NODE_PARAMS*, CUcontext) {
      was_changed = true;
      return CUDA_SUCCESS;
    };
    driver().cuGraphLaunch = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  }

  /// Has the graph fill `other_` instead of `buffer_` by `change`, each time with another
  /// allocation that fails, until none does. A launch must never use less than the driver's graph.
  /// @return how often launches were refused.
  template <typename Change>
  int change_with_failures(const Change& change) {
    int refused = 0;
    AllocationFaults& faults = AllocationFaults::mine();
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (std::uint64_t first = 1; result != CUDA_SUCCESS; ++first) {
      if (first > 1000) return -1;
      filled = buffer_;
      was_changed = false;
      CUgraphExec made = nullptr;
      EXPECT_EQ(hook::cuGraphInstantiateWithFlags(&made, nullptr, 0), CUDA_SUCCESS);
      filled = other_;
      faults.count = 0;
      faults.first = first;
      faults.how_many = 1;
      {
        const Arming arming(1);
        result = change();
      }
      faults.first = 0;
      const auto launch = ContextRegistry::managed()->graphs().find(kFilled);
      const CUresult launched = hook::cuGraphLaunch(kFilled, nullptr);
      if (!launch.is_known) {
        ++refused;
        EXPECT_EQ(launched, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        // A change of something else does not make up for it.
        (void)change_nothing();
        EXPECT_FALSE(ContextRegistry::managed()->graphs().find(kFilled).is_known);
        continue;
      }
      EXPECT_EQ(launched, CUDA_SUCCESS);
      if (launch.words == nullptr) return -1;
      EXPECT_TRUE(!was_changed || std::ranges::count(*launch.words, other_) == 1) << first;
      EXPECT_TRUE(was_changed || std::ranges::count(*launch.words, buffer_) == 1) << first;
    }
    return refused;
  }
  CUresult fill_by(CUgraphNode node) {
    CUDA_MEMSET_NODE_PARAMS fill{};
    fill.dst = other_;
    return hook::cuGraphExecMemsetNodeSetParams(kFilled, node, &fill, nullptr);
  }
  CUresult change_nothing() {
    const CUDA_MEMSET_NODE_PARAMS fill{};
    return hook::cuGraphExecMemsetNodeSetParams(kFilled, reinterpret_cast<CUgraphNode>(0x310),
                                                &fill, nullptr);
  }
};

// What was read of the other graph is not copied any more.
TEST_F(GraphMemoryTest, AGraphThatIsUpdatedIsKnown) {
  EXPECT_EQ(
      change_with_failures([] { return hook::cuGraphExecUpdate_v2(kFilled, nullptr, nullptr); }),
      0);
}

TEST_F(GraphMemoryTest, AGraphWhoseChildWasChangedUnnotedIsNotLaunched) {
  EXPECT_GT(change_with_failures(
                [] { return hook::cuGraphExecChildGraphNodeSetParams(kFilled, kFill, nullptr); }),
            0);
}

TEST_F(GraphMemoryTest, AGraphWhoseNodeWasChangedUnnotedIsNotLaunched) {
  EXPECT_GT(change_with_failures([this] { return fill_by(reinterpret_cast<CUgraphNode>(0x320)); }),
            0);
}

}  // namespace
}  // namespace superpipe::testing
