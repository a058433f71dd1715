#include "policy/pin_list.h"

#include <gtest/gtest.h>

#include <array>

namespace superpipe {
namespace {

TEST(PinList, NamesBuffersByTheirNumbers) {
  const auto list = PinList::parse("3,12-14");
  ASSERT_TRUE(list.has_value());
  EXPECT_FALSE(list->empty());
  for (const std::uint64_t number : {3, 12, 13, 14}) EXPECT_TRUE(list->includes(number, 1_MiB));
  for (const std::uint64_t number : {1, 2, 4, 11, 15}) EXPECT_FALSE(list->includes(number, 1_MiB));
}

TEST(PinList, NamesBuffersByTheirSizes) {
  const auto list = PinList::parse("8M,1.5M-2MiB,4097B");
  ASSERT_TRUE(list.has_value());
  for (const Bytes size : {8_MiB, Bytes{1572864}, 2_MiB, Bytes{4097}}) {
    EXPECT_TRUE(list->includes(1, size));
  }
  for (const Bytes size : {8_MiB - Bytes{1}, Bytes{1572863}, 2_MiB + Bytes{1}, Bytes{8}}) {
    EXPECT_FALSE(list->includes(8, size)) << size.count();
  }
}

TEST(PinList, TakesBothTogether) {
  const auto list = PinList::parse("7,8M");
  ASSERT_TRUE(list.has_value());
  EXPECT_TRUE(list->includes(7, 1_MiB));
  EXPECT_TRUE(list->includes(1, 8_MiB));
  EXPECT_FALSE(list->includes(8, 7_MiB));
}

TEST(PinList, IsEmptyUnlessItIsRead) {
  EXPECT_TRUE(PinList().empty());
  EXPECT_FALSE(PinList().includes(1, 1_MiB));
}

TEST(PinList, RefusesWhatIsNoList) {
  for (const char* const text : {"",      ",",    "1,",   ",1",    "0",
                                 "-1",    "1-",   "2-1",  "1-2-3", "x",
                                 "1 2",   "8M-1", "1-8M", "10%",   "0M",
                                 "2M-1M", "8X",   "B",    "0B",    "99999999999999999999"}) {
    EXPECT_FALSE(PinList::parse(text).has_value()) << text;
  }
}

TEST(PinListText, IsWhatTheListIsReadFrom) {
  EXPECT_EQ(pin_list_text(std::array<std::uint64_t, 1>{5}), "5");
  EXPECT_EQ(pin_list_text(std::array<std::uint64_t, 6>{1, 2, 3, 7, 9, 10}), "1-3,7,9-10");
  EXPECT_EQ(pin_list_text({}), "");
  const auto list = PinList::parse("1-3,7,9-10");
  ASSERT_TRUE(list.has_value());
  for (const std::uint64_t number : {1, 2, 3, 7, 9, 10}) EXPECT_TRUE(list->includes(number, 1_MiB));
  for (const std::uint64_t number : {4, 6, 8, 11}) EXPECT_FALSE(list->includes(number, 1_MiB));
}

}  // namespace
}  // namespace superpipe
