#include "tools/superpipe/planner/link_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tools/superpipe/planner/assumed_link.h"

namespace superpipe::cli {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

// Transfers of 4 MiB that take `each` on the link, in batches of eight; of each batch the first
// waits for something else as long again, and the ends of the last two are seen in one look.
LinkMeter meter_of(int batches, std::int64_t each) {
  LinkMeter meter;
  std::uint64_t number = 0;
  std::int64_t time = 0;
  for (int batch = 0; batch < batches; ++batch) {
    for (std::uint64_t i = 1; i <= 8; ++i) meter.enqueue(number + i, time, 4_MiB);
    for (std::int64_t i = 1; i <= 8; ++i) {
      const std::int64_t seen_late = i == 7 ? each : 0;
      meter.end(++number, time + (1 + i) * each + seen_late);
    }
    time += 20 * each;
  }
  return meter;
}

TEST(LinkMeterTest, TellsTheSpeedThatMostTransfersHad) {
  const auto speed = meter_of(20, kMillisecond).speed();
  ASSERT_TRUE(speed.has_value());
  EXPECT_NEAR(speed->bytes_per_second, 4096 * 1024 * 1e3, 1e6);
}

TEST(LinkMeterTest, SaysNothingOfFewTransfers) {
  EXPECT_FALSE(LinkMeter().speed().has_value());
  EXPECT_FALSE(meter_of(2, kMillisecond).speed().has_value());
}

// Their time is latency, and there may be more of them.
TEST(LinkMeterTest, SmallTransfersDoNotCount) {
  LinkMeter meter = meter_of(20, kMillisecond);
  std::int64_t time = 1'000 * kMillisecond;
  for (std::uint64_t number = 1'000; number < 2'000; ++number) {
    meter.enqueue(number, time, 4_KiB);
    meter.end(number, time += kMillisecond);
  }
  EXPECT_NEAR(meter.speed()->bytes_per_second, 4096 * 1024 * 1e3, 1e6);
}

TEST(LinkMeterTest, TransfersWithoutAnEndCountWithTheNextOneThatHasOne) {
  LinkMeter meter;
  for (std::uint64_t number = 1; number <= 400; ++number) {
    meter.enqueue(number, static_cast<std::int64_t>(number) * kMillisecond, 4_MiB);
    if (number % 2 == 0) meter.end(number, static_cast<std::int64_t>(number + 1) * kMillisecond);
  }
  EXPECT_NEAR(meter.speed()->bytes_per_second, 4096 * 1024 * 1e3, 1e6);
}

TEST(LinkMeterTest, TimesThatNoTransferTakesTellNothing) {
  LinkMeter meter;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    const bool is_even = number % 2 == 0;
    meter.enqueue(number, is_even ? INT64_MIN : INT64_MAX, 4_MiB);
    meter.end(number, is_even ? INT64_MAX : INT64_MIN);
    meter.end(number + 1'000, 0);
  }
  EXPECT_FALSE(meter.speed().has_value());
}

TEST(AssumedLinkTest, IsTheUsersElseTheTracesElseTheUsualOne) {
  TracedRun run;
  EXPECT_EQ(assumed_link("", run).speed.to_host.bytes_per_second, 25e9);
  EXPECT_THAT(assumed_link("", run).text(), ::testing::StartsWith("gen4, because"));
  run.link_to_host = Bandwidth{4.02e9};
  EXPECT_EQ(assumed_link("", run).speed.to_device.bytes_per_second, 4.02e9);
  EXPECT_EQ(assumed_link("", run).name, "4.02 GB/s each way");
  run.link_to_device = Bandwidth{3.9e9};
  EXPECT_EQ(assumed_link("", run).speed.to_device.bytes_per_second, 3.9e9);
  EXPECT_EQ(assumed_link("", run).text(),
            "3.9 GB/s to the device and 4.02 GB/s back, as measured in the traced run");
  EXPECT_EQ(assumed_link("gen5", run).text(), "gen5, as was asked");
  EXPECT_EQ(assumed_link("0.1", run).name, "0.1 GB/s");
}

}  // namespace
}  // namespace superpipe::cli
