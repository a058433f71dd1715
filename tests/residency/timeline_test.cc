// What the manager records of a run, for a picture of it.
#include <map>
#include <set>

#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using Kind = TimelineEvent::Kind;

class TimelineTest : public ManagerTest {
 protected:
  std::vector<TimelineEvent> run(bool record) {
    options_.record_timeline = record;
    make(budget_of(3));
    std::vector<Address> layers;
    for (int i = 0; i < 6; ++i) layers.push_back(load(1, i));
    for (int pass = 0; pass < 5; ++pass) {
      for (const Address layer : layers) EXPECT_EQ(launch({layer}), Status::kOk);
    }
    device_->drain();
    work();
    EXPECT_GT(manager_->stats().h2d_bytes, Bytes{});
    return manager_->stats().timeline;
  }
};

TEST_F(TimelineTest, RecordsNothingUnlessAsked) { EXPECT_TRUE(run(false).empty()); }

TEST_F(TimelineTest, RecordsEveryLaunchAndEveryTransfer) {
  std::map<Kind, std::uint64_t> counts;
  for (const TimelineEvent& event : run(true)) {
    ++counts[event.kind];
    EXPECT_EQ(event.size, Bytes{kPage});
  }
  const ResidencyStats stats = manager_->stats();
  EXPECT_EQ(counts[Kind::kLaunch], 30U);
  EXPECT_EQ(counts[Kind::kEvictBegin], stats.write_backs + stats.clean_evictions);
  EXPECT_EQ(counts[Kind::kEvictEnd], counts[Kind::kEvictBegin]);
  // Buffers that got their page when they were new were not fetched, but came too.
  EXPECT_GE(counts[Kind::kFetchEnd], stats.prefetches + stats.demand_fetches);
  EXPECT_EQ(counts[Kind::kFetchEnd], counts[Kind::kFetchBegin]);
}

TEST_F(TimelineTest, ShowsNoMoreBuffersOnTheDeviceThanTheBudgetHolds) {
  std::set<std::uint32_t> on_device;
  for (const TimelineEvent& event : run(true)) {
    if (event.kind == Kind::kFetchBegin) on_device.insert(index_of(event.buffer));
    if (event.kind == Kind::kEvictEnd) on_device.erase(index_of(event.buffer));
    if (event.kind == Kind::kLaunch) {
      EXPECT_TRUE(on_device.contains(index_of(event.buffer)));
    }
    EXPECT_LE(on_device.size(), 3U);
  }
}

}  // namespace
}  // namespace superpipe::testing
