#include "policy/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace superpipe {
namespace {

constexpr std::uint32_t kTrusted = ReadAhead::kTrusted;

class ReadAheadTest : public ::testing::Test {
 protected:
  BufferId allocate() {
    const BufferId id{next_id_++};
    read_ahead_.on_allocate(id);
    return id;
  }
  std::vector<BufferId> allocate_many(std::size_t count) {
    std::vector<BufferId> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(allocate());
    return ids;
  }
  void launch(const std::vector<BufferId>& buffers) { read_ahead_.on_launch(buffers); }
  void launch(BufferId id) { launch(std::vector{id}); }
  void launch_each(const std::vector<BufferId>& ids, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) launch(ids[i]);
  }
  void launch_nothing(int times) {
    for (int i = 0; i < times; ++i) launch(std::vector<BufferId>{});
  }
  /// The buffer that shall come next, where none is there but those in `there_`.
  std::optional<BufferId> next() {
    const auto due = read_ahead_.next([this](BufferId id) { return there_.contains(id); });
    return due ? std::optional(due->id) : std::nullopt;
  }

  ReadAhead read_ahead_;
  std::set<BufferId> there_;

 private:
  std::uint32_t next_id_ = 0;
};

TEST_F(ReadAheadTest, ExpectsNothingBeforeManyWereNamedInOrder) {
  const auto weights = allocate_many(64);
  launch_each(weights, 0, kTrusted - 1);
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(read_ahead_.due_in(weights[kTrusted]), ReadAhead::kNever);
  launch(weights[kTrusted - 1]);
  EXPECT_EQ(next(), weights[kTrusted]);
}

TEST_F(ReadAheadTest, ExpectsTheRestAtTheRateOfLate) {
  const auto weights = allocate_many(64);
  for (std::size_t i = 0; i < 48; ++i) {
    launch(weights[i]);
    launch_nothing(2);
  }
  EXPECT_EQ(read_ahead_.due_in(weights[48]), 1U);
  EXPECT_NEAR(static_cast<double>(read_ahead_.due_in(weights[58])), 31, 2);
}

TEST_F(ReadAheadTest, GoesOnBehindWhatIsThere) {
  const auto weights = allocate_many(64);
  launch_each(weights, 0, kTrusted);
  there_ = {weights[kTrusted], weights[kTrusted + 1]};
  EXPECT_EQ(next(), weights[kTrusted + 2]);
  there_.erase(weights[kTrusted + 1]);
  read_ahead_.look_again_for(weights[kTrusted + 1]);
  EXPECT_EQ(next(), weights[kTrusted + 1]);
}

TEST_F(ReadAheadTest, IsSilentWhereTheOrderIsAnother) {
  auto weights = allocate_many(512);
  std::shuffle(weights.begin(), weights.end(), std::mt19937{7});
  for (const BufferId id : weights) {
    launch(id);
    EXPECT_EQ(next(), std::nullopt);
  }
}

TEST_F(ReadAheadTest, AcceptsNeighboursInAnyOrder) {
  auto weights = allocate_many(64);
  for (std::size_t i = 0; i + 1 < 32; i += 2) std::swap(weights[i], weights[i + 1]);
  launch_each(weights, 0, 32);
  EXPECT_EQ(next(), weights[32]);
}

TEST_F(ReadAheadTest, LooksPastWhatIsMadeMeanwhile) {
  const auto weights = allocate_many(64);
  for (std::size_t i = 0; i < 32; ++i) {
    const BufferId result = allocate();
    launch({weights[i], result});
    if (i % 2 == 0) read_ahead_.on_free(result);
  }
  EXPECT_EQ(next(), weights[32]);
}

TEST_F(ReadAheadTest, DoesNotFollowWhatIsMadeForEachLaunch) {
  launch_nothing(2);
  for (std::uint32_t i = 0; i < 2 * kTrusted; ++i) launch(allocate());
  const BufferId made = allocate();
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(read_ahead_.due_in(made), ReadAhead::kNever);
}

TEST_F(ReadAheadTest, FollowsWeightsAndCachesBesideEachOther) {
  const auto weights = allocate_many(64);
  const auto caches = allocate_many(64);
  for (std::size_t i = 0; i < 32; ++i) launch({weights[i], caches[i]});
  EXPECT_EQ(next(), weights[32]);
  EXPECT_EQ(read_ahead_.due_in(caches[32]), read_ahead_.due_in(weights[32]));
  for (std::size_t i = 32; i < 64; ++i) there_.insert(weights[i]);
  EXPECT_EQ(next(), caches[32]);
}

