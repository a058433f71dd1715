// The states of pieces: what their table says, and that nothing changes but by it.
#include "residency/pieces/piece_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "residency/pieces/buffer_table.h"
#include "residency/pieces/piece_state.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;

/// The states that a piece can come to from `state`, in any number of changes.
std::set<PieceState> reachable_from(PieceState state) {
  std::set<PieceState> found;
  std::vector<PieceState> open{state};
  while (!open.empty()) {
    const PieceState from = open.back();
    open.pop_back();
    for (const PieceTransition& transition : kPieceTransitions) {
      if (transition.from == from && found.insert(transition.to).second) {
        open.push_back(transition.to);
      }
    }
  }
  return found;
}

TEST(PieceStateTable, HasTheFactsOfEachStateInItsPlace) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kPieceStates; ++i) {
    EXPECT_EQ(facts_of(static_cast<PieceState>(i)).state, static_cast<PieceState>(i));
    names.insert(facts_of(static_cast<PieceState>(i)).name);
  }
  EXPECT_EQ(names.size(), kPieceStates);
}

TEST(PieceStateTable, NoStateIsADeadEnd) {
  for (const PieceStateFacts& facts : kPieceStateFacts) {
    EXPECT_EQ(reachable_from(facts.state).size(), kPieceStates) << facts.name;
  }
}

TEST(PieceStateTable, EachTransitionIsThereOnce) {
  std::set<std::pair<PieceState, PieceState>> seen;
  for (const PieceTransition& transition : kPieceTransitions) {
    EXPECT_NE(transition.from, transition.to);
    EXPECT_TRUE(seen.insert({transition.from, transition.to}).second)
        << facts_of(transition.from).name << " to " << facts_of(transition.to).name;
  }
}

// What the page alone has may only be dropped where something else has it, or nothing wants it:
// a piece that an eviction or a copy failed for keeps its page until its buffer is freed.
TEST(PieceStateTable, OnlyWhatMovesOrIsDecidedLosesItsPage) {
  std::vector<std::string> losing;
  for (const PieceTransition& transition : kPieceTransitions) {
    const bool loses = facts_of(transition.from).has_page && !facts_of(transition.to).has_page;
    if (loses) losing.emplace_back(facts_of(transition.from).name);
  }
  EXPECT_THAT(losing, ElementsAre("arriving", "in", "leaving", "digesting", "unmapped"));
}

// A launch uses what is in, so that the content has to be unmapped before it is read, and read
// before it is dropped (I2).
TEST(PieceStateTable, WhatLeavesIsUnmappedByCallsThatNothingElseRunsBeside) {
  for (const PieceTransition& transition : kPieceTransitions) {
    if (transition.from != PieceState::kIn || transition.to == PieceState::kOut) continue;
    EXPECT_TRUE(facts_of(transition.to).is_moving) << facts_of(transition.to).name;
  }
}

TEST(PieceStateTable, WhatIsVacatingHasAPageAndIsNotIn) {
  for (const PieceStateFacts& facts : kPieceStateFacts) {
    EXPECT_TRUE(facts.has_page || !facts.is_vacating) << facts.name;
    EXPECT_FALSE(facts.is_vacating && facts.state == PieceState::kIn);
    EXPECT_FALSE(facts.is_moving && facts.is_out) << facts.name;
  }
}

/// A buffer of two pieces, and a listener that notes what it is told.
class PieceStatesTest : public ::testing::Test, protected PieceListener {
 protected:
  PieceStatesTest() NO_THREAD_SAFETY_ANALYSIS {
    id_ = *buffers_.create();
    buffers_[id_].cut(Bytes{2 * 4096}, Bytes{4096});
  }
  void on_piece_state(PieceId id, PieceState from) noexcept override {
    told_.emplace_back(id.index, from);
  }
  [[nodiscard]] Piece& piece(std::uint32_t index) NO_THREAD_SAFETY_ANALYSIS {
    return buffers_[id_].pieces[index];
  }
  /// Brings piece 0 to `state` by the shortest way from kOut.
  void bring_to(PieceState state) NO_THREAD_SAFETY_ANALYSIS {
    std::vector<std::vector<PieceState>> ways{{PieceState::kOut}};
    for (std::size_t i = 0; i < ways.size() && ways[i].back() != state; ++i) {
      for (const PieceTransition& transition : kPieceTransitions) {
        const bool is_new = std::ranges::find(ways[i], transition.to) == ways[i].end();
        if (transition.from != ways[i].back() || !is_new) continue;
        ways.push_back(ways[i]);
        ways.back().push_back(transition.to);
        if (transition.to == state) {
          return take(ways.back());
        }
      }
    }
  }
  /// Takes one step of the table.
  void step(PieceState to) NO_THREAD_SAFETY_ANALYSIS {
    const PieceId id{id_, 0};
    const bool had_page = piece(0).has_page();
    const bool gets_page = facts_of(to).has_page;
    if (had_page && to == PieceState::kOut) {
      left_ = states_.leave(id);
    } else if (!had_page && gets_page) {
      Page page;
      page.handle = PageHandle{7};
      states_.enter(id, to, std::move(page));
    } else {
      states_.enter(id, to);
    }
  }
  void take(const std::vector<PieceState>& way) {
    for (const PieceState state : std::span(way).subspan(1)) step(state);
  }

  BufferTable buffers_;
  PieceStates states_{buffers_, *this};
  BufferId id_{};
  std::vector<std::pair<std::uint32_t, PieceState>> told_;
  std::optional<Page> left_;  ///< the page that the last leave() returned
};

