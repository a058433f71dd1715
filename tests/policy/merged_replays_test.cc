#include "policy/merged_replays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;

/// Streams, each of which goes round a cycle of launches, and the replays that watch them.
class MergedReplaysTest : public ::testing::Test {
 protected:
  std::vector<BufferId> allocate_many(std::size_t count) {
    std::vector<BufferId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      ids.push_back(BufferId{next_id_++});
      all_.on_allocate(ids.back(), 4_MiB);
    }
    return ids;
  }
  void launch(std::uint8_t stream, const std::vector<BufferId>& buffers) {
    all_.on_launch(KernelId{1}, buffers);
    replays_.on_launch(stream, all_.present(), KernelId{1}, buffers, all_);
  }
  /// The next launch of a stream's cycle.
  struct Cycle {
    std::uint8_t stream;
    std::vector<BufferId> layers;
    std::size_t next = 0;
  };
  void step(Cycle& cycle) {
    launch(cycle.stream, {cycle.layers[cycle.next]});
    cycle.next = (cycle.next + 1) % cycle.layers.size();
  }
  /// Steps of one or the other, drawn: `share` of 100 are of the first.
  void mix(Cycle& one, Cycle& other, int steps, std::uint32_t share = 50) {
    for (int i = 0; i < steps; ++i) step(random_() % 100 < share ? one : other);
  }
  [[nodiscard]] std::uint64_t until(BufferId id) const {
    return replays_.next_use(id) - all_.present();
  }
  /// All that is expected and was not looked at, in the order in which it is looked at.
  std::vector<BufferId> look_at_all() {
    std::vector<BufferId> seen;
    LaunchReplay::Expected expected;
    for (; replays_.is_looking(); replays_.look_on()) {
      numbers_.push_back(replays_.look(expected));
      seen.insert(seen.end(), expected.buffers.begin(), expected.buffers.end());
    }
    return seen;
  }

  LaunchReplay all_;
  MergedReplays replays_{1024};
  std::vector<std::uint64_t> numbers_;

 private:
  std::uint32_t next_id_ = 0;
  std::minstd_rand random_{1};
};

TEST_F(MergedReplaysTest, ExpectsOfAStreamWhatFollowedInItsOwnPast) {
  Cycle one{0, allocate_many(10)};
  Cycle other{1, allocate_many(7)};
  mix(one, other, 200);
  for (Cycle* const cycle : {&one, &other}) {
    const std::vector<BufferId>& layers = cycle->layers;
    std::uint64_t before = all_.present();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::uint64_t use = replays_.next_use(layers[(cycle->next + i) % layers.size()]);
      ASSERT_NE(use, LaunchReplay::kNever);
      EXPECT_GT(use, i == 0 ? all_.present() : before) << "stream " << int{cycle->stream};
      before = use;
    }
  }
}

TEST_F(MergedReplaysTest, PredictsLaunchesAsFarApartAsTheStreamsWere) {
  Cycle often{0, allocate_many(40)};
  Cycle seldom{1, allocate_many(40)};
  mix(often, seldom, 2000, 80);
  // The 20th launch from now on: after 25 launches of the program, or after 100.
  EXPECT_NEAR(static_cast<double>(until(often.layers[(often.next + 19) % 40])), 25.0, 5.0);
  EXPECT_NEAR(static_cast<double>(until(seldom.layers[(seldom.next + 19) % 40])), 100.0, 20.0);
}

TEST_F(MergedReplaysTest, AStreamThatHasStoppedMovesAway) {
  Cycle one{0, allocate_many(10)};
  Cycle stopped{1, allocate_many(10)};
  mix(one, stopped, 200);
  const BufferId next = stopped.layers[stopped.next];
  ASSERT_LT(until(next), 10U);
  for (int i = 0; i < 100; ++i) step(one);
  EXPECT_GE(until(next), 95U) << "it is as late again as it is now";
  step(stopped);
  EXPECT_LT(until(stopped.layers[stopped.next]), 20U) << "it goes on";
}

TEST_F(MergedReplaysTest, ANewStreamIsExpectedOnceItRepeatsItself) {
  Cycle one{0, allocate_many(10)};
  Cycle other{1, allocate_many(10)};
  for (int i = 0; i < 50; ++i) step(one);
  for (int i = 0; i < 10; ++i) {
    step(one);
    step(other);
  }
  EXPECT_EQ(replays_.next_use(other.layers[0]), LaunchReplay::kNever);
  EXPECT_NE(replays_.next_use(one.layers[0]), LaunchReplay::kNever);
  step(other);
  EXPECT_NE(replays_.next_use(other.layers[1]), LaunchReplay::kNever);
}

