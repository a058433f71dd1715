#include "policy/layer_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/policy/programs.h"

namespace superpipe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Change = LayerFinder::Change;

/// A finder with what it is told of, and what launches changed.
class LayerFinderTest : public ::testing::Test {
 protected:
  void allocate(BufferId id, Bytes footprint) {
    history_.on_allocate(id, footprint);
    replay_.on_allocate(id, footprint);
    finder_.on_allocate(footprint);
  }
  void free(BufferId id) {
    finder_.on_free(id, history_.footprint_of(id));
    history_.on_free(id);
    replay_.on_free(id);
  }
  void launch(KernelId kernel, const std::vector<BufferId>& buffers) {
    replay_.on_launch(kernel, buffers, 0);
    const Bytes need = history_.on_launch(buffers);
    const Change change = finder_.on_launch(replay_, history_, need);
    if (change != Change::kNothing) changes_.push_back(change);
  }
  void load(const Program& program) {
    for (std::uint32_t id = 0; id < program.footprints.size(); ++id) {
      allocate(BufferId{id}, program.footprints[id]);
    }
  }
  void run(const Program& program, int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      for (const ScriptLaunch& one : program.pass) launch(one.kernel, one.buffers);
    }
  }

  LayerFinder finder_;
  std::vector<Change> changes_;

 private:
  BufferHistory history_;
  StreamReplays replay_;
};

TEST_F(LayerFinderTest, FindsTheLayersOfThePassAfterTheFirst) {
  const Program program = forward_program(8);
  load(program);
  run(program, 2);
  EXPECT_THAT(changes_, IsEmpty());
  EXPECT_EQ(finder_.count(), 0U);
  run(program, 1);
  EXPECT_THAT(changes_, ElementsAre(Change::kFound));
  EXPECT_THAT(finder_.bytes(), SizeIs(8));
  EXPECT_THAT(finder_.bytes(), Each(16_MiB));
  EXPECT_EQ(finder_.besides(), 2_MiB);
  for (std::uint32_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(finder_.layer_of(BufferId{2 + layer}), layer) << "in the program's own order";
    EXPECT_EQ(finder_.order().visits[layer].layer, layer);
  }
  EXPECT_EQ(finder_.layer_of(BufferId{0}), kNoLayer);
}

TEST_F(LayerFinderTest, LooksLessAndLessOftenAndSaysWhetherLayersAreOthers) {
  const Program program = forward_program(8);
  load(program);
  run(program, 65);
  ASSERT_THAT(changes_, ::testing::Not(IsEmpty()));
  EXPECT_EQ(changes_.front(), Change::kFound);
  changes_.erase(changes_.begin());
  EXPECT_THAT(changes_, ::testing::Not(IsEmpty()));
  EXPECT_THAT(changes_, Each(Change::kConfirmed));
  EXPECT_LE(changes_.size(), 12U);
}

// Each layer of the first pass is taken for a pass by the replay, and its weights are new.
TEST_F(LayerFinderTest, TakesNoLayerOfTheFirstPassForThePass) {
  const Program program = llama_program(12);
  load(program);
  run(program, 2);
  EXPECT_THAT(changes_, IsEmpty());
  run(program, 1);
  EXPECT_THAT(changes_, ElementsAre(Change::kFound));
  EXPECT_THAT(finder_.bytes(), SizeIs(12));
  EXPECT_EQ(finder_.bytes().front(), 250_MiB + 388_MiB) << "the embedding, and the first layer";
}

// A long phase without passes, or with other ones, comes first.
TEST_F(LayerFinderTest, FindsLayersSoonAfterManySmallPasses) {
  const Program program = forward_program(8);
  load(program);
  for (std::uint32_t id = 100; id < 103; ++id) allocate(BufferId{id}, 1_MiB);
  for (std::uint32_t at = 0; at < 3000; ++at) launch(KernelId{50}, {BufferId{100 + at % 3}});
  ASSERT_EQ(finder_.count(), 3U);
  run(program, 12);
  EXPECT_EQ(finder_.count(), 8U);
}

TEST_F(LayerFinderTest, TakesBuffersThatAreGoneOutOfTheOrder) {
  const Program program = forward_program(4);
  load(program);
  run(program, 4);
  ASSERT_EQ(finder_.count(), 4U);
  EXPECT_EQ(finder_.gone(), 0U);
  free(BufferId{3});
  free(BufferId{0});
  EXPECT_EQ(finder_.gone(), 1U) << "the other is in no layer";
  finder_.drop_gone();
  EXPECT_THAT(finder_.order().layers[1], IsEmpty());
  EXPECT_EQ(finder_.layer_of(BufferId{3}), kNoLayer);
  allocate(BufferId{3}, 1_MiB);
  EXPECT_EQ(finder_.layer_of(BufferId{3}), kNoLayer) << "another one";
  EXPECT_THAT(finder_.bytes(), Each(16_MiB)) << "as they were found";
}

TEST_F(LayerFinderTest, ForgetsLayersOfWhichMostIsGone) {
  const Program program = forward_program(4);
  load(program);
  run(program, 4);
  for (std::uint32_t id = 2; id < 5; ++id) free(BufferId{id});
  allocate(BufferId{9}, 1_MiB);
  allocate(BufferId{10}, 1_MiB);
  allocate(BufferId{11}, 1_MiB);
  changes_.clear();
  for (std::uint32_t at = 0; at < 16; ++at) launch(KernelId{7}, {BufferId{9 + at % 3}});
  ASSERT_GE(changes_.size(), 2U);
  changes_.resize(2);
  EXPECT_THAT(changes_, ElementsAre(Change::kForgotten, Change::kFound));
  EXPECT_EQ(finder_.count(), 3U);
}

TEST_F(LayerFinderTest, NeedsMoreWhileThereAreFewerLayers) {
  EXPECT_EQ(finder_.need_of(4, 0, Bytes{}), Bytes{});
  const Program program = forward_program(4);
  load(program);
  EXPECT_EQ(finder_.need_of(4, 0, Bytes{}), 4 * 16_MiB) << "of the largest buffer";
  run(program, 4);
  EXPECT_EQ(finder_.need_of(2, 2, 32_MiB), 34_MiB) << "and what is in no layer";
  EXPECT_EQ(finder_.need_of(6, 4, 64_MiB), 6 * 18_MiB) << "of the largest launch";
  launch(KernelId{1}, {BufferId{2}, BufferId{3}, BufferId{4}});
  EXPECT_EQ(finder_.need_of(2, 2, 32_MiB), 48_MiB) << "a launch has to run";
}

TEST_F(LayerFinderTest, TellsNothingWhereItKnowsNone) {
  PolicyEngine::Learned learned;
  finder_.tell(learned);
  EXPECT_FALSE(learned.layers_known);
  const Program program = forward_program(4);
  load(program);
  run(program, 4);
  finder_.tell(learned);
  EXPECT_TRUE(learned.layers_known);
  EXPECT_THAT(learned.layer_bytes, SizeIs(4));
  EXPECT_EQ(learned.largest_piece, 16_MiB);
}

}  // namespace
}  // namespace superpipe
