#include "interposer/graphs/executable_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

template <typename Handle>
Handle made_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);  // NOLINT(performance-no-int-to-ptr): a handle
}
auto* const kMadeGraph = made_handle<CUgraphExec>(1);
auto* const kMadeNode = made_handle<CUgraphNode>(2);

GraphWords naming(CUgraphNode node, std::uint64_t word) {
  GraphWords words;
  words.set(node, {word});
  return words;
}

class ExecutableGraphsTest : public ::testing::Test {
 protected:
  GraphWords::Words words() {
    const auto launch = graphs_.find(kMadeGraph);
    return launch.words == nullptr ? GraphWords::Words{} : *launch.words;
  }

  ExecutableGraphs graphs_;
};

TEST_F(ExecutableGraphsTest, KnowAGraphFromItsInstantiationToItsEnd) {
  EXPECT_EQ(graphs_.find(kMadeGraph).words, nullptr);
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 10), 1);
  EXPECT_THAT(words(), ElementsAre(10));
  graphs_.destroyed(kMadeGraph);
  EXPECT_EQ(graphs_.find(kMadeGraph).words, nullptr);
}

TEST_F(ExecutableGraphsTest, AHandleThatComesAgainIsAnotherGraph) {
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 10), 1);
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 20), 1);
  EXPECT_THAT(words(), ElementsAre(20));
}

TEST_F(ExecutableGraphsTest, FollowChangesOfNodes) {
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 10), 1);
  EXPECT_THAT(words(), ElementsAre(10));
  graphs_.node_changed(kMadeGraph, kMadeNode, {20, 30});
  EXPECT_THAT(words(), ElementsAre(20, 30));
  graphs_.child_changed(kMadeGraph, made_handle<CUgraphNode>(3),
                        naming(made_handle<CUgraphNode>(4), 40));
  EXPECT_THAT(words(), ElementsAre(20, 30, 40));
}

TEST_F(ExecutableGraphsTest, FollowAnUpdateAndKeepBothWhereItFailed) {
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 10), 1);
  graphs_.updated(kMadeGraph, naming(made_handle<CUgraphNode>(5), 20), /*failed=*/false);
  EXPECT_THAT(words(), ElementsAre(20));
  graphs_.updated(kMadeGraph, naming(made_handle<CUgraphNode>(6), 30), /*failed=*/true);
  graphs_.updated(kMadeGraph, naming(made_handle<CUgraphNode>(6), 40), /*failed=*/true);
  EXPECT_THAT(words(), ElementsAre(20, 30, 40));
}

TEST_F(ExecutableGraphsTest, TellWhatAGraphIsYetToTakeForItsAllocations) {
  graphs_.instantiated(kMadeGraph, GraphWords{}, 1, ExecutableGraphs::Launcher::kHost, 6_MiB);
  EXPECT_EQ(graphs_.find(kMadeGraph).takes, 6_MiB) << "though it names no buffer";
  graphs_.backed(kMadeGraph);
  EXPECT_EQ(graphs_.find(kMadeGraph).takes, Bytes{});
  graphs_.updated(kMadeGraph, naming(kMadeNode, 10), /*failed=*/false, 6_MiB);
  EXPECT_EQ(graphs_.find(kMadeGraph).takes, Bytes{});
  graphs_.trimmed();
  EXPECT_EQ(graphs_.find(kMadeGraph).takes, 6_MiB);
  graphs_.backed(kMadeGraph);
  graphs_.updated(kMadeGraph, naming(kMadeNode, 10), /*failed=*/false, 8_MiB);
  EXPECT_EQ(graphs_.find(kMadeGraph).takes, 8_MiB);
}

TEST_F(ExecutableGraphsTest, LearnOfAGraphThatWasMadeBefore) {
  graphs_.node_changed(kMadeGraph, kMadeNode, {});
  EXPECT_EQ(graphs_.find(kMadeGraph).words, nullptr);
  graphs_.node_changed(kMadeGraph, kMadeNode, {10});
  EXPECT_THAT(words(), ElementsAre(10));
}

TEST_F(ExecutableGraphsTest, GiveLaunchesOfTheSameSizeTheSameName) {
  graphs_.instantiated(kMadeGraph, naming(kMadeNode, 10), 12);
  const KernelId id = graphs_.find(kMadeGraph).id;
  EXPECT_THAT(graphs_.name_of(id), Optional(std::string("<CUDA graph of 12 nodes>")));
  graphs_.destroyed(kMadeGraph);
  graphs_.instantiated(made_handle<CUgraphExec>(7), naming(kMadeNode, 10), 12);
  EXPECT_EQ(graphs_.find(made_handle<CUgraphExec>(7)).id, id);
  EXPECT_EQ(graphs_.name_of(KernelId{1}), std::nullopt);
}

}  // namespace
}  // namespace superpipe
