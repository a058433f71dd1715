// What a launch is begun with where not all that it names fits.
#include "residency/room/partial_admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "residency/room/turn.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Room for four pages.
class PartialAdmissionTest : public UsingCoreTest {
 protected:
  PartialAdmissionTest() : UsingCoreTest(options_of(4)) {}

  /// Asks for pinned buffers, of which the `certain` first ones must be there.
  Result<std::size_t> bring_in(std::vector<BufferId>& ids, std::size_t certain)
      EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    Turn turn(core_);
    EXPECT_TRUE(turn.take(core_.now() + core_.options.wait_limit));
    for (const BufferId id : ids) ++core_.buffers[id].pins;
    return partial_.bring_in({ids, certain, KernelId{7}, Slot{0}, false, &turn}, Decision{});
  }
  void end(std::span<const BufferId> left_out) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    partial_.end(left_out, false, nullptr);
  }
  /// Whether each is pinned once, as its caller left it.
  bool are_pinned(const std::vector<BufferId>& ids) const {
    return std::ranges::all_of(ids, [this](BufferId id) { return core_.buffers[id].pins == 1; });
  }
  PieceState place_of(BufferId id) const { return core_.buffers[id].pieces[0].state(); }

  PartialAdmission partial_{core_, evictions_, admission_, left_out_};
};

TEST_F(PartialAdmissionTest, WhatFitsIsAllBroughtIn) {
  std::vector<BufferId> ids{out(2), out(2)};
  const auto left_out = bring_in(ids, 1);
  ASSERT_TRUE(left_out.ok());
  EXPECT_EQ(*left_out, 0U);
  EXPECT_TRUE(are_pinned(ids));
  EXPECT_EQ(place_of(ids[0]), PieceState::kIn);
  EXPECT_EQ(place_of(ids[1]), PieceState::kIn);
}

TEST_F(PartialAdmissionTest, WhatIsLeftOutComesLastAndStaysPinned) {
  const BufferId certain = out(2);
  const BufferId large = out(3);
  const BufferId small = out(1);
  std::vector<BufferId> ids{certain, large, small};
  const auto left_out = bring_in(ids, 1);
  ASSERT_TRUE(left_out.ok());
  EXPECT_EQ(*left_out, 1U);
  EXPECT_THAT(ids, ElementsAre(certain, small, large));
  EXPECT_TRUE(are_pinned(ids));
  EXPECT_EQ(place_of(small), PieceState::kIn);
  EXPECT_EQ(place_of(large), PieceState::kOut);
  EXPECT_EQ(core_.buffers[large].left_out, 1U);
  EXPECT_EQ(counters().left_out_launches, 1U);
  end(std::span(ids).last(1));
  EXPECT_EQ(core_.buffers[large].left_out, 0U);
}

TEST_F(PartialAdmissionTest, WhatMustBeThereAndDoesNotFitIsRefusedWithAllPinned) {
  const std::vector<BufferId> named{out(3), out(2)};
  std::vector<BufferId> ids = named;
  EXPECT_EQ(bring_in(ids, 2).status(), Status::kWorkingSetTooLarge);
  EXPECT_THAT(ids, UnorderedElementsAre(named[0], named[1]));
  EXPECT_TRUE(are_pinned(ids));
  EXPECT_EQ(core_.buffers[named[0]].left_out, 0U);
}

}  // namespace
}  // namespace superpipe::testing