TEST_F(PieceStatesTest, EachTransitionOfTheTableIsMadeAndTold) {
  for (const PieceTransition& transition : kPieceTransitions) {
    buffers_[id_].uncut();
    buffers_[id_].cut(Bytes{2 * 4096}, Bytes{4096});
    bring_to(transition.from);
    ASSERT_EQ(piece(0).state(), transition.from);
    told_.clear();
    step(transition.to);
    EXPECT_EQ(piece(0).state(), transition.to);
    EXPECT_EQ(piece(0).has_page(), facts_of(transition.to).has_page);
    EXPECT_THAT(told_, ElementsAre(std::pair(0U, transition.from)));
    EXPECT_EQ(buffers_[id_].missing, piece(0).is_in() ? 1U : 2U);
    EXPECT_EQ(buffers_[id_].moving, piece(0).is_moving() ? 1U : 0U);
  }
}

TEST_F(PieceStatesTest, APageComesWithItsPieceAndGoesWithIt) {
  bring_to(PieceState::kIn);
  EXPECT_EQ(piece(0).page().handle, PageHandle{7});
  step(PieceState::kLeaving);
  EXPECT_EQ(piece(0).page().handle, PageHandle{7});
  step(PieceState::kOut);
  ASSERT_TRUE(left_.has_value());
  EXPECT_EQ(left_->handle, PageHandle{7});
  EXPECT_EQ(piece(1).state(), PieceState::kOut);
}

TEST_F(PieceStatesTest, WhatIsInIsNotKnownToBeZeroAnyMore) {
  piece(0).is_zero = true;
  bring_to(PieceState::kFetching);
  EXPECT_TRUE(piece(0).is_zero) << "its fetch may fail";
  step(PieceState::kIn);
  EXPECT_FALSE(piece(0).is_zero);
}

using PieceStatesDeathTest = PieceStatesTest;

// Each pair of states that the table does not have.
TEST_F(PieceStatesDeathTest, NothingChangesButByTheTable) {
  for (const PieceStateFacts& from : kPieceStateFacts) {
    buffers_[id_].uncut();
    buffers_[id_].cut(Bytes{2 * 4096}, Bytes{4096});
    bring_to(from.state);
    for (const PieceStateFacts& to : kPieceStateFacts) {
      if (may_follow(from.state, to.state)) continue;
      EXPECT_DEATH(step(to.state), std::string(from.name) + " cannot become " + to.name);
    }
  }
}

TEST_F(PieceStatesDeathTest, NoPageIsLostOrMadeUp) {
  EXPECT_DEATH(states_.enter({id_, 0}, PieceState::kIn, Page{}), "out cannot become in");
  bring_to(PieceState::kIn);
  EXPECT_DEATH(states_.enter({id_, 0}, PieceState::kOut), "in cannot become out");
  EXPECT_DEATH(states_.enter({id_, 0}, PieceState::kLeaving, Page{}), "in cannot become leaving");
}

/// What the core does with each change.
class PieceListenerTest : public CoreTest {
 protected:
  /// Whether `change` was announced to those who wait.
  bool announces(const std::function<void()>& change) {
    const auto before = core_.waits.changes;
    change();
    return core_.waits.changes != before;
  }
  [[nodiscard]] bool expects_page() const { return core_.ledger.expects_pages(); }
};

TEST_F(PieceListenerTest, ThePageOfAPieceThatLeavesIsExpectedUntilItHasOrStays) {
  const ManagerLock lock(core_.mutex);
  for (const PieceState end : {PieceState::kIn, PieceState::kUnmapped, PieceState::kOut}) {
    const PieceId id{make_dirty(1), 0};
    core_.pieces.enter(id, PieceState::kLeaving);
    EXPECT_TRUE(expects_page());
    core_.pieces.enter(id, PieceState::kDigesting);
    EXPECT_TRUE(expects_page());
    core_.pieces.enter(id, PieceState::kLeaving);
    if (end == PieceState::kOut) {
      core_.pool->put(core_.pieces.leave(id));
    } else {
      core_.pieces.enter(id, end);
    }
    EXPECT_FALSE(expects_page()) << facts_of(end).name;
  }
}

TEST_F(PieceListenerTest, TheEndOfAMoveIsAnnouncedAndItsBeginningIsNot) {
  const ManagerLock lock(core_.mutex);
  const PieceId id{make_dirty(1), 0};
  const auto enter = [&](PieceState state) {
    return announces([&]() NO_THREAD_SAFETY_ANALYSIS { core_.pieces.enter(id, state); });
  };
  EXPECT_FALSE(enter(PieceState::kLeaving));
  EXPECT_TRUE(enter(PieceState::kUnmapped));
  EXPECT_FALSE(enter(PieceState::kArriving));
  EXPECT_TRUE(enter(PieceState::kIn));
  EXPECT_FALSE(enter(PieceState::kCopyStarting));
  EXPECT_TRUE(enter(PieceState::kCopying));
}

// A demand that has to wait for the program is tried again and again: that wakes nothing.
TEST_F(PieceListenerTest, AFetchThatComesToNothingIsNotAnnounced) {
  const ManagerLock lock(core_.mutex);
  const PieceId id{make_out(1), 0};
  const auto enter = [&](PieceState state) {
    return announces([&]() NO_THREAD_SAFETY_ANALYSIS { core_.pieces.enter(id, state); });
  };
  EXPECT_FALSE(enter(PieceState::kFetching));
  EXPECT_FALSE(enter(PieceState::kOut));
}

}  // namespace
}  // namespace superpipe::testing
