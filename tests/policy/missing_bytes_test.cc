// What has to come before which launch.
#include "policy/missing_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// The launches before which something has to come, and how much up to then.
std::vector<std::pair<std::uint64_t, std::uint64_t>> sums(const MissingBytes& missing) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  missing.for_each_sum(
      [&](std::uint64_t launch, Bytes due) { found.emplace_back(launch, due.count()); });
  return found;
}

TEST(MissingBytes, HasNoSumWhereNothingIsMissing) { EXPECT_THAT(sums(MissingBytes{}), IsEmpty()); }

TEST(MissingBytes, AddsUpAllThatHasToComeBefore) {
  MissingBytes missing;
  missing.add(60, Bytes{3});
  missing.add(50, Bytes{2});
  missing.add(60, Bytes{4});
  EXPECT_THAT(sums(missing), ElementsAre(Pair(50, 2), Pair(60, 9)));
  missing.remove(50, Bytes{2});
  EXPECT_THAT(sums(missing), ElementsAre(Pair(60, 7)));
}

TEST(MissingBytes, ForgetsWhatWasExpectedUpToThePresent) {
  MissingBytes missing;
  missing.add(5, Bytes{100});
  missing.add(6, Bytes{1});
  missing.advance(5);
  EXPECT_THAT(sums(missing), ElementsAre(Pair(6, 1)));
  missing.remove(5, Bytes{100});
  missing.add(3, Bytes{100});
  EXPECT_THAT(sums(missing), ElementsAre(Pair(6, 1))) << "nor below nothing, nor again";
  EXPECT_EQ(missing.next_launch(), 6U);
}

TEST(MissingBytes, ForgetsEverythingAfterALongLeap) {
  MissingBytes missing;
  missing.add(5, Bytes{100});
  missing.add(1000, Bytes{100});
  missing.advance(1'000'000);
  EXPECT_THAT(sums(missing), IsEmpty());
}

TEST(MissingBytes, TakesUsesThatLieFarAhead) {
  MissingBytes missing;
  missing.advance(1001);
  missing.add(1005, Bytes{50});
  missing.add(9'000'000, Bytes{50});
  const auto found = sums(missing);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], std::pair(std::uint64_t{1002}, std::uint64_t{50})) << "not before the next";
  EXPECT_LE(found[1].first, 9'000'000U);
  EXPECT_GT(found[1].first, 8'900'000U);
  missing.remove(1005, Bytes{50});
  missing.remove(9'000'000, Bytes{50});
  EXPECT_THAT(sums(missing), IsEmpty());
}

TEST(MissingBytes, HasSmallGroupsAgainOnceItIsCleared) {
  MissingBytes missing;
  missing.add(10'000'000, Bytes{1});
  missing.clear();
  missing.add(2, Bytes{150});
  missing.add(3, Bytes{1});
  EXPECT_THAT(sums(missing), ElementsAre(Pair(2, 150), Pair(3, 151)));
}

// Beside a plain list of what is missing: a sum is that of the list up to some launch of the group.
TEST(MissingBytes, AgreesWithAListOfWhatIsMissing) {
  std::mt19937 random(3);
  const auto draw = [&random](std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random);
  };
  for (int round = 0; round < 100; ++round) {
    MissingBytes missing;
    std::multimap<std::uint64_t, std::uint64_t> list;
    std::uint64_t present = draw(500);
    missing.advance(present);
    const std::uint64_t horizon = 2 + draw(round % 2 == 0 ? 800 : 20'000);
    // Groups are at most twice as long as the furthest use asks for.
    const std::uint64_t group = 4 * (horizon / MissingBytes::kGroups + 1);
    for (int step = 0; step < 300; ++step) {
      if (draw(3) == 0 && !list.empty()) {
        const auto gone = std::next(list.begin(), static_cast<std::ptrdiff_t>(draw(list.size())));
        missing.remove(gone->first, Bytes{gone->second});
        list.erase(gone);
      } else if (draw(4) == 0) {
        missing.advance(present += draw(horizon / 8 + 2));
      } else {
        const std::uint64_t use = present + 1 + draw(horizon);
        const std::uint64_t bytes = 1 + draw(400);
        missing.add(use, Bytes{bytes});
        list.emplace(use, bytes);
      }
      const auto up_to = [&](std::uint64_t begin, std::uint64_t end) {
        std::uint64_t sum = 0;
        for (const auto& [use, bytes] : list) sum += use >= begin && use <= end ? bytes : 0;
        return sum;
      };
      for (const auto& [launch, due] : sums(missing)) {
        ASSERT_GT(launch, present);
        // What is older than the present may still be in the group of the next launch.
        const std::uint64_t oldest = present + 1 > group ? present + 1 - group : 0;
        ASSERT_GE(due, up_to(present + 1, launch)) << round << " " << step;
        ASSERT_LE(due, up_to(oldest, launch + group)) << round << " " << step;
      }
      const auto found = sums(missing);
      const std::uint64_t all = up_to(present + 1, ~std::uint64_t{0});
      ASSERT_GE(found.empty() ? 0 : found.back().second, all) << round << " " << step;
    }
  }
}

}  // namespace
}  // namespace superpipe
