#include "tools/superpipe/report/link_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace superpipe::cli {
namespace {

constexpr std::uint64_t kMicrosecond = 1000;

double all_of(const LinkUse& link) {
  const auto bins = link.carried().bins();
  return std::accumulate(bins.begin(), bins.end(), 0.0);
}

TEST(LinkUse, CarriesEachByteOnce) {
  LinkUse link(64);
  for (std::uint64_t number = 1; number <= 500; ++number) {
    link.enqueue(number, number * 100 * kMicrosecond, 3_MiB);
    // The end of every third is not told: it comes before the next one's.
    const bool is_told = number % 3 != 0;
    EXPECT_EQ(is_told && link.end(number, (number * 100 + 90) * kMicrosecond), is_told);
  }
  link.finish(60'000 * kMicrosecond);
  EXPECT_EQ(link.bytes(), 1500_MiB);
  EXPECT_NEAR(all_of(link), static_cast<double>((1500_MiB).count()), 1);
}

TEST(LinkUse, BeginsWhenTheOneBeforeHasEnded) {
  LinkUse link(1024);
  link.enqueue(1, 0, Bytes{1'024'000});
  link.enqueue(2, 0, Bytes{1'024'000});
  link.end(1, 512 * kMicrosecond);
  link.end(2, 1024 * kMicrosecond);
  link.finish(2048 * kMicrosecond);
  EXPECT_EQ(link.busy(), 1024 * kMicrosecond);
  const double rate = 2'048'000.0 / (1024 * kMicrosecond);  // bytes a nanosecond
  const double width = static_cast<double>(link.carried().width());
  for (std::size_t i = 0; i + 1 < 1024 * kMicrosecond / link.carried().width(); ++i) {
    EXPECT_NEAR(link.carried().bins()[i], rate * width, 1) << i;
  }
}

TEST(LinkUse, EndsOfOneLookShareTheTime) {
  LinkUse link(1024);
  link.enqueue(1, 0, Bytes{1'000'000});
  link.enqueue(2, 0, Bytes{1'000'000});
  link.end(1, 1'000 * kMicrosecond);
  link.end(2, 1'001 * kMicrosecond);  // it did not take a microsecond
  link.finish(2'000 * kMicrosecond);
  const double most = *std::max_element(link.carried().bins().begin(), link.carried().bins().end());
  EXPECT_LT(most / static_cast<double>(link.carried().width()), 2.1);
}

TEST(LinkUse, DoesNotKnowOthersTransfers) {
  LinkUse link(64);
  EXPECT_FALSE(link.end(1, 5));
  link.enqueue(2, 5, 1_MiB);
  EXPECT_FALSE(link.end(1, 6));
  EXPECT_TRUE(link.end(2, 7));
  EXPECT_FALSE(link.end(2, 8));
}

TEST(LinkUse, KeepsBytesWhoseEndIsNotTold) {
  LinkUse link(64);
  for (std::uint64_t number = 1; number <= LinkUse::kMostUnderWay + 10; ++number) {
    link.enqueue(number, number, Bytes{3});
  }
  link.finish(1'000'000);
  EXPECT_NEAR(all_of(link), 3.0 * (LinkUse::kMostUnderWay + 10), 1e-3);
}

}  // namespace
}  // namespace superpipe::cli
