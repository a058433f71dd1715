#include "policy/launch_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace superpipe {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A program that allocates, launches and frees, and the replay that watches it.
class LaunchReplayTest : public ::testing::Test {
 protected:
  BufferId allocate(std::uint64_t mebibytes = 4) {
    BufferId id{};
    if (free_ids_.empty()) {
      id = BufferId{next_id_++};
    } else {
      id = free_ids_.back();
      free_ids_.pop_back();
    }
    replay_.on_allocate(id, Bytes{mebibytes << 20});
    return id;
  }
  void free(BufferId id) {
    replay_.on_free(id);
    free_ids_.push_back(id);
  }
  std::vector<BufferId> allocate_many(std::size_t count, std::uint64_t mebibytes = 4) {
    std::vector<BufferId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(allocate(mebibytes));
    return ids;
  }
  void launch(std::uint64_t kernel, const std::vector<BufferId>& buffers) {
    replay_.on_launch(KernelId{kernel}, buffers);
  }
  /// Passes over a model, with a launch for each of its layers.
  void run(const std::vector<BufferId>& model, int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      for (const BufferId layer : model) launch(1, {layer});
    }
  }
  std::vector<BufferId> expected(std::size_t ahead) {
    LaunchReplay::Expected found;
    replay_.expect(ahead, found);
    return found.buffers;
  }
  int trust(std::size_t ahead) {
    LaunchReplay::Expected found;
    replay_.expect(ahead, found);
    return found.trust;
  }

  LaunchReplay replay_;

 private:
  std::uint32_t next_id_ = 0;
  std::vector<BufferId> free_ids_;
};

TEST_F(LaunchReplayTest, ExpectsNothingOfAProgramThatItSeesForTheFirstTime) {
  const auto layers = allocate_many(3);
  for (const BufferId layer : layers) launch(1, {layer});
  EXPECT_EQ(replay_.present(), 2U);
  EXPECT_EQ(replay_.horizon(), 0U);
  EXPECT_EQ(replay_.next_use(layers[0]), LaunchReplay::kNever);
  EXPECT_EQ(replay_.confidence(), 0.0);
}

// Which expert is next is up to the data: that one was used in the last pass says nothing.
TEST_F(LaunchReplayTest, ExpectsNoUseByLaunchesOfAKindThatMostlyNamesOtherBuffers) {
  constexpr std::size_t kLayers = 6;
  const auto layers = allocate_many(kLayers);
  std::vector<std::vector<BufferId>> experts;
  for (std::size_t layer = 0; layer < kLayers; ++layer) experts.push_back(allocate_many(8, 6));
  std::mt19937 random(1);
  std::vector<BufferId> chosen;
  const auto pass = [&] {
    chosen.clear();
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      chosen.push_back(experts[layer][random() % 8]);
      launch(1, {layers[layer]});
      launch(2, {chosen.back()});
    }
  };
  for (int i = 0; i < 10; ++i) pass();
  launch(1, {layers[0]});
  EXPECT_EQ(replay_.next_use(layers[1]), replay_.present() + 2);
  for (const BufferId expert : chosen) {
    EXPECT_EQ(replay_.next_use(expert), LaunchReplay::kNever);
  }
}

// What data chose in the middle of the last pass was used at its end in any case.
TEST_F(LaunchReplayTest, ExpectsTheFirstUseThatIsForeseen) {
  const auto layers = allocate_many(16);
  const auto drawn = allocate_many(16, 6);
  std::mt19937 random(1);
  const auto pass = [&](BufferId chosen) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      launch(1, {layers[i]});
      if (i == 7) launch(2, {chosen});
    }
    launch(3, {drawn[0]});
  };
  for (int i = 0; i < 16; ++i) pass(drawn[1 + random() % 15]);
  pass(drawn[0]);
  launch(1, {layers[0]});
  ASSERT_EQ(replay_.next_use(layers[4]), replay_.present() + 4);
  EXPECT_EQ(replay_.next_use(drawn[0]), replay_.present() + 17);
}

