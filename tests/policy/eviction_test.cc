#include "policy/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr BufferId kWeights{1};
constexpr BufferId kActivations{2};
constexpr BufferId kGradients{3};

ResidentBuffer buffer(BufferId id, Bytes footprint, std::uint64_t next_use) {
  ResidentBuffer one;
  one.id = id;
  one.footprint = footprint;
  one.next_use = next_use;
  return one;
}

TEST(PlanEviction, TakesFurthestNextUseFirst) {
  const std::vector<ResidentBuffer> resident = {
      buffer(kWeights, 2_MiB, 5), buffer(kActivations, 2_MiB, 9), buffer(kGradients, 2_MiB, 7)};
  EXPECT_THAT(plan_eviction(resident, 3_MiB), Optional(ElementsAre(kActivations, kGradients)));
}

TEST(PlanEvictionOrAll, TakesAllInOrderWhenTheyAreTooSmall) {
  const std::vector<ResidentBuffer> resident = {
      buffer(kWeights, 2_MiB, 5), buffer(kActivations, 2_MiB, 9), buffer(kGradients, 2_MiB, 7)};
  EXPECT_THAT(plan_eviction_or_all(resident, 3_MiB), ElementsAre(kActivations, kGradients));
  EXPECT_THAT(plan_eviction_or_all(resident, 7_MiB),
              ElementsAre(kActivations, kGradients, kWeights));
  EXPECT_THAT(plan_eviction_or_all({}, 1_MiB), IsEmpty());
}

TEST(PlanEviction, TakesLeastRecentlyUsedOnATie) {
  std::vector<ResidentBuffer> resident = {buffer(kWeights, 2_MiB, 5),
                                          buffer(kActivations, 2_MiB, 5)};
  resident[0].last_use = 30;
  resident[1].last_use = 20;
  EXPECT_THAT(plan_eviction(resident, 1_MiB), Optional(ElementsAre(kActivations)));
}

TEST(PlanEviction, SparesVictimThatALargerOneMakesNeedless) {
  const std::vector<ResidentBuffer> resident = {buffer(kWeights, 1_MiB, 9),
                                                buffer(kActivations, 8_MiB, 5)};
  EXPECT_THAT(plan_eviction(resident, 8_MiB), Optional(ElementsAre(kActivations)));
}

TEST(PlanEviction, HasNoPlanWhenAllTogetherAreTooSmall) {
  const std::vector<ResidentBuffer> resident = {buffer(kWeights, 2_MiB, 1),
                                                buffer(kActivations, 2_MiB, 2)};
  EXPECT_THAT(plan_eviction(resident, 4_MiB), Optional(ElementsAre(kActivations, kWeights)));
  EXPECT_EQ(plan_eviction(resident, 4_MiB + Bytes{1}), std::nullopt);
}

TEST(PlanEviction, TakesNothingWhenNothingIsNeeded) {
  EXPECT_THAT(plan_eviction({}, Bytes{}), Optional(IsEmpty()));
  EXPECT_EQ(plan_eviction({}, Bytes{1}), std::nullopt);
}

RC_GTEST_PROP(PlanEviction, FreesEnoughAndNoVictimIsNeedless, ()) {
  const auto sizes = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange(0, 9));
  std::vector<ResidentBuffer> resident;
  for (const std::uint64_t size : sizes) {
    const auto id = static_cast<std::uint32_t>(resident.size());
    resident.push_back(buffer(BufferId{id}, Bytes{size}, *rc::gen::inRange<std::uint64_t>(0, 6)));
    resident.back().last_use = *rc::gen::inRange<std::uint64_t>(0, 4);
  }
  const Bytes needed{*rc::gen::inRange<std::uint64_t>(0, 40)};
  Bytes evictable;
  for (const ResidentBuffer& one : resident) evictable += one.footprint;
  const auto victims = plan_eviction(resident, needed);
  RC_ASSERT(victims.has_value() == (evictable >= needed));
  if (!victims) return;
  Bytes freed;
  std::set<std::uint32_t> seen;
  for (const BufferId id : *victims) {
    RC_ASSERT(seen.insert(index_of(id)).second);
    freed += resident[index_of(id)].footprint;
  }
  RC_ASSERT(freed >= needed);
  for (const BufferId id : *victims) {
    RC_ASSERT(freed - resident[index_of(id)].footprint < needed);
  }
  for (std::size_t at = 1; at < victims->size(); ++at) {
    RC_ASSERT(resident[index_of((*victims)[at - 1])].next_use >=
              resident[index_of((*victims)[at])].next_use);
  }
}

// Misses of the best possible replacement, by trying every victim.
int fewest_misses(const std::vector<int>& order, std::size_t at, const std::set<int>& cache,
                  std::size_t capacity,
                  std::map<std::pair<std::size_t, std::set<int>>, int>& known) {
  if (at == order.size()) return 0;
  const auto key = std::make_pair(at, cache);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  int best = 0;
  if (cache.count(order[at]) != 0) {
    best = fewest_misses(order, at + 1, cache, capacity, known);
  } else if (cache.size() < capacity) {
    std::set<int> next = cache;
    next.insert(order[at]);
    best = 1 + fewest_misses(order, at + 1, next, capacity, known);
  } else {
    best = 1 << 20;
    for (const int victim : cache) {
      std::set<int> next = cache;
      next.erase(victim);
      next.insert(order[at]);
      best = std::min(best, 1 + fewest_misses(order, at + 1, next, capacity, known));
    }
  }
  known[key] = best;
  return best;
}

int misses_by_plan(const std::vector<int>& order, std::size_t capacity) {
  std::set<int> cache;
  int misses = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (cache.count(order[at]) != 0) continue;
    ++misses;
    if (cache.size() == capacity) {
      std::vector<ResidentBuffer> resident;
      for (const int page : cache) {
        const auto next =
            std::find(order.begin() + static_cast<std::ptrdiff_t>(at), order.end(), page);
        resident.push_back(buffer(BufferId{static_cast<std::uint32_t>(page)}, 1_MiB,
                                  next == order.end()
                                      ? kNeverUsedAgain
                                      : static_cast<std::uint64_t>(next - order.begin())));
      }
      const auto victims = plan_eviction(resident, 1_MiB);
      for (const BufferId victim : victims.value()) cache.erase(static_cast<int>(index_of(victim)));
    }
    cache.insert(order[at]);
  }
  return misses;
}

RC_GTEST_PROP(PlanEviction, MissesAsRarelyAsAnyReplacementCanWhenSizesAreEqual, ()) {
  const auto order =
      *rc::gen::resize(14, rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6)));
  const auto capacity = *rc::gen::inRange<std::size_t>(1, 5);
  std::map<std::pair<std::size_t, std::set<int>>, int> known;
  RC_ASSERT(misses_by_plan(order, capacity) == fewest_misses(order, 0, {}, capacity, known));
}

}  // namespace
}  // namespace superpipe