TEST_F(ReadAheadTest, LosesNoConfirmedOrderToStrays) {
  const auto weights = allocate_many(64);
  const auto strays = allocate_many(640);
  launch_each(weights, 0, kTrusted);
  for (std::size_t i = kTrusted; i < 32; ++i) {
    launch(weights[i]);
    // More of them than there are orders, far from each other.
    for (std::size_t j = 0; j < 6; ++j) launch(strays[(i * 6 + j) * 37 % 640]);
  }
  EXPECT_NE(read_ahead_.due_in(weights[32]), ReadAhead::kNever);
}

TEST_F(ReadAheadTest, LooksAtABoundedNumberAtATime) {
  const auto weights = allocate_many(1'000);
  launch_each(weights, 0, kTrusted);
  for (std::size_t i = kTrusted; i + 1 < weights.size(); ++i) there_.insert(weights[i]);
  int calls = 1;
  while (!next() && read_ahead_.is_looking()) ++calls;
  EXPECT_EQ(next(), weights.back());
  EXPECT_GT(calls, 3);
  EXPECT_LT(calls, 10);
}

TEST_F(ReadAheadTest, GivesUpWhereNothingNewIsNamedForLong) {
  const auto weights = allocate_many(64);
  launch_each(weights, 0, 32);
  launch_nothing(1'000);
  EXPECT_EQ(next(), std::nullopt);
  EXPECT_EQ(read_ahead_.due_in(weights[32]), ReadAhead::kNever);
  launch(weights[32]);
  EXPECT_EQ(next(), weights[33]);
}

TEST_F(ReadAheadTest, LeavesOutWhatIsGone) {
  const auto weights = allocate_many(64);
  launch_each(weights, 0, 32);
  read_ahead_.on_free(weights[32]);
  read_ahead_.on_free(weights[33]);
  EXPECT_EQ(next(), weights[34]);
  EXPECT_EQ(read_ahead_.due_in(weights[33]), ReadAhead::kNever);
}

TEST_F(ReadAheadTest, HasNothingMoreAtTheEnd) {
  const auto weights = allocate_many(32);
  launch_each(weights, 0, 32);
  EXPECT_EQ(next(), std::nullopt);
  const BufferId late = allocate();
  EXPECT_EQ(next(), late);
}

// Whatever comes, it names what exists, what no launch has named, and what is not there.
TEST_F(ReadAheadTest, NamesOnlyWhatCanBeBrought) {
  std::mt19937 random(11);
  std::vector<BufferId> alive;
  std::set<BufferId> waiting;
  std::uint32_t ids = 0;
  std::size_t named = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto draw = random() % 8;
    if (draw < 2 || alive.size() < 4) {
      const BufferId id{ids++ % 4096};
      if (std::ranges::find(alive, id) != alive.end()) continue;
      read_ahead_.on_allocate(id);
      alive.push_back(id);
      waiting.insert(id);
    } else if (draw == 2) {
      const std::size_t at = random() % alive.size();
      read_ahead_.on_free(alive[at]);
      waiting.erase(alive[at]);
      there_.erase(alive[at]);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (draw == 3 && !there_.empty()) {
      const BufferId gone = *there_.begin();
      there_.erase(there_.begin());
      read_ahead_.look_again_for(gone);
    } else {
      // Mostly the next that waits, in the order of allocation.
      const auto first =
          std::ranges::find_if(alive, [&](BufferId id) { return waiting.contains(id); });
      const bool follows = first != alive.end() && random() % 16 != 0;
      const BufferId id = follows ? *first : alive[random() % alive.size()];
      launch(id);
      waiting.erase(id);
    }
    if (const auto id = next()) {
      ++named;
      ASSERT_TRUE(waiting.contains(*id));
      ASSERT_FALSE(there_.contains(*id));
      ASSERT_NE(read_ahead_.due_in(*id), ReadAhead::kNever);
      there_.insert(*id);
    }
  }
  EXPECT_GT(named, 100U);
}

}  // namespace
}  // namespace superpipe
