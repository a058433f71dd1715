// Cards and links by their names.
#include "tools/superpipe/planner/cards.h"

#include <gtest/gtest.h>

namespace superpipe::cli {
namespace {

TEST(CardsTest, AreFoundAsPeopleWriteThem) {
  ASSERT_NE(find_card("RTX 4090"), nullptr);
  EXPECT_EQ(find_card("rtx-4090")->memory, 24_GiB);
  EXPECT_EQ(find_card("GeForce RTX 4090"), find_card("rtx4090"));
  EXPECT_EQ(find_card("rtx9999"), nullptr);
  EXPECT_EQ(find_card(""), nullptr);
  for (const Card& card : all_cards()) EXPECT_TRUE(link_named(card.link)) << card.name;
}

TEST(LinksTest, AreNamesOrNumbers) {
  EXPECT_EQ(link_named("gen4")->bytes_per_second, 25e9);
  EXPECT_EQ(link_named("31.5")->bytes_per_second, 31.5e9);
  for (const char* const bad : {"", "gen9", "0", "-1", "nan", "inf", "25GB"}) {
    EXPECT_FALSE(link_named(bad)) << bad;
  }
}

}  // namespace
}  // namespace superpipe::cli
