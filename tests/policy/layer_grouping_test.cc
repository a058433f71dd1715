#include "policy/layer_grouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/policy/programs.h"
#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

LayerGroups group(const Program& program, bool transients_too = true) {
  std::vector<LaunchRecord> pass;
  for (const ScriptLaunch& launch : program.pass) pass.push_back({launch.kernel, launch.buffers});
  std::vector<Bytes> footprints = program.footprints;
  for (std::uint32_t id = 0; id < footprints.size(); ++id) {
    if (!transients_too && program.host_written.count(id) == 0) footprints[id] = Bytes{};
  }
  return group_layers(pass, footprints);
}

TEST(FindTandemRepeat, FindsTheLargestCoverage) {
  const std::vector<std::uint64_t> tokens = {5, 5, 9, 1, 2, 2, 1, 2, 2, 1, 2, 2, 7};
  const auto repeat = find_tandem_repeat(tokens);
  ASSERT_TRUE(repeat.has_value());
  EXPECT_EQ(repeat->begin, 3U);
  EXPECT_EQ(repeat->period, 3U);
  EXPECT_EQ(repeat->count, 3U);
}

TEST(FindTandemRepeat, PrefersTheSmallestPeriodOnATie) {
  const std::vector<std::uint64_t> tokens = {1, 2, 1, 2, 1, 2, 1, 2};
  const auto repeat = find_tandem_repeat(tokens);
  ASSERT_TRUE(repeat.has_value());
  EXPECT_EQ(repeat->period, 2U);
  EXPECT_EQ(repeat->count, 4U);
}

TEST(FindTandemRepeat, FindsNoneWhenNothingIsRepeated) {
  const std::vector<std::uint64_t> tokens = {1, 2, 3, 1, 4, 5};
  EXPECT_EQ(find_tandem_repeat(tokens), std::nullopt);
  EXPECT_EQ(find_tandem_repeat({}), std::nullopt);
}

RC_GTEST_PROP(FindTandemRepeat, FindsWhatWasPlantedAndNothingFalse, ()) {
  const auto block = *rc::gen::nonEmpty(
      rc::gen::unique<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 50)));
  const auto count = *rc::gen::inRange<std::size_t>(2, 9);
  const auto before = *rc::gen::inRange<std::uint64_t>(0, 20);
  const auto after = *rc::gen::inRange<std::uint64_t>(0, 20);
  std::vector<std::uint64_t> tokens;
  for (std::uint64_t at = 0; at < before; ++at) tokens.push_back(100 + at);
  for (std::size_t copy = 0; copy < count; ++copy) {
    tokens.insert(tokens.end(), block.begin(), block.end());
  }
  for (std::uint64_t at = 0; at < after; ++at) tokens.push_back(200 + at);
  const auto repeat = find_tandem_repeat(tokens);
  RC_ASSERT(repeat.has_value());
  RC_ASSERT(repeat->begin == before);
  RC_ASSERT(repeat->period == block.size());
  RC_ASSERT(repeat->count == count);
}

TEST(GroupLayers, FindsThirtyTwoLayersOfNineBuffersWhenLlamaLike) {
  const LayerGroups groups = group(llama_program(32));
  ASSERT_THAT(groups.layers, SizeIs(32));
  EXPECT_THAT(groups.layers.front(), SizeIs(1 + 9)) << "with the embedding";
  EXPECT_EQ(groups.layers.front().front(), BufferId{2});
  for (std::size_t layer = 1; layer < 31; ++layer) EXPECT_THAT(groups.layers[layer], SizeIs(9));
  EXPECT_THAT(groups.layers.back(), SizeIs(9 + 2)) << "with the last norm and the head";
  EXPECT_THAT(groups.shared, ElementsAre(BufferId{0}, BufferId{1}));
}

TEST(GroupLayers, FindsTheSameLayersWithoutTransients) {
  const LayerGroups groups = group(llama_program(32), false);
  EXPECT_THAT(groups.layers, SizeIs(32));
  EXPECT_THAT(groups.shared, IsEmpty());
}

