#include "interposer/graphs/graph_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CUgraphNode graph_node(std::uintptr_t number) {
  return reinterpret_cast<CUgraphNode>(number);  // NOLINT(performance-no-int-to-ptr): a handle
}

TEST(GraphWords, AreThoseOfAllNodesEachOnce) {
  GraphWords words;
  words.set(graph_node(1), {30, 10});
  words.set(graph_node(2), {10, 20});
  EXPECT_THAT(words.all(), ElementsAre(10, 20, 30));
}

TEST(GraphWords, ANodeThatIsSetAgainNamesNothingThatItNamedBefore) {
  GraphWords words;
  words.set(graph_node(1), {10});
  words.set(graph_node(1), {20});
  EXPECT_THAT(words.all(), ElementsAre(20));
  words.set(graph_node(1), {});
  EXPECT_THAT(words.all(), IsEmpty());
}

TEST(GraphWords, IncludeThoseOfGraphsInNodes) {
  GraphWords inner;
  inner.set(graph_node(11), {40});
  GraphWords middle;
  middle.set_child(graph_node(12), std::move(inner));
  GraphWords outer;
  outer.set(graph_node(1), {10});
  outer.set_child(graph_node(2), std::move(middle));
  EXPECT_THAT(outer.all(), ElementsAre(10, 40));
  outer.set(graph_node(11), {50});  // a node of the innermost
  EXPECT_THAT(outer.all(), ElementsAre(10, 50));
  GraphWords other;
  other.set(graph_node(13), {60});
  outer.set_child(graph_node(12), std::move(other));  // the graph of a node of the middle one
  EXPECT_THAT(outer.all(), ElementsAre(10, 60));
  outer.set_child(graph_node(2), GraphWords());
  EXPECT_THAT(outer.all(), ElementsAre(10));
}

TEST(GraphWords, KeepWhatAnyNodeMayName) {
  GraphWords words;
  words.set(graph_node(1), {10});
  words.add({20});
  words.add({30});
  words.set(graph_node(1), {11});
  EXPECT_THAT(words.all(), ElementsAre(11, 20, 30));
}

}  // namespace
}  // namespace superpipe
