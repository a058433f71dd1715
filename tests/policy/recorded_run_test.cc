// A run that begins with what an earlier one did.
#include "policy/recorded_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "policy/auto_policy.h"
#include "policy/launch_replay.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kRunLayers = 8;

TEST(RecordedRun, MergesTheSlabsOfTwoRuns) {
  const std::vector<Bytes> latest{4_KiB, 8_KiB, 4_KiB};
  const std::vector<Bytes> earlier{8_KiB, 8_KiB, 16_KiB, 4_KiB};
  EXPECT_THAT(merged_slabs(latest, earlier), ElementsAre(4_KiB, 8_KiB, 4_KiB, 8_KiB, 16_KiB));
  EXPECT_THAT(merged_slabs({}, earlier), ElementsAre(8_KiB, 8_KiB, 16_KiB, 4_KiB));
}

/// A program with a launch that loads, then passes over layers with a buffer each, of two sizes by
/// turns. Each pass makes a buffer for itself, which all of its launches name.
class RecordedRunTest : public ::testing::Test {
 protected:
  RecordedRunTest() {
    for (std::uint32_t i = 0; i < kRunLayers; ++i) recorded_.footprints.push_back(size_of(i));
    recorded_.footprints.push_back(2_MiB);
    add(9, {0});
    recorded_.pass_begin = 1;
    for (std::uint32_t i = 0; i < kRunLayers; ++i) add(1 + i % 2, {i, kRunLayers});
  }

  static Bytes size_of(std::size_t layer) { return layer % 2 == 0 ? 4_MiB : 6_MiB; }

  void add(std::uint64_t kernel, const std::vector<std::uint32_t>& names) {
    recorded_.launches.push_back({KernelId{kernel},
                                  static_cast<std::uint32_t>(recorded_.names.size()),
                                  static_cast<std::uint32_t>(names.size())});
    recorded_.names.insert(recorded_.names.end(), names.begin(), names.end());
  }

  /// Allocates the layers with ids that have nothing to do with the recorded numbers.
  void load(LaunchReplay& replay) {
    for (std::uint32_t i = 0; i < kRunLayers; ++i) {
      layers_.push_back(BufferId{50 - i});
      replay.on_allocate(layers_.back(), size_of(i));
    }
  }
  void load_launch(LaunchReplay& replay) { launch(replay, 9, {layers_[0]}); }
  static void launch(LaunchReplay& replay, std::uint64_t kernel,
                     const std::vector<BufferId>& buffers) {
    replay.on_launch(KernelId{kernel}, buffers);
  }
  void layer(LaunchReplay& replay, std::size_t i) {
    launch(replay, 1 + i % 2, {layers_[i], scratch_});
  }
  void pass(LaunchReplay& replay) {
    replay.on_allocate(scratch_, 2_MiB);
    for (std::size_t i = 0; i < kRunLayers; ++i) layer(replay, i);
    replay.on_free(scratch_);
  }

  RecordedRun recorded_;
  std::vector<BufferId> layers_;
  BufferId scratch_{60};
};

TEST_F(RecordedRunTest, NextUsesAreKnownBeforeTheFirstLaunch) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  load(replay);
  EXPECT_EQ(replay.next_use(layers_[0]), 0U);
  for (std::size_t i = 1; i < kRunLayers; ++i) EXPECT_EQ(replay.next_use(layers_[i]), 1 + i);
  EXPECT_EQ(replay.horizon(), 1 + kRunLayers);
}

TEST_F(RecordedRunTest, ExpectsTheRecordedLaunchesInThisRunsBuffers) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  load(replay);
  load_launch(replay);
  EXPECT_EQ(replay.present(), 0U);
  LaunchReplay::Expected expected;
  replay.expect(4, expected);
  EXPECT_THAT(expected.buffers, ElementsAre(layers_[3])) << "the scratch does not exist yet";
  EXPECT_EQ(replay.next_use(layers_[3]), 4U);
}

TEST_F(RecordedRunTest, GoesOnWithItsOwnPassBehindTheRecordedOne) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  load(replay);
  load_launch(replay);
  replay.on_allocate(scratch_, 2_MiB);
  layer(replay, 0);
  EXPECT_TRUE(replay.at_pass_start());
  layer(replay, 1);
  layer(replay, 2);
  // The next launches that name them are those of the second pass, and not the one that loads.
  EXPECT_EQ(replay.next_use(layers_[0]), 1 + kRunLayers);
  EXPECT_EQ(replay.next_use(layers_[1]), 2 + kRunLayers);
  EXPECT_EQ(replay.next_use(layers_[2]), 3 + kRunLayers);
  EXPECT_EQ(replay.horizon(), kRunLayers);
  LaunchReplay::Expected expected;
  replay.expect(kRunLayers, expected);
  EXPECT_THAT(expected.buffers, ElementsAre(layers_[2], scratch_));
  for (std::size_t i = 3; i < kRunLayers; ++i) layer(replay, i);
  replay.on_free(scratch_);
  EXPECT_TRUE(replay.following().is_over);
  EXPECT_FALSE(replay.following().is_left);
  EXPECT_EQ(replay.following().followed, 1 + kRunLayers);
  const std::uint64_t jumps = replay.jumps();
  pass(replay);
  pass(replay);
  EXPECT_EQ(replay.jumps(), jumps);
  EXPECT_EQ(replay.passes(), 2U);
}