// A norm between two stacks is a part of the first, and three blocks that are like no other are
// layers, which are no larger than the others.
TEST(GroupLayers, MakesLayersOfWhatLiesBetweenStacksUnlessThatIsLittle) {
  Program program;
  const auto stack = [&program](std::uint64_t kernel) {
    for (int i = 0; i < 6; ++i) {
      program.launch(kernel, {program.add(4_MiB)});
      program.launch(kernel + 1, {program.add(8_MiB)});
    }
  };
  stack(1);
  program.launch(9, {program.add(1_MiB)});
  stack(3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    program.launch(20 + i, {program.add(6_MiB), program.add(Bytes{(1 + i) << 20})});
  }
  stack(5);
  const LayerGroups groups = group(program);
  ASSERT_THAT(groups.layers, SizeIs(6 + 6 + 3 + 6));
  EXPECT_THAT(groups.layers[5], SizeIs(2 + 1));
  for (std::size_t layer = 12; layer < 15; ++layer) EXPECT_THAT(groups.layers[layer], SizeIs(2));
  EXPECT_THAT(groups.layers[15], SizeIs(2));
}

TEST(GroupLayers, JoinsGradientsAndMomentsToTheirWeightsWhenTraining) {
  const LayerGroups groups = group(training_program(12));
  ASSERT_THAT(groups.layers, SizeIs(12));
  EXPECT_THAT(groups.layers, Each(SizeIs(4)));
  EXPECT_THAT(groups.shared, ElementsAre(BufferId{0}));
  // Weight, gradient and moments of layer 0.
  EXPECT_THAT(groups.layers[0], ElementsAre(BufferId{1}, BufferId{13}, BufferId{25}, BufferId{26}));
}

TEST(GroupLayers, JoinsPerLayerCacheToItsLayer) {
  Program program;
  const BufferId x = program.add(1_MiB, false);
  for (int i = 0; i < 8; ++i) {
    program.launch(1, {program.add(4_MiB), x});
    program.launch(2, {program.add(4_MiB), program.add(2_MiB, false), x});
  }
  const LayerGroups groups = group(program);
  ASSERT_THAT(groups.layers, SizeIs(8));
  EXPECT_THAT(groups.layers, Each(SizeIs(3)));
}

TEST(GroupLayers, FindsBothStacksOfAnEncoderAndADecoder) {
  Program program;
  for (int i = 0; i < 6; ++i) {
    program.launch(1, {program.add(4_MiB)});
    program.launch(2, {program.add(8_MiB)});
  }
  for (int i = 0; i < 4; ++i) {
    program.launch(1, {program.add(4_MiB)});
    program.launch(3, {program.add(4_MiB)});
    program.launch(2, {program.add(8_MiB)});
  }
  const LayerGroups groups = group(program);
  ASSERT_THAT(groups.layers, SizeIs(10));
  EXPECT_THAT(groups.layers[5], SizeIs(2));
  EXPECT_THAT(groups.layers[6], SizeIs(3));
}

TEST(GroupLayers, MakesRunsOfAboutEqualBytesWithoutRepetition) {
  Program program;
  for (std::uint64_t i = 0; i < 64; ++i) {
    program.launch(i, {program.add(Bytes{(1 + i % 4) << 20})});
  }
  const LayerGroups groups = group(program);
  EXPECT_GE(groups.layers.size(), 25U);
  EXPECT_LE(groups.layers.size(), 48U);
  for (const auto& layer : groups.layers) {
    Bytes bytes;
    for (const BufferId id : layer) bytes += program.footprints[index_of(id)];
    EXPECT_LE(bytes, 5_MiB);
  }
}

TEST(GroupLayers, FindsNothingWithoutPersistentBuffers) {
  const LayerGroups groups = group_layers({}, {});
  EXPECT_THAT(groups.layers, IsEmpty());
  EXPECT_THAT(groups.shared, IsEmpty());
}

