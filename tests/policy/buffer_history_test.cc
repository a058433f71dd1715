#include "policy/buffer_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr BufferId kEarly{1};
constexpr BufferId kLate{2};

TEST(BufferHistory, RemembersWhenABufferCameAndWasUsed) {
  BufferHistory history;
  history.on_allocate(kLate, 4_MiB);
  EXPECT_EQ(history.on_launch(std::array{kLate}), 4_MiB);
  history.on_allocate(kEarly, 1_MiB);
  EXPECT_EQ(history.on_launch(std::array{kLate, kEarly}), 5_MiB);
  EXPECT_EQ(history.on_launch(std::array{kLate}), 4_MiB);

  const BufferHistory::Buffer* const one = history.find(kEarly);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->last_use, 2U);
  ASSERT_NE(history.find(kLate), nullptr);
  EXPECT_EQ(history.find(kLate)->last_use, 3U);
  EXPECT_EQ(history.used_since(0), 5_MiB);
  EXPECT_EQ(history.used_since(2), 4_MiB);
  EXPECT_EQ(history.used_since(3), Bytes{});
  EXPECT_EQ(history.find(BufferId{0}), nullptr);
  EXPECT_EQ(history.find(BufferId{3}), nullptr);
}

TEST(BufferHistory, TakesAnIdThatComesAgainForAnotherBuffer) {
  BufferHistory history;
  history.on_allocate(kEarly, 4_MiB);
  (void)history.on_launch(std::array{kEarly});
  history.on_free(kEarly);
  EXPECT_EQ(history.find(kEarly), nullptr);
  EXPECT_EQ(history.footprint_of(kEarly), Bytes{});
  EXPECT_EQ(history.largest(), Bytes{});
  EXPECT_THAT(history.footprints(), ElementsAre(Bytes{}, 4_MiB)) << "also of those that are gone";
  history.on_allocate(kEarly, 2_MiB);
  ASSERT_NE(history.find(kEarly), nullptr);
  EXPECT_EQ(history.find(kEarly)->last_use, 0U);
  EXPECT_EQ(history.footprint_of(kEarly), 2_MiB);
  EXPECT_EQ(history.largest(), 2_MiB);
}

TEST(BufferHistory, WeighsCandidatesThatExistByTheirLastUse) {
  BufferHistory history;
  history.on_allocate(kEarly, 4_MiB);
  history.on_allocate(kLate, 2_MiB);
  (void)history.on_launch(std::array{kLate});
  (void)history.on_launch(std::array{kEarly});
  const auto resident = history.by_last_use(std::array{kEarly, BufferId{7}, kLate});
  ASSERT_THAT(resident, SizeIs(2));
  EXPECT_EQ(resident[0].id, kEarly);
  EXPECT_EQ(resident[0].footprint, 4_MiB);
  EXPECT_THAT(plan_eviction_or_all(resident, 1_MiB), ElementsAre(kLate));
}

}  // namespace
}  // namespace superpipe