// Its launches look like the recorded ones but for their buffers.
TEST_F(RecordedRunTest, LeavesItForAnotherProgramOfTheSameKernel) {
  recorded_ = {};
  for (std::uint32_t i = 0; i < kRunLayers; ++i) {
    recorded_.footprints.push_back(4_MiB);
    add(1, {i});
  }
  LaunchReplay replay;
  replay.begin_with(recorded_);
  for (std::uint32_t i = 0; i < kRunLayers; ++i) {
    layers_.push_back(BufferId{i});
    replay.on_allocate(layers_.back(), 10_MiB);
  }
  for (const BufferId layer : layers_) launch(replay, 1, {layer});
  EXPECT_FALSE(replay.following().is_over);
  EXPECT_TRUE(replay.following().is_left);
  EXPECT_TRUE(replay.following().is_other_program());
}

TEST_F(RecordedRunTest, LeavesItForAnotherProgram) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  for (std::uint32_t i = 0; i < kRunLayers; ++i) {
    layers_.push_back(BufferId{i});
    replay.on_allocate(layers_.back(), 10_MiB);
  }
  for (int i = 0; i < 40; ++i) {
    launch(replay, 77, {layers_[static_cast<std::size_t>(i) % kRunLayers]});
  }
  EXPECT_TRUE(replay.following().is_left);
  EXPECT_FALSE(replay.following().is_over);
  EXPECT_EQ(replay.following().followed, 0U);
  EXPECT_LE(replay.following().left_at, 17U);
}

TEST_F(RecordedRunTest, LeavesItWhereTheProgramDoesSomethingElse) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  load(replay);
  load_launch(replay);
  replay.on_allocate(scratch_, 2_MiB);
  layer(replay, 0);
  layer(replay, 1);
  for (int i = 0; i < 40; ++i) launch(replay, 70U + static_cast<std::uint64_t>(i), {scratch_});
  EXPECT_TRUE(replay.following().is_left);
  EXPECT_EQ(replay.following().followed, 3U);
  EXPECT_GE(replay.following().left_at, 3U);
  // What it does from there on is learned as ever.
  for (int i = 0; i < 3; ++i) {
    for (std::size_t at = 0; at < kRunLayers; ++at) layer(replay, at);
  }
  EXPECT_NE(replay.next_use(layers_[2]), LaunchReplay::kNever);
}

TEST_F(RecordedRunTest, ALaunchTooManyIsPassedOver) {
  LaunchReplay replay;
  replay.begin_with(recorded_);
  load(replay);
  load_launch(replay);
  replay.on_allocate(scratch_, 2_MiB);
  layer(replay, 0);
  layer(replay, 1);
  launch(replay, 70, {scratch_});
  for (std::size_t i = 2; i < kRunLayers; ++i) layer(replay, i);
  EXPECT_FALSE(replay.following().is_left);
  EXPECT_TRUE(replay.following().is_over);
}

TEST_F(RecordedRunTest, ForgetsItLikeAnyOtherPast) {
  LaunchReplay replay(40);
  replay.begin_with(recorded_);
  load(replay);
  load_launch(replay);
  for (int i = 0; i < 30; ++i) pass(replay);
  EXPECT_GT(replay.first_remembered(), 0U);
  EXPECT_EQ(replay.present(), 30 * kRunLayers);
  EXPECT_EQ(replay.next_use(layers_[0]), replay.present() + 1);
}

TEST_F(RecordedRunTest, BringsWhatTheFirstLaunchesNameWhileTheProgramLoads) {
  AutoPolicy policy(recorded_);
  std::vector<BufferId> layers;
  for (std::uint32_t i = 0; i < kRunLayers; ++i) {
    layers.push_back(BufferId{i});
    policy.on_allocate(layers.back(), size_of(i), 1);
  }
  const auto target = policy.next_target();
  ASSERT_TRUE(target);
  EXPECT_EQ(target->id, layers[0]) << "the first launch of the pass names it again";
  EXPECT_EQ(target->next_use, 1U);
  for (std::size_t i = 0; i < 3; ++i) policy.on_brought(layers[i]);
  EXPECT_EQ(policy.next_target()->id, layers[3]);
  // The last layer was loaded last, and is needed last.
  policy.on_brought(layers[7]);
  EXPECT_EQ(policy.next_victim(4, [](BufferId) { return true; }), layers[7]);
  policy.on_launch(KernelId{9}, std::vector{layers[0]});
  EXPECT_EQ(policy.next_target()->id, layers[3]);
  EXPECT_EQ(policy.next_target()->next_use, 4U);
}

TEST_F(RecordedRunTest, ABufferThatIsAllocatedLateIsBroughtInTime) {
  AutoPolicy policy(recorded_);
  policy.on_allocate(BufferId{0}, size_of(0), 1);
  policy.on_brought(BufferId{0});
  EXPECT_EQ(policy.next_target(), std::nullopt);
  policy.on_allocate(BufferId{1}, size_of(1), 1);
  const auto target = policy.next_target();
  ASSERT_TRUE(target);
  EXPECT_EQ(target->id, BufferId{1});
}

TEST(WithoutARecordedRun, NothingIsFollowed) {
  const LaunchReplay replay;
  EXPECT_EQ(replay.following().recorded, 0U);
  EXPECT_FALSE(replay.following().goes_on());
}

}  // namespace
}  // namespace superpipe
