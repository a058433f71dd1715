// The log finds launches that are alike, and forgets without mixing up those that it keeps.
#include "policy/launch_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Bytes kWeights{100};
constexpr Bytes kActivations{7};

class LaunchLogTest : public ::testing::Test {
 protected:
  void allocate(std::uint32_t id, Bytes bytes = kWeights) { log_.on_allocate(BufferId{id}, bytes); }
  /// @return its place
  std::size_t launch(std::uint64_t kernel, std::initializer_list<std::uint32_t> ids) {
    std::vector<LaunchLog::Name> names;
    for (const std::uint32_t id : ids) names.push_back(log_.name_of(BufferId{id}));
    log_.append(KernelId{kernel}, names);
    return log_.size() - 1;
  }
  std::size_t launch_and_note(std::uint64_t kernel, std::initializer_list<std::uint32_t> ids) {
    const std::size_t place = launch(kernel, ids);
    log_.note_use();
    return place;
  }
  LaunchLog::Name name(std::uint32_t id) { return log_.name_of(BufferId{id}); }

  LaunchLog log_{8};
};

TEST_F(LaunchLogTest, FindsTheLaunchThatNamedTheSameBuffer) {
  allocate(0);
  allocate(1);
  launch_and_note(1, {0});
  launch_and_note(1, {1});
  const std::size_t present = launch(1, {0});
  EXPECT_EQ(log_.most_like(present, {}), 0U);
}

TEST_F(LaunchLogTest, FindsNoneOfAnotherKernel) {
  allocate(0);
  launch_and_note(1, {0});
  const std::size_t present = launch(2, {0});
  EXPECT_EQ(log_.most_like(present, {}), std::nullopt);
}

TEST_F(LaunchLogTest, PrefersWhatIsTriedFirstAmongEquals) {
  allocate(0);
  launch_and_note(1, {0});
  launch_and_note(9, {});
  launch_and_note(1, {});
  launch_and_note(9, {});
  launch_and_note(1, {});
  launch_and_note(9, {});
  const std::size_t present = launch(1, {});
  EXPECT_EQ(log_.most_like(present, {}), 4U);
  EXPECT_EQ(log_.most_like(present, std::array<std::size_t, 1>{2}), 2U);
}

TEST_F(LaunchLogTest, KnowsAPairOfLaunchesByItsOrder) {
  launch_and_note(1, {});
  launch_and_note(2, {});
  launch_and_note(1, {});
  const std::size_t second_of_pair = launch(2, {});
  EXPECT_EQ(log_.most_like(second_of_pair, {}), 1U);
}

TEST_F(LaunchLogTest, KnowsTheSecondOfTwoThatAreTheSame) {
  launch_and_note(1, {});
  launch_and_note(1, {});
  launch_and_note(2, {});
  launch_and_note(2, {});
  launch_and_note(1, {});
  const std::size_t present = launch(1, {});
  EXPECT_EQ(log_.most_like(present, {}), 1U);
}

TEST_F(LaunchLogTest, TakesABufferForTheOneThatIsGoneAndWasNamedInItsPlace) {
  allocate(0);
  allocate(1, kActivations);
  const std::size_t past = launch_and_note(1, {0, 1});
  const LaunchLog::Name gone = name(1);
  log_.on_free(BufferId{1});
  EXPECT_FALSE(log_.knows(BufferId{1}));
  EXPECT_EQ(log_.today(gone), LaunchLog::kNoName);
  allocate(1, kActivations);
  const std::size_t present = launch(1, {0, 1});
  EXPECT_TRUE(log_.is_as_expected(past, present));
  log_.link(past, present);
  EXPECT_EQ(log_.today(gone), name(1));
  EXPECT_EQ(log_.buffer(name(1)).predecessor, gone);
}

TEST_F(LaunchLogTest, BuffersThatWereThereTellLaunchesApart) {
  allocate(0);
  allocate(1);
  launch_and_note(1, {0});
  launch_and_note(1, {1});
  const std::size_t present = launch(1, {0});
  EXPECT_EQ(log_.agrees(0, present), std::optional(true));
  EXPECT_EQ(log_.agrees(1, present), std::optional(false));
  log_.note_use();
  const std::size_t tells_nothing = launch(1, {});
  EXPECT_EQ(log_.agrees(0, tells_nothing), std::nullopt);
}

TEST_F(LaunchLogTest, SaysWhichLaunchesBehindAPlaceNameABuffer) {
  allocate(0);
  allocate(1);
  for (const std::uint32_t id : {0, 1, 0, 0}) launch_and_note(1, {id});
  EXPECT_THAT(log_.uses_behind(0, name(0)), ElementsAre(2, 3));
  EXPECT_THAT(log_.uses_behind(2, name(0)), ElementsAre(3));
  EXPECT_THAT(log_.uses_behind(3, name(0)), IsEmpty());
  EXPECT_THAT(log_.uses_behind(0, name(1)), ElementsAre(1));
}