TEST_F(LaunchReplayTest, RemembersHowLikelyKindsAreWhenItForgetsLaunches) {
  replay_ = LaunchReplay(64);
  const auto layers = allocate_many(8);
  const auto drawn = allocate_many(16, 6);
  std::mt19937 random(1);
  int looked = 0;
  for (int pass = 0; pass < 60; ++pass) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i == 4) launch(2, {drawn[random() % 16]});
      launch(1, {layers[i]});
    }
    launch(1, {layers[0]});
    launch(1, {layers[1]});
    if (pass >= 10 && replay_.horizon() >= 3) {
      LaunchReplay::Expected next;
      replay_.expect(3, next);
      EXPECT_LT(next.likelihood, LaunchReplay::kLeastLikelihood) << pass;
      replay_.expect(2, next);
      EXPECT_GE(next.likelihood, LaunchReplay::kLeastLikelihood) << pass;
      ++looked;
    }
    launch(1, {layers[2]});
    launch(1, {layers[3]});
    launch(2, {drawn[random() % 16]});
    for (std::size_t i = 4; i < layers.size(); ++i) launch(1, {layers[i]});
  }
  EXPECT_GT(looked, 40);
  EXPECT_GT(replay_.first_remembered(), 0U);
}

// All layers look alike: the buffers tell which of them it is.
TEST_F(LaunchReplayTest, FindsItsPlaceInAPassAtItsFirstLaunch) {
  const auto layers = allocate_many(8);
  for (const BufferId layer : layers) launch(1, {layer});
  launch(1, {layers[0]});
  EXPECT_EQ(replay_.horizon(), 8U);
  EXPECT_THAT(expected(1), ElementsAre(layers[1]));
  EXPECT_EQ(replay_.next_use(layers[1]), 9U);
  EXPECT_EQ(replay_.next_use(layers[7]), 15U);
  EXPECT_EQ(replay_.next_use(layers[0]), 16U) << "in the next pass";
}

TEST_F(LaunchReplayTest, TellsTheWayBackFromTheWayThere) {
  const auto layers = allocate_many(4);
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = 0; i < 4; ++i) launch(1, {layers[i]});
    for (std::size_t i = 4; i-- > 0;) launch(2, {layers[i]});
  }
  launch(1, {layers[0]});
  launch(1, {layers[1]});
  EXPECT_EQ(replay_.next_use(layers[2]), replay_.present() + 1);
  EXPECT_EQ(replay_.next_use(layers[1]), replay_.present() + 5);
  EXPECT_EQ(replay_.next_use(layers[0]), replay_.present() + 6);
}

// Activations are freed and allocated anew in each pass.
TEST_F(LaunchReplayTest, TakesANewBufferForTheOneThatIsNamedInItsStead) {
  const auto weights = allocate_many(4);
  BufferId kept = allocate(2);
  const auto pass = [&](std::size_t end) {
    BufferId made = allocate(2);
    for (std::size_t i = 0; i < end; ++i) launch(1 + i, {weights[i], made});
    launch(9, {made, kept});
    return made;
  };
  const BufferId first = pass(4);
  free(first);
  allocate(2);  // takes the id, for something else
  const BufferId second = allocate(2);
  launch(1, {weights[0], second});
  EXPECT_EQ(replay_.next_use(second), replay_.present() + 1);
  EXPECT_THAT(expected(1), ElementsAre(weights[1], second));
  EXPECT_THAT(expected(4), ElementsAre(second, kept));
}

TEST_F(LaunchReplayTest, KeepsItsPlaceWhenALaunchNamesAStrayBuffer) {
  const auto layers = allocate_many(6);
  const BufferId stray = allocate(1);
  for (int pass = 0; pass < 2; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  launch(1, {layers[0]});
  launch(1, {layers[1], stray});
  EXPECT_THAT(expected(1), ElementsAre(layers[2]));
  launch(1, {layers[2]});
  EXPECT_EQ(replay_.next_use(layers[3]), replay_.present() + 1);
  EXPECT_GT(replay_.confidence(), 0.3);
}

// Eager frameworks add what they have just computed; the struct of the sum may hold what was on the
// stack, before the pointers that its kernel uses.
class LeftOverPointerTest : public LaunchReplayTest {
 protected:
  /// A layer: a product with its weight, and a sum that names `left_over` first.
  void run_layer(BufferId weight, std::optional<BufferId> left_over) {
    const BufferId product = allocate();
    launch(1, {weight, product});
    const BufferId other = allocate();
    const BufferId sum = allocate();
    std::vector<BufferId> named{product, other, sum};
    if (left_over) named.insert(named.begin(), *left_over);
    launch(2, named);
    for (const BufferId id : {product, other, sum}) free(id);
  }
  const std::vector<BufferId> weights_ = allocate_many(6, 8);
};

TEST_F(LeftOverPointerTest, BeforeThoseThatAreUsedMovesNoPlace) {
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId weight : weights_) run_layer(weight, std::nullopt);
  }
  const std::uint64_t jumps = replay_.jumps();
  // As another layer would name it that this one is like.
  for (const BufferId weight : weights_) run_layer(weight, weights_[1]);
  EXPECT_EQ(replay_.jumps(), jumps);
  EXPECT_THAT(expected(1), ElementsAre(weights_[0]));
}

