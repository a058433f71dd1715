#include "residency/room/pages_lacking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Bytes> sizes_of(const PagesLacking& lacking) {
  std::vector<Bytes> sizes;
  lacking.for_each_size([&](Bytes size) { sizes.push_back(size); });
  return sizes;
}

TEST(PagesLacking, AnySizeDoesUnlessOneIsNamed) {
  EXPECT_TRUE(PagesLacking(Bytes{}).is_any());
  EXPECT_TRUE(PagesLacking(Bytes{}).includes(2_MiB));
  EXPECT_TRUE(PagesLacking().includes(2_MiB));
  EXPECT_THAT(sizes_of(PagesLacking()), IsEmpty());
  const PagesLacking one(8_MiB);
  EXPECT_FALSE(one.is_any());
  EXPECT_TRUE(one.includes(8_MiB));
  EXPECT_FALSE(one.includes(2_MiB));
}

TEST(PagesLacking, ASizeIsLackingUntilAsManyBytesOfItWereTaken) {
  PagesLacking lacking;
  lacking.add(8_MiB);
  lacking.add(2_MiB);
  lacking.add(8_MiB);
  EXPECT_THAT(sizes_of(lacking), ElementsAre(8_MiB, 2_MiB));
  lacking.take(8_MiB, 8_MiB);
  EXPECT_TRUE(lacking.includes(8_MiB));
  lacking.take(2_MiB, 6_MiB);
  EXPECT_FALSE(lacking.includes(2_MiB)) << "more are there than are lacking";
  lacking.take(8_MiB, 8_MiB);
  EXPECT_FALSE(lacking.includes(8_MiB));
  EXPECT_FALSE(lacking.is_any()) << "of the sizes that are lacking there are enough";
  lacking.take(4_MiB, 4_MiB);
  EXPECT_FALSE(lacking.includes(4_MiB));
}

TEST(PagesLacking, AnyNumberOfPagesOfASingleSizeIsLacking) {
  PagesLacking lacking(8_MiB);
  lacking.take(8_MiB, 1_GiB);
  EXPECT_TRUE(lacking.includes(8_MiB));
}

TEST(PagesLacking, ForgetsAllButTheLargestSize) {
  PagesLacking lacking;
  for (const Bytes size : {2_MiB, 8_MiB, 6_MiB}) lacking.add(size);
  lacking.keep_largest();
  EXPECT_THAT(sizes_of(lacking), ElementsAre(8_MiB));
  EXPECT_FALSE(lacking.includes(6_MiB));
  lacking.take(8_MiB, 8_MiB);
  EXPECT_TRUE(lacking.includes(8_MiB)) << "of the largest any number will do";
  PagesLacking any;
  any.keep_largest();
  EXPECT_TRUE(any.includes(6_MiB));
}

TEST(PagesLacking, LacksAnyNumberOfTheLargestAlsoWhereItWasThere) {
  PagesLacking lacking;
  for (const Bytes size : {8_MiB, 2_MiB}) lacking.add(size);
  EXPECT_TRUE(lacking.is_bounded());
  lacking.take(8_MiB, 8_MiB);
  lacking.keep_largest();
  EXPECT_TRUE(lacking.includes(8_MiB));
  EXPECT_FALSE(lacking.is_bounded());
}

TEST(PagesLacking, RemembersTheFirstSizesOfMany) {
  PagesLacking lacking;
  for (std::uint64_t size = 1; size <= 20; ++size) lacking.add(Bytes{size << 20});
  EXPECT_THAT(sizes_of(lacking), SizeIs(8));
  EXPECT_TRUE(lacking.includes(1_MiB));
  EXPECT_FALSE(lacking.includes(20_MiB));
}

}  // namespace
}  // namespace superpipe