TEST_F(LaunchLogTest, KindsThatAreSeldomAsExpectedAreUnlikely) {
  allocate(0);
  const std::size_t norm = launch_and_note(1, {0});
  const std::size_t expert = launch_and_note(2, {0});
  for (int i = 0; i < 16; ++i) log_.learn(expert, false);
  EXPECT_TRUE(log_.is_likely(norm));
  EXPECT_FALSE(log_.is_likely(expert));
  for (int i = 0; i < 32; ++i) log_.learn(expert, true);
  EXPECT_TRUE(log_.is_likely(expert));
  EXPECT_GT(log_.likelihood(expert), LaunchLog::kLeastLikelihood);
}

TEST_F(LaunchLogTest, TakesWhatIsAllocatedForWhatIsAwaitedInItsOrder) {
  log_.await(std::vector<Bytes>{kWeights, kActivations, kWeights});
  allocate(5, kActivations);
  allocate(6, kWeights);
  allocate(7, kWeights);
  EXPECT_EQ(name(5), 1U);
  EXPECT_EQ(name(6), 0U);
  EXPECT_EQ(name(7), 2U);
  allocate(8, kWeights);  // one more than awaited
  EXPECT_EQ(name(8), 3U);
}

TEST_F(LaunchLogTest, AwaitsNothingOnceItIsToldSo) {
  log_.await(std::vector<Bytes>{kWeights, kWeights});
  log_.await_nothing();
  allocate(0, kWeights);
  EXPECT_EQ(name(0), 2U);
}

TEST_F(LaunchLogTest, AwaitsNothingOnceItForgets) {
  log_.await(std::vector<Bytes>{kWeights, kWeights});
  allocate(0, kWeights);
  EXPECT_EQ(name(0), 0U);
  log_.forget_older_half();
  allocate(1, kWeights);
  EXPECT_EQ(name(1), 1U) << "the awaited one has no name any more";
  launch_and_note(1, {0, 1});
  EXPECT_THAT(log_.names_of(0), ElementsAre(name(0), name(1)));
}

TEST_F(LaunchLogTest, ForgetsTheOlderHalfAndKeepsPlacesNamesAndKindsOfTheRest) {
  allocate(0, kActivations);
  for (int i = 0; i < 4; ++i) launch_and_note(1, {0});
  log_.on_free(BufferId{0});
  allocate(1);
  allocate(2);
  for (int i = 0; i < 2; ++i) {
    launch_and_note(1, {1});
    launch_and_note(2, {2});
  }
  for (int i = 0; i < 16; ++i) log_.learn(5, false);
  const double likelihood = log_.likelihood(5);
  ASSERT_TRUE(log_.is_full());
  EXPECT_EQ(log_.forget_older_half(), 4U);
  EXPECT_FALSE(log_.is_full());
  EXPECT_EQ(log_.forgotten(), 4U);
  ASSERT_EQ(log_.size(), 4U);
  EXPECT_EQ(name(1), 0U);  // nobody names the buffer that is gone
  EXPECT_THAT(log_.names_of(0), ElementsAre(name(1)));
  EXPECT_THAT(log_.names_of(3), ElementsAre(name(2)));
  EXPECT_THAT(log_.buffer(name(2)).uses, ElementsAre(1, 3));
  EXPECT_EQ(log_.likelihood(1), likelihood);
  EXPECT_FALSE(log_.is_likely(1));
  const std::size_t present = launch(2, {2});
  EXPECT_EQ(log_.most_like(present, {}), 1U);
}

TEST_F(LaunchLogTest, RoomForBuffersGrowsWhereMostOfThemExist) {
  for (std::uint32_t id = 0; id < 16; ++id) allocate(id);
  ASSERT_TRUE(log_.is_full_of_buffers());
  EXPECT_EQ(log_.forget_older_half(), 0U);
  EXPECT_FALSE(log_.is_full_of_buffers());
  for (std::uint32_t id = 0; id < 16; ++id) EXPECT_EQ(name(id), id);
}

TEST_F(LaunchLogTest, BuffersThatAreGoneLeaveRoomWhenItForgets) {
  for (std::uint32_t id = 0; id < 16; ++id) allocate(id);
  for (std::uint32_t id = 0; id < 15; ++id) log_.on_free(BufferId{id});
  log_.forget_older_half();
  EXPECT_EQ(name(15), 0U);
}

}  // namespace
}  // namespace superpipe