TEST_F(LeftOverPointerTest, OfThePastIsNotMissedToday) {
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId weight : weights_) run_layer(weight, std::nullopt);
  }
  for (const BufferId weight : weights_) run_layer(weight, weights_[1]);
  const std::uint64_t jumps = replay_.jumps();
  for (const BufferId weight : weights_) run_layer(weight, std::nullopt);
  EXPECT_LE(replay_.jumps(), jumps + 2);
  EXPECT_THAT(expected(1), ElementsAre(weights_[0]));
}

TEST_F(LaunchReplayTest, KeepsItsPlaceWhenALaunchIsNewOrMissing) {
  const auto layers = allocate_many(6);
  const BufferId other = allocate(1);
  for (int pass = 0; pass < 2; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  launch(1, {layers[0]});
  launch(7, {other});  // was never there
  launch(1, {layers[1]});
  EXPECT_THAT(expected(1), ElementsAre(layers[2]));
  launch(1, {layers[3]});  // without layers[2]
  EXPECT_THAT(expected(1), ElementsAre(layers[4]));
}

TEST_F(LaunchReplayTest, FindsAModelAgainThatRanSomeTimeAgo) {
  const auto one = allocate_many(5);
  const auto two = allocate_many(7);
  run(one, 10);
  run(two, 10);
  launch(1, {one[0]});
  EXPECT_THAT(expected(1), ElementsAre(one[1]));
  launch(1, {one[1]});
  EXPECT_EQ(replay_.next_use(one[4]), replay_.present() + 3);
}

TEST_F(LaunchReplayTest, ForeseesTheEndOfATurnFromTheTurnBefore) {
  const auto one = allocate_many(5);
  const auto two = allocate_many(5);
  for (int turn = 0; turn < 2; ++turn) {
    run(one, 3);
    run(two, 4);
  }
  // In the third turn of the first model, after as many passes as before, the second one comes.
  run(one, 2);
  EXPECT_EQ(replay_.next_use(one[0]), replay_.present() + 1);
  run(one, 1);
  EXPECT_EQ(replay_.next_use(two[0]), replay_.present() + 1);
  EXPECT_EQ(replay_.next_use(one[0]), replay_.present() + 1 + 4 * 5);
}

TEST_F(LaunchReplayTest, TakesAStartThatIsLikeNoOtherForTheFirstOne) {
  const auto one = allocate_many(5);
  const auto two = allocate_many(5);
  run(one, 4);
  run(two, 4);
  // The first model never came after the second one. Its last pass was followed by the second
  // model, its first one by itself.
  run(one, 1);
  EXPECT_EQ(replay_.next_use(one[0]), replay_.present() + 1);
  EXPECT_EQ(replay_.next_use(two[0]), replay_.present() + 1 + 3 * 5);
}

TEST_F(LaunchReplayTest, TrustsLaunchesByHowOftenTheyWereAsExpected) {
  const auto experts = allocate_many(8);
  const BufferId router = allocate();
  std::minstd_rand random(1);
  for (int pass = 0; pass < 40; ++pass) {
    launch(1, {router});
    launch(2, {experts[random() % 8]});
    launch(3, {router});
  }
  ASSERT_GE(replay_.horizon(), 3U);
  EXPECT_GE(trust(1), 1) << "the router is used in every pass";
  EXPECT_LE(trust(2), -1) << "which expert is used is not known before";
  EXPECT_GE(trust(3), 1);
}

TEST_F(LaunchReplayTest, GivesItsPlaceUpWhereNothingFits) {
  const auto layers = allocate_many(4);
  for (int pass = 0; pass < 2; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  for (std::uint64_t i = 0; i < 40; ++i) launch(100 + i, {allocate(1)});
  EXPECT_EQ(replay_.horizon(), 0U);
  EXPECT_EQ(replay_.next_use(layers[0]), LaunchReplay::kNever);
  EXPECT_LT(replay_.confidence(), 0.1);
}

TEST_F(LaunchReplayTest, ForgetsTheOlderHalfWhenItIsFull) {
  replay_ = LaunchReplay(64);
  const auto layers = allocate_many(8);
  BufferId made = allocate(1);
  for (int i = 0; i < 1000; ++i) {
    free(made);
    made = allocate(1);
    launch(1, {layers[static_cast<std::size_t>(i) % 8], made});
    if (i >= 8 + 64) {
      ASSERT_EQ(replay_.present(), static_cast<std::uint64_t>(i));
      ASSERT_EQ(replay_.horizon(), 8U) << i;
      ASSERT_EQ(replay_.next_use(layers[static_cast<std::size_t>(i + 3) % 8]),
                replay_.present() + 3);
    }
  }
}

// A program may allocate and free for ever without a launch that superpipe sees.
TEST_F(LaunchReplayTest, ForgetsBuffersThatAreGoneWithoutALaunch) {
  replay_ = LaunchReplay(8);
  const auto layers = allocate_many(3);
  for (int pass = 0; pass < 2; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  for (int i = 0; i < 1000; ++i) free(allocate(1));
  launch(1, {layers[0]});
  launch(1, {layers[1]});
  launch(1, {layers[2]});
  launch(1, {layers[0]});
  EXPECT_EQ(replay_.next_use(layers[1]), replay_.present() + 1);
}

/// Launches of which at_pass_start() says that they open a pass, by their numbers.
class LaunchReplayPassTest : public LaunchReplayTest {
 protected:
  void launch(std::uint64_t kernel, const std::vector<BufferId>& buffers) {
    LaunchReplayTest::launch(kernel, buffers);
    if (replay_.at_pass_start()) starts_.push_back(replay_.present());
  }
  void forward_and_backward(const std::vector<BufferId>& model) {
    for (const BufferId layer : model) launch(1, {layer});
    for (std::size_t at = model.size(); at-- > 0;) launch(2, {model[at]});
  }

  std::vector<std::uint64_t> starts_;
};

TEST_F(LaunchReplayPassTest, BeginsAPassWhereTheLastOneBegan) {
  const auto layers = allocate_many(16);
  for (int pass = 0; pass < 5; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  ASSERT_EQ(starts_.size(), 4U) << "the first pass repeats nothing";
  EXPECT_LT(starts_[0], 32U);
  for (std::size_t at = 1; at < 4; ++at) EXPECT_EQ(starts_[at], starts_[at - 1] + 16);
  EXPECT_EQ(replay_.passes(), 3U);
}

// Layers of a first pass look like passes, the last of which ends in its midst.
TEST_F(LaunchReplayPassTest, AlignsAPassWithTheProgramsOwn) {
  const auto layers = allocate_many(18);
  const auto shared = allocate_many(1);
  constexpr std::uint64_t kPass = 2 + 8 * 3;
  launch(9, {layers[0]});  // which is not repeated
  for (int pass = 0; pass < 5; ++pass) {
    launch(3, {layers[0]});
    for (std::size_t layer = 1; layer < 17; layer += 2) {
      launch(1, {layers[layer], shared[0]});
      launch(2, {layers[layer + 1]});
      launch(1, {shared[0]});
    }
    launch(4, {layers[17]});
  }
  ASSERT_GE(starts_.size(), 3U);
  const LaunchReplay::Launches pass{starts_[starts_.size() - 2], starts_.back()};
  ASSERT_EQ(pass.end - pass.begin, kPass);
  ASSERT_NE(pass.begin % kPass, 1U) << "or there is nothing to align";
  const LaunchReplay::Launches aligned = replay_.aligned(pass);
  EXPECT_EQ(aligned.begin % kPass, 1U);
  EXPECT_EQ(aligned.end - aligned.begin, kPass);
  EXPECT_LT(pass.begin - aligned.begin, kPass);
  EXPECT_GE(replay_.followed(), kPass);
  EXPECT_EQ(replay_.aligned(aligned).begin, aligned.begin);
}

TEST_F(LaunchReplayPassTest, LeavesAPassAsItIsOfWhichItDoesNotKnowWhereItBegins) {
  const auto layers = allocate_many(16);
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId layer : layers) launch(1, {layer});
  }
  EXPECT_EQ(replay_.aligned({20, 36}).begin, 16U);
  EXPECT_EQ(replay_.aligned({20, 30}).begin, 20U) << "it is no pass";
  EXPECT_EQ(replay_.aligned({3, 19}).begin, 3U) << "nothing repeated itself yet";
  launch(9, {layers[3]});
  launch(1, {layers[9]});
  EXPECT_EQ(replay_.aligned({20, 36}).begin, 16U) << "though the place was moved since";
}

// One launch more, or one less, moves the place, and passes begin where the program's do.
TEST_F(LaunchReplayPassTest, AlignsPassesAsBeforeAfterALaunchTooManyAndAMissingOne) {
  const auto layers = allocate_many(27);
  std::vector<std::uint64_t> own;
  for (int pass = 0; pass < 24; ++pass) {
    own.push_back(pass == 0 ? 0 : replay_.present() + 1);
    for (std::size_t at = 0; at < layers.size(); ++at) {
      if (pass == 10 && at == 13) launch(1, {layers[12]});
      if (pass == 15 && at == 14) continue;
      launch(at == 0 ? 3 : 1 + at % 2, {layers[at]});
    }
    if (pass < 2 || pass == 10 || pass == 15) continue;
    ASSERT_GE(starts_.size(), 2U);
    const LaunchReplay::Launches last{starts_[starts_.size() - 2], starts_.back()};
    EXPECT_THAT(own, Contains(replay_.aligned(last).begin)) << pass;
  }
}

// Three times forward and backward, and a step of the optimizer: once the step has been seen, all
// of it is one pass.
TEST_F(LaunchReplayPassTest, TakesAStepWithAccumulatedGradientsForOnePass) {
  const auto layers = allocate_many(8);
  constexpr std::uint64_t kStep = 3 * 16 + 8;
  for (int step = 0; step < 6; ++step) {
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) forward_and_backward(layers);
    for (const BufferId layer : layers) launch(3, {layer});
  }
  ASSERT_GE(starts_.size(), 5U);
  for (std::size_t at = starts_.size() - 4; at < starts_.size(); ++at) {
    EXPECT_EQ(starts_[at], starts_[at - 1] + kStep);
  }
}

TEST_F(LaunchReplayPassTest, TakesNoLaunchThatIsRepeatedForAPass) {
  const auto layers = allocate_many(8);
  for (const BufferId layer : layers) {
    for (int i = 0; i < 50; ++i) launch(1, {layer});
  }
  EXPECT_THAT(starts_, IsEmpty());
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId layer : layers) {
      for (int i = 0; i < 50; ++i) launch(1, {layer});
    }
  }
  ASSERT_GE(starts_.size(), 2U);
  EXPECT_EQ(starts_.back(), starts_[starts_.size() - 2] + 400);
}

