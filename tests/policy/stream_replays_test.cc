#include "policy/stream_replays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "policy/recorded_run.h"
#include "tests/policy/properties.h"

namespace superpipe {
namespace {

/// A program of some streams, each with a cycle of its own.
class StreamReplaysTest : public ::testing::Test {
 protected:
  struct Cycle {
    std::uint8_t stream;
    std::vector<BufferId> layers;
    std::size_t next = 0;
  };
  Cycle cycle(std::uint8_t stream, std::size_t layers) {
    Cycle made{stream, {}};
    for (std::size_t i = 0; i < layers; ++i) {
      made.layers.push_back(BufferId{next_id_++});
      replays_.on_allocate(made.layers.back(), 4_MiB);
    }
    return made;
  }
  void step(Cycle& cycle) {
    const std::vector<BufferId> named{cycle.layers[cycle.next]};
    cycle.next = (cycle.next + 1) % cycle.layers.size();
    replays_.on_launch(KernelId{1}, named, cycle.stream);
  }
  /// Steps of one or the other, drawn.
  void mix(Cycle& one, Cycle& other, int steps) {
    for (int i = 0; i < steps; ++i) step(random_() % 2 == 0 ? one : other);
  }
  /// Steps of both in turn.
  void alternate(Cycle& one, Cycle& other, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      step(one);
      step(other);
    }
  }

  StreamReplays replays_;

 private:
  std::uint32_t next_id_ = 0;
  std::minstd_rand random_{1};
};

TEST_F(StreamReplaysTest, ReplaysAllLaunchesAsOneWhereStreamsTakeTurns) {
  Cycle one = cycle(0, 16);
  Cycle other = cycle(1, 16);
  for (int i = 0; i < 200; ++i) {
    alternate(one, other, 1);
    ASSERT_FALSE(replays_.are_apart()) << i;
  }
  // It knows exactly which launch names what.
  for (std::uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(replays_.next_use(one.layers[(one.next + i) % 16]), replays_.present() + 1 + 2 * i);
    EXPECT_EQ(replays_.next_use(other.layers[(other.next + i) % 16]),
              replays_.present() + 2 + 2 * i);
  }
}

TEST_F(StreamReplaysTest, ReplaysStreamsApartWhoseOrderIsAnotherEachTime) {
  Cycle one = cycle(0, 16);
  Cycle other = cycle(1, 11);
  mix(one, other, 200);
  ASSERT_TRUE(replays_.are_apart());
  const std::uint64_t jumps = replays_.jumps();
  for (int i = 0; i < 500; ++i) {
    mix(one, other, 1);
    ASSERT_TRUE(replays_.are_apart()) << i;
    for (const Cycle* const each : {&one, &other}) {
      ASSERT_LT(replays_.next_use(each->layers[each->next]), replays_.present() + 20) << i;
    }
  }
  EXPECT_EQ(replays_.jumps(), jumps) << "no stream has left its place";
}

TEST_F(StreamReplaysTest, PutsStreamsTogetherAgainThatTakeTurnsFromNowOn) {
  Cycle one = cycle(0, 16);
  Cycle other = cycle(1, 16);
  mix(one, other, 300);
  ASSERT_TRUE(replays_.are_apart());
  const std::uint64_t jumps = replays_.jumps();
  alternate(one, other, 1000);
  EXPECT_FALSE(replays_.are_apart());
  EXPECT_GT(replays_.jumps(), jumps) << "what was brought ahead is taken back";
  EXPECT_EQ(replays_.next_use(one.layers[one.next]), replays_.present() + 1);
  mix(one, other, 400);
  EXPECT_TRUE(replays_.are_apart());
}

TEST_F(StreamReplaysTest, DoesNotChangeItsMindWithEveryRunOfLuck) {
  Cycle one = cycle(0, 16);
  Cycle other = cycle(1, 16);
  mix(one, other, 300);
  int changes = 0;
  bool was_apart = replays_.are_apart();
  for (int round = 0; round < 400; ++round) {
    alternate(one, other, 64);
    mix(one, other, 4);
    changes += replays_.are_apart() != was_apart ? 1 : 0;
    was_apart = replays_.are_apart();
  }
  EXPECT_LE(changes, 2);
}

// A stream of its own for each of two parts of a pass, which one thread submits.
TEST_F(StreamReplaysTest, KeepsAPassOfTwoStreamsWhole) {
  Cycle one = cycle(0, 24);
  Cycle side = cycle(1, 8);
  const auto pass = [&] {
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 3; ++j) step(one);
      step(side);
    }
  };
  for (int i = 0; i < 3; ++i) pass();
  const std::size_t passes = replays_.passes();
  for (int i = 0; i < 10; ++i) pass();
  EXPECT_FALSE(replays_.are_apart());
  EXPECT_EQ(replays_.passes(), passes + 10);
  EXPECT_EQ(replays_.pass_bytes(), 32 * 4_MiB);
}

