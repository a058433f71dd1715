#include "tools/simgpu/driver/device/card.h"

#include <gtest/gtest.h>

namespace simgpu {
namespace {

TEST(Card, IsFoundByName) {
  ASSERT_NE(find_card("h200"), nullptr);
  EXPECT_EQ(find_card("h200")->memory_bytes, std::uint64_t{141} << 30);
  EXPECT_EQ(find_card("gtx"), nullptr);
  EXPECT_EQ(find_card(""), nullptr);
  EXPECT_NE(card_names().find("a100-pcie"), std::string::npos);
}

TEST(Card, TableHoldsWhatCardsCanDo) {
  for (const Card& card : cards()) {
    SCOPED_TRACE(card.name);
    // The link is the bottleneck that superpipe lives with: 1/90 to 1/12 of the memory.
    EXPECT_LT(card.h2d_gbps, card.memory_gbps / 10);
    EXPECT_GT(card.h2d_gbps, card.memory_gbps / 100);
    EXPECT_GT(card.half_flops, card.single_flops);
    EXPECT_GE(card.duplex, 0.5);
    EXPECT_LT(card.duplex, 1);
    EXPECT_GT(card.copy_ns, 0);
    EXPECT_GT(card.launch_ns, 0);
  }
}

TEST(Scaled, KeepsWhatAProgramOfScaledSizesTakesAndMultipliesItBySlowdown) {
  const Card& card = *find_card("h100-sxm");
  const Card small = scaled(card, 64, 8);
  const auto link_ns = [](const Card& on, double bytes) {
    return bytes / on.h2d_gbps + on.copy_ns;
  };
  const auto product_ns = [](const Card& on, double flops) { return flops / on.half_flops; };
  EXPECT_NEAR(link_ns(small, 1e9 / 64), 8 * link_ns(card, 1e9), 1);
  EXPECT_NEAR(product_ns(small, 1e12 / 64), 8 * product_ns(card, 1e12), 1);
  EXPECT_EQ(small.memory_bytes, card.memory_bytes / 64);
  EXPECT_DOUBLE_EQ(small.launch_ns, 8 * card.launch_ns);
  EXPECT_DOUBLE_EQ(small.call_factor, 8);
  EXPECT_DOUBLE_EQ(small.duplex, card.duplex);
}

TEST(ScaleFor, LeavesMemoryThatThisMachineKeepsUpWith) {
  for (const Card& card : cards()) {
    const double scale = scale_for(card, kUsualSlowdown);
    EXPECT_LE(scaled(card, scale, kUsualSlowdown).memory_gbps, 8) << card.name;
    EXPECT_GT(scaled(card, scale / 2, kUsualSlowdown).memory_gbps, 8) << card.name;
    EXPECT_GE(scaled(card, scale, kUsualSlowdown).memory_bytes, std::uint64_t{1} << 30)
        << card.name;
  }
}

}  // namespace
}  // namespace simgpu