TEST_F(LaunchReplayPassTest, BeginsNoneWhereNothingRepeats) {
  for (int i = 0; i < 200; ++i) launch(1, {allocate()});
  EXPECT_THAT(starts_, IsEmpty());
  EXPECT_EQ(replay_.passes(), 0U);
}

TEST_F(LaunchReplayTest, TellsWhichBuffersAPassFound) {
  const auto layers = allocate_many(4);
  for (int pass = 0; pass < 3; ++pass) {
    for (const BufferId layer : layers) {
      const BufferId made = allocate(2);
      launch(1, {layer, made});
      free(made);
    }
  }
  for (const BufferId layer : layers) free(layer);
  const auto pass = replay_.pass(8, 12);
  ASSERT_NE(pass, nullptr);
  EXPECT_EQ(pass->size(), 4U);
  EXPECT_THAT(pass->buffer_bytes(), ElementsAre(4_MiB, 4_MiB, 4_MiB, 4_MiB));
  EXPECT_EQ(pass->transient_peak(), 2_MiB);
}

TEST_F(LaunchReplayTest, CountsWhatIsInUseAcrossTheBeginningOfAPassAsTransient) {
  const auto layers = allocate_many(4);
  for (int pass = 0; pass < 3; ++pass) {
    const BufferId made = allocate(2);
    for (const BufferId layer : layers) launch(1, {layer, made});
    free(made);
  }
  const auto pass = replay_.pass(6, 10);
  ASSERT_NE(pass, nullptr);
  EXPECT_EQ(pass->persistent_bytes(), 16_MiB);
  EXPECT_EQ(pass->transient_peak(), 2_MiB) << "one follows the other";
}

TEST_F(LaunchReplayTest, TellsNothingOfAPassThatItDoesNotRemember) {
  replay_ = LaunchReplay(64);
  const auto layers = allocate_many(8);
  run(layers, 9);
  ASSERT_EQ(replay_.first_remembered(), 32U);
  EXPECT_EQ(replay_.pass(24, 32), nullptr);
  EXPECT_EQ(replay_.pass(39, 47), nullptr) << "what there was before it is not known";
  EXPECT_NE(replay_.pass(40, 48), nullptr);
  EXPECT_NE(replay_.pass(64, 72), nullptr);
  EXPECT_EQ(replay_.pass(65, 73), nullptr) << "not announced yet";
  EXPECT_EQ(replay_.pass(50, 50), nullptr);
}

}  // namespace
}  // namespace superpipe