TEST_F(MergedReplaysTest, OfABufferThatStreamsShareTheFirstUseCounts) {
  const auto shared = allocate_many(1);
  Cycle one{0, allocate_many(9)};
  Cycle other{1, allocate_many(3)};
  one.layers.push_back(shared[0]);
  other.layers.push_back(shared[0]);
  for (int i = 0; i < 40; ++i) {
    step(one);
    step(other);
  }
  // Both are at the beginning of a cycle. The other one's ends after 3 launches of its own.
  ASSERT_EQ(one.next, 0U);
  ASSERT_EQ(other.next, 0U);
  EXPECT_NEAR(static_cast<double>(until(shared[0])), 2 * 4, 1.0);
}

TEST_F(MergedReplaysTest, ABufferThatIsGoneIsNotTakenForTheNextOneOfItsId) {
  Cycle one{0, allocate_many(6)};
  Cycle other{1, allocate_many(6)};
  mix(one, other, 100);
  const BufferId id = one.layers[(one.next + 3) % 6];
  ASSERT_NE(replays_.next_use(id), LaunchReplay::kNever);
  all_.on_free(id);
  replays_.on_free(id);
  all_.on_allocate(id, 2_MiB);
  EXPECT_EQ(replays_.next_use(id), LaunchReplay::kNever);
}

// Each pass of a stream makes its activation anew.
TEST_F(MergedReplaysTest, ABufferThatIsMadeAnewIsExpectedInTheSteadOfTheOneBefore) {
  Cycle other{1, allocate_many(5)};
  const auto weights = allocate_many(4);
  for (int pass = 0; pass < 4; ++pass) {
    const auto made = allocate_many(1);
    for (const BufferId weight : weights) {
      launch(0, {weight, made[0]});
      step(other);
      if (pass == 3 && weight == weights[0]) {
        EXPECT_LE(until(made[0]), 2U);
        return;
      }
    }
    all_.on_free(made[0]);
    replays_.on_free(made[0]);
  }
}

TEST_F(MergedReplaysTest, ForgetsOldLaunchesAndGoesOn) {
  replays_ = MergedReplays(64);
  Cycle one{0, allocate_many(10)};
  Cycle other{1, allocate_many(7)};
  mix(one, other, 100);
  for (int i = 0; i < 5000; ++i) {
    mix(one, other, 1);
    for (const Cycle* const cycle : {&one, &other}) {
      ASSERT_LT(until(cycle->layers[cycle->next]), 60U) << i;
    }
  }
}

TEST_F(MergedReplaysTest, LooksAtWhatComesFirstAndAtEachLaunchOnce) {
  Cycle one{0, allocate_many(6)};
  Cycle other{1, allocate_many(3)};
  for (int i = 0; i < 12; ++i) {
    step(one);
    if (i % 2 == 1) step(other);
  }
  const auto a = one.layers;
  const auto b = other.layers;
  EXPECT_THAT(look_at_all(), ElementsAre(a[0], a[1], b[0], a[2], a[3], b[1], a[4], a[5], b[2]));
  EXPECT_FALSE(replays_.is_looking());
  step(one);
  EXPECT_THAT(look_at_all(), ElementsAre(a[0])) << "one more is expected, a pass ahead";
  replays_.look_again_for(a[4]);
  EXPECT_THAT(look_at_all(), ElementsAre(a[4], a[5], a[0])) << "of the other stream none";
  replays_.look_again();
  EXPECT_EQ(look_at_all().size(), 9U);
}

TEST_F(MergedReplaysTest, LooksAgainAtAStreamThatJumped) {
  Cycle one{0, allocate_many(10)};
  Cycle other{1, allocate_many(10)};
  for (int i = 0; i < 40; ++i) {
    step(one);
    step(other);
  }
  (void)look_at_all();
  ASSERT_FALSE(replays_.is_looking());
  step(other);
  EXPECT_FALSE(replays_.jumped());
  one.next = 7;  // where it was three launches ago
  step(one);
  EXPECT_TRUE(replays_.jumped());
  const auto seen = look_at_all();
  const auto first = std::ranges::find_first_of(seen, one.layers);
  ASSERT_NE(first, seen.end());
  EXPECT_EQ(*first, one.layers[8]);
}

