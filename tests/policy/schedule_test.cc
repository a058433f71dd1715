#include "policy/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/policy/properties.h"

namespace superpipe {
namespace {

using ::testing::Optional;

WindowSchedule schedule_of(WindowKind kind, std::size_t k, std::size_t k_prime,
                           std::size_t visits) {
  return {kind, k, k_prime, visits};
}

TEST(WindowAt, EndsWithThePassAndWaitsWhenNaive) {
  const WindowSchedule schedule = schedule_of(WindowKind::kNaive, 3, 0, 7);
  EXPECT_THAT(window_at(schedule, 0), Optional(Window{0, 3, true}));
  EXPECT_EQ(window_at(schedule, 2), std::nullopt);
  EXPECT_THAT(window_at(schedule, 6), Optional(Window{6, 1, true}));
  EXPECT_THAT(window_at(schedule, 7), Optional(Window{7, 3, true}));
}

TEST(WindowAt, WaitsOnlyAtTheStartOfAPassWhenAsPublished) {
  const WindowSchedule schedule = schedule_of(WindowKind::kSuperpipelinePaper, 4, 2, 7);
  EXPECT_THAT(window_at(schedule, 7), Optional(Window{7, 4, true}));
  EXPECT_EQ(window_at(schedule, 8), std::nullopt);
  EXPECT_THAT(window_at(schedule, 9), Optional(Window{9, 4, false}));
  EXPECT_THAT(window_at(schedule, 11), Optional(Window{11, 3, false}));
  EXPECT_THAT(window_at(schedule, 13), Optional(Window{13, 1, false}));
}

TEST(WindowFrom, ReachesTheNextWindowOfTheSchedule) {
  EXPECT_EQ(window_from(schedule_of(WindowKind::kNaive, 3, 0, 7), 4), (Window{4, 2, true}));
  EXPECT_EQ(window_from(schedule_of(WindowKind::kSuperpipelinePaper, 4, 2, 7), 5),
            (Window{5, 2, false}));
}

TEST(MaxWindowBytes, CountsEachItemOnceOverTheWrap) {
  const VisitNeeds needs = {{0}, {1}, {2}, {1}};
  const std::vector<Bytes> bytes = {Bytes{1}, Bytes{10}, Bytes{100}};
  EXPECT_EQ(max_window_bytes(needs, bytes, 1), Bytes{100});
  EXPECT_EQ(max_window_bytes(needs, bytes, 2), Bytes{110});
  EXPECT_EQ(max_window_bytes(needs, bytes, 3), Bytes{111});
  EXPECT_EQ(max_window_bytes(needs, bytes, 9), Bytes{111});
  EXPECT_EQ(max_window_bytes({}, bytes, 2), Bytes{});
}

TEST(LargestFittingK, IsTheLastThatFits) {
  const VisitNeeds needs = {{0}, {1}, {2}, {3}};
  const std::vector<Bytes> bytes(4, 16_MiB);
  EXPECT_EQ(largest_fitting_k(needs, bytes, 15_MiB), 0U);
  EXPECT_EQ(largest_fitting_k(needs, bytes, 16_MiB), 1U);
  EXPECT_EQ(largest_fitting_k(needs, bytes, 47_MiB), 2U);
  EXPECT_EQ(largest_fitting_k(needs, bytes, 1_GiB), 4U);
}

RC_GTEST_PROP(LargestFittingK, FitsAndOneMoreDoesNot, ()) {
  const auto items = *rc::gen::inRange<std::uint32_t>(1, 12);
  std::vector<Bytes> bytes;
  for (std::uint32_t item = 0; item < items; ++item) {
    bytes.emplace_back(*rc::gen::inRange<std::uint64_t>(1, 20));
  }
  const auto visits = *rc::gen::inRange<std::size_t>(1, 20);
  VisitNeeds needs(visits);
  for (auto& need : needs) need = {*rc::gen::inRange<std::uint32_t>(0, items)};
  const Bytes available{*rc::gen::inRange<std::uint64_t>(0, 150)};
  const std::size_t k = largest_fitting_k(needs, bytes, available);
  RC_ASSERT(k <= visits);
  RC_ASSERT(k == 0 || max_window_bytes(needs, bytes, k) <= available);
  RC_ASSERT(k == visits || max_window_bytes(needs, bytes, k + 1) > available);
}

// Applies a schedule to an order of layers, from the first visit on.
struct Replay {
  std::set<std::uint32_t> resident;
  std::map<std::uint32_t, std::uint64_t> fetches;
  std::size_t most = 0;
  bool always_there = true;

  void run(const WindowSchedule& schedule, const std::vector<std::uint32_t>& order,
           std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t visit = from; visit < to; ++visit) {
      if (const auto window = window_at(schedule, visit)) {
        std::set<std::uint32_t> wanted;
        for (std::uint64_t at = 0; at < window->count; ++at) {
          wanted.insert(order[(window->begin + at) % order.size()]);
        }
        for (auto layer = resident.begin(); layer != resident.end();) {
          layer = wanted.count(*layer) != 0 ? std::next(layer) : resident.erase(layer);
        }
        for (const std::uint32_t layer : wanted) {
          if (resident.insert(layer).second) ++fetches[layer];
        }
        most = std::max(most, resident.size());
      }
      always_there = always_there && resident.count(order[visit % order.size()]) != 0;
    }
  }
};

WindowSchedule any_schedule(std::size_t visits) {
  const auto kind = *rc::gen::element(WindowKind::kNaive, WindowKind::kSuperpipelinePaper);
  const auto k = *rc::gen::inRange<std::size_t>(2, 12);
  return {kind, k, *rc::gen::inRange<std::size_t>(1, k), visits};
}

RC_GTEST_PROP(WindowSchedule, HasEveryLayerThereInTimeAndNeverMoreThanK, ()) {
  const auto order = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(0, 9)));
  const WindowSchedule schedule = any_schedule(order.size());
  Replay replay;
  replay.run(schedule, order, 0, 5 * order.size());
  RC_ASSERT(replay.always_there);
  RC_ASSERT(replay.most <= schedule.k);
}

RC_GTEST_PROP(WindowSchedule, FetchesEachLayerOncePerPassWhenCyclic, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(3, 30);
  WindowSchedule schedule = any_schedule(n);
  schedule.k = std::min(schedule.k, n - 1);
  schedule.k_prime = std::max<std::size_t>(1, std::min(schedule.k_prime, schedule.k - 1));
  std::vector<std::uint32_t> order;
  for (std::uint32_t layer = 0; layer < n; ++layer) order.push_back(layer);
  Replay replay;
  replay.run(schedule, order, 0, 2 * n);
  replay.fetches.clear();
  replay.run(schedule, order, 2 * n, 3 * n);
  // Where the last window of a pass and the first of the next share no layer, each comes once.
  const bool all_leave = 2 * schedule.k <= n;
  for (const std::uint32_t layer : order) {
    const std::uint64_t fetches = replay.fetches[layer];
    RC_ASSERT(fetches == 1U || (fetches == 0U && !all_leave));
  }
}

}  // namespace
}  // namespace superpipe