TEST_F(StreamReplaysTest, CountsPassesOfStreamsThatAreApart) {
  Cycle large = cycle(0, 40);
  Cycle small = cycle(1, 10);
  mix(large, small, 400);
  ASSERT_TRUE(replays_.are_apart());
  const std::size_t passes = replays_.passes();
  mix(large, small, 4000);
  EXPECT_NEAR(static_cast<double>(replays_.passes() - passes), 2000.0 / 40, 5.0);
  EXPECT_EQ(replays_.pass_bytes(), 50 * 4_MiB);
}

TEST_F(StreamReplaysTest, LaunchesOfOneStreamAreReplayedAsBefore) {
  LaunchReplay alone;
  Cycle one = cycle(5, 12);
  for (const BufferId layer : one.layers) alone.on_allocate(layer, 4_MiB);
  std::minstd_rand random(3);
  for (int i = 0; i < 300; ++i) {
    if (random() % 10 == 0) one.next = random() % 12;
    const std::vector<BufferId> named{one.layers[one.next]};
    step(one);
    alone.on_launch(KernelId{1}, named);
    ASSERT_EQ(replays_.jumps(), alone.jumps());
    ASSERT_EQ(replays_.passes(), alone.passes());
    ASSERT_EQ(replays_.horizon(), alone.horizon());
    for (const BufferId layer : one.layers) {
      ASSERT_EQ(replays_.next_use(layer), alone.next_use(layer));
    }
  }
}

// A recorded run does not tell streams apart, nor need it where their order is the same again.
TEST_F(StreamReplaysTest, FollowsARecordedRunOnTwoStreams) {
  RecordedRun recorded;
  constexpr std::uint32_t kLayers = 12;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    recorded.footprints.push_back(4_MiB);
    recorded.names.push_back(i);
    recorded.launches.push_back({KernelId{1}, i, 1});
  }
  replays_.begin_with(recorded);
  Cycle one = cycle(0, kLayers);
  for (std::uint32_t pass = 0; pass < 3; ++pass) {
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      one.stream = static_cast<std::uint8_t>(i % 2);
      step(one);
      ASSERT_FALSE(replays_.are_apart());
      ASSERT_EQ(replays_.next_use(one.layers[one.next]), replays_.present() + 1);
    }
  }
  EXPECT_EQ(replays_.following().followed, kLayers);
  EXPECT_TRUE(replays_.following().is_over);
}

/// One stream's launches, of which data decide now and then which comes next.
struct Walk {
  std::vector<std::uint32_t> layers;
  std::size_t at = 0;
};

// As long as the streams are together, nothing is expected but what the one log expects.
RC_GTEST_PROP(StreamReplaysProperty, ExpectTogetherWhatTheOneLogExpects, ()) {
  const auto streams = *rc::gen::inRange<std::size_t>(1, 12);
  std::vector<Walk> walks(streams);
  for (Walk& walk : walks) {
    const auto length = *rc::gen::inRange<std::size_t>(1, 10);
    walk.layers = *rc::gen::container<std::vector<std::uint32_t>>(
        length, rc::gen::inRange<std::uint32_t>(0, 30));
  }
  const auto capacity = *rc::gen::inRange<std::size_t>(32, 400);
  StreamReplays replays(capacity);
  LaunchReplay alone(capacity);
  for (std::uint32_t id = 0; id < 30; ++id) {
    replays.on_allocate(BufferId{id}, 2_MiB);
    alone.on_allocate(BufferId{id}, 2_MiB);
  }
  const auto order = *rc::gen::container<std::vector<std::uint8_t>>(
      *rc::gen::inRange<std::size_t>(1, 300),
      rc::gen::inRange<std::uint8_t>(0, static_cast<std::uint8_t>(streams)));
  std::uint64_t jumps = 0;
  for (const std::uint8_t stream : order) {
    Walk& walk = walks[stream];
    const std::vector<BufferId> named{BufferId{walk.layers[walk.at++ % walk.layers.size()]}};
    const bool was_apart = replays.are_apart();
    replays.on_launch(KernelId{stream}, named, stream);
    alone.on_launch(KernelId{stream}, named);
    RC_ASSERT(replays.present() == alone.present());
    RC_ASSERT(replays.jumps() >= jumps);
    if (replays.are_apart() != was_apart) RC_ASSERT(replays.jumps() > jumps);
    jumps = replays.jumps();
    if (replays.are_apart()) {
      RC_ASSERT(replays.horizon() == 0U);
      continue;
    }
    RC_ASSERT(replays.horizon() == alone.horizon());
    RC_ASSERT(replays.at_pass_start() == alone.at_pass_start());
    for (std::uint32_t id = 0; id < 30; ++id) {
      RC_ASSERT(replays.next_use(BufferId{id}) == alone.next_use(BufferId{id}));
    }
  }
}

}  // namespace
}  // namespace superpipe