TEST_F(MergedReplaysTest, StreamsBeyondTheMostShareAReplay) {
  std::vector<Cycle> cycles;
  for (std::uint8_t stream = 0; stream < 40; ++stream) {
    cycles.push_back({stream, allocate_many(5)});
  }
  // One after the other, in the same order each time: then even those that share one are expected.
  for (int pass = 0; pass < 4; ++pass) {
    for (Cycle& cycle : cycles) {
      for (int i = 0; i < 5; ++i) step(cycle);
    }
  }
  for (const Cycle& cycle : cycles) {
    EXPECT_NE(replays_.next_use(cycle.layers[2]), LaunchReplay::kNever) << int{cycle.stream};
  }
}

TEST_F(MergedReplaysTest, APassIsOneOfTheStreamThatNamesMost) {
  Cycle large{0, allocate_many(32)};
  Cycle small{1, allocate_many(8)};
  std::vector<std::uint64_t> starts;
  std::minstd_rand random(2);
  std::size_t of_large = 0;
  while (of_large < 32 * 10) {
    const bool is_large = random() % 2 == 0;
    step(is_large ? large : small);
    if (is_large) ++of_large;
    if (replays_.at_pass_start() && of_large > 32 * 3) starts.push_back(of_large);
  }
  ASSERT_GE(starts.size(), 6U);
  for (std::size_t i = 1; i < starts.size(); ++i) EXPECT_EQ(starts[i], starts[i - 1] + 32);
  EXPECT_EQ(replays_.pass_bytes(), 40 * 4_MiB);
}

/// Some streams that go round cycles of their own, and whose launch comes next, each time.
struct Interleaving {
  std::vector<std::vector<std::uint32_t>> cycles;  ///< buffers, which streams may share
  std::vector<std::uint8_t> order;
};

Interleaving any_interleaving() {
  Interleaving any;
  const auto streams = *rc::gen::inRange<std::size_t>(1, 12);
  for (std::size_t stream = 0; stream < streams; ++stream) {
    const auto length = *rc::gen::inRange<std::size_t>(1, 12);
    any.cycles.push_back(*rc::gen::container<std::vector<std::uint32_t>>(
        length, rc::gen::inRange<std::uint32_t>(0, 40)));
  }
  const auto launches = *rc::gen::inRange<std::size_t>(1, 300);
  any.order = *rc::gen::container<std::vector<std::uint8_t>>(
      launches, rc::gen::inRange<std::uint8_t>(0, static_cast<std::uint8_t>(streams)));
  return any;
}

// Whatever is submitted where: predictions lie ahead, are looked at in their order, and agree with
// the next uses.
RC_GTEST_PROP(MergedReplaysProperty, LooksAtPredictionsInTheirOrder, ()) {
  const Interleaving program = any_interleaving();
  const auto capacity = *rc::gen::inRange<std::size_t>(8, 200);
  LaunchReplay all;
  MergedReplays replays(capacity);
  for (std::uint32_t id = 0; id < 40; ++id) all.on_allocate(BufferId{id}, 2_MiB);
  std::vector<std::size_t> next(program.cycles.size());
  for (const std::uint8_t stream : program.order) {
    const auto& cycle = program.cycles[stream];
    const std::vector<BufferId> named{BufferId{cycle[next[stream]++ % cycle.size()]}};
    all.on_launch(KernelId{stream}, named);
    replays.on_launch(stream, all.present(), KernelId{stream}, named, all);
  }
  replays.look_again();
  std::vector<std::uint64_t> first(40, LaunchReplay::kNever);
  std::uint64_t before = all.present() + 1;
  LaunchReplay::Expected expected;
  std::size_t looked = 0;
  for (; replays.is_looking(); replays.look_on()) {
    RC_ASSERT(++looked <= MergedReplays::kMostStreams * capacity);
    const std::uint64_t number = replays.look(expected);
    RC_ASSERT(number >= before);
    before = number;
    if (expected.likelihood < LaunchReplay::kLeastLikelihood) continue;
    for (const BufferId id : expected.buffers) {
      first[index_of(id)] = std::min(first[index_of(id)], number);
    }
  }
  for (std::uint32_t id = 0; id < 40; ++id) {
    RC_ASSERT(replays.next_use(BufferId{id}) == first[id]);
  }
}

}  // namespace
}  // namespace superpipe