RC_GTEST_PROP(GroupLayers, PlacesEveryPersistentBufferOnce, ()) {
  const auto buffers = *rc::gen::inRange<std::uint32_t>(1, 40);
  std::vector<Bytes> footprints;
  for (std::uint32_t id = 0; id < buffers; ++id) {
    footprints.emplace_back(*rc::gen::inRange<std::uint64_t>(0, 4));
  }
  const auto launches = *rc::gen::container<std::vector<std::vector<std::uint32_t>>>(
      rc::gen::resize(6, rc::gen::unique<std::vector<std::uint32_t>>(
                             rc::gen::inRange<std::uint32_t>(0, buffers + 3))));
  std::vector<std::vector<BufferId>> named;
  std::set<std::uint32_t> expected;
  for (const auto& launch : launches) {
    std::vector<BufferId>& ids = named.emplace_back();
    for (const std::uint32_t id : launch) {
      ids.push_back(BufferId{id});
      if (id < buffers && footprints[id] > Bytes{}) expected.insert(id);
    }
  }
  std::vector<LaunchRecord> pass;
  for (std::size_t at = 0; at < named.size(); ++at) pass.push_back({KernelId{at % 3}, named[at]});
  const LayerGroups groups = group_layers(pass, footprints);
  std::multiset<std::uint32_t> placed;
  for (const auto& layer : groups.layers) {
    RC_ASSERT(!layer.empty());
    for (const BufferId id : layer) placed.insert(index_of(id));
  }
  for (const BufferId id : groups.shared) placed.insert(index_of(id));
  RC_ASSERT(placed == std::multiset<std::uint32_t>(expected.begin(), expected.end()));
}

TEST(LayerShares, TellTheLayerWithTheMostBytes) {
  LayerShares shares;
  EXPECT_EQ(shares.take_home(), kNoLayer);
  shares.add(3, 4_MiB);
  shares.add(1, 3_MiB);
  shares.add(1, 2_MiB);
  EXPECT_EQ(shares.take_home(), 1U);
  EXPECT_EQ(shares.take_home(), kNoLayer) << "the next launch has named nothing yet";
  shares.add(3, 4_MiB);
  EXPECT_EQ(shares.take_home(), 3U);
}

TEST(LayerShares, TellTheLowestOfEqualLayersInAnyOrder) {
  LayerShares shares;
  shares.add(3, 4_MiB);
  shares.add(1, 4_MiB);
  EXPECT_EQ(shares.take_home(), 1U);
  shares.add(1, 4_MiB);
  shares.add(3, 4_MiB);
  EXPECT_EQ(shares.take_home(), 1U);
}

// What a launch names besides a buffer says where that belongs: neither the buffer itself counts
// for it, nor one that is in no layer.
TEST(GroupLayers, SharesWhatIsNamedWithThreeLayersAndPlacesWhatIsNamedWithTwo) {
  Program program;
  const BufferId table = program.add(3_MiB);
  const BufferId pair = program.add(2_MiB);
  for (int layer = 0; layer < 6; ++layer) {
    for (std::uint64_t kernel = 0; kernel < 4; ++kernel) {
      program.launch(kernel, {program.add(16_MiB)});
      if (layer < 3) program.pass.back().buffers.push_back(table);
      if (layer < 2) program.pass.back().buffers.push_back(pair);
    }
  }
  const LayerGroups groups = group(program);
  EXPECT_THAT(groups.shared, ElementsAre(table));
  ASSERT_THAT(groups.layers, SizeIs(6));
  EXPECT_THAT(groups.layers[0],
              UnorderedElementsAre(BufferId{2}, BufferId{3}, BufferId{4}, BufferId{5}, pair));
  EXPECT_THAT(groups.layers[1], SizeIs(4));
}

}  // namespace
}  // namespace superpipe
