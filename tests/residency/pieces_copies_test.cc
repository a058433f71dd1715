// Copies of the program from and to buffers of which a part is in place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "residency/uses/copy_routes.h"
#include "tests/residency/pieces_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Copies of the program, between parts of a buffer and the program's memory.
class PiecesCopyTest : public PiecesTest {
 protected:
  enum class Way { kIntoBuffer, kOutOfBuffer };
  struct Part {
    Bytes offset;
    Bytes size;
  };
  static constexpr Part kFirst{Bytes{}, kPiece};
  static constexpr Part kSecond{kPiece, kPiece};
  static constexpr Part kFirstTwo{Bytes{}, 2 * kPiece};

  using PiecesTest::PiecesTest;

  Result<CopyRoute> begin(BufferId id, const Part& part, Way way, UseToken& token,
                          StreamHandle stream) EXCLUDES(manager_lock) {
    return routes_.begin(core_.buffers[id].base + part.offset.count(), part.size, stream,
                         way == Way::kIntoBuffer, token);
  }
  /// A copy that the calling thread makes by itself. `value`: what one into the buffer writes, if
  /// it has a host route. @return why it is not given a route, or kOk. It has ended.
  Status copy_now(BufferId id, const Part& part, Way way, int value = 0) EXCLUDES(manager_lock) {
    UseToken token;
    const auto route = begin(id, part, way, token, stream_);
    if (!route.ok()) return route.status();
    device_.drain();
    const bool writes = route->host != nullptr && way == Way::kIntoBuffer;
    if (writes) std::memset(route->host, value, part.size.count());
    end(token, stream_, /*submitted=*/route->host == nullptr);
    return Status::kOk;
  }
  /// A copy with a host route, which does not end before unblock().
  void copy_blocked(BufferId id, const Part& part, Way way) EXCLUDES(manager_lock) {
    const StreamHandle blocked = blocked_stream();
    UseToken token;
    const auto route = begin(id, part, way, token, blocked);
    ASSERT_TRUE(route.ok());
    ASSERT_NE(route->host, nullptr);
    end(token, blocked);
  }
  void end(UseToken& token, StreamHandle stream, bool submitted = true) EXCLUDES(manager_lock) {
    if (token.is_host_route()) {
      routes_.end(token, stream, submitted);
    } else {
      uses_.end_use(token, stream, submitted);
    }
  }

  CopyRoutes routes_{core_, streams_, mover_, uses_, digests_};
};

TEST_F(PiecesCopyTest, ACopyIntoPiecesThatAreOutGoesToTheHostCopyThoughOthersAreIn) {
  const BufferId id = pieces_in(4 * kPiece, 20);
  take_out(id, {1, 2});
  const Part part{kPiece, 2 * kPiece};
  UseToken token;
  const auto route = begin(id, part, Way::kIntoBuffer, token, stream_);
  ASSERT_TRUE(route.ok());
  ASSERT_EQ(route->host, core_.buffers[id].host.slab.data + kPiece.count());
  EXPECT_TRUE(core_.buffers[id].host.is_busy());
  std::memset(route->host, 77, part.size.count());
  end(token, stream_);
  EXPECT_THAT(device_values(id), ElementsAre(20, kGone, kGone, 23)) << "nothing was fetched for it";
  ASSERT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 77, 77, 23));
}

TEST_F(PiecesCopyTest, WhatACopyWroteToTheHostCopyOutlivesTheEvictionOfTheOtherPieces) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {1});
  ASSERT_EQ(copy_now(id, kSecond, Way::kIntoBuffer, 77), Status::kOk);
  take_out(id, {0, 2});
  EXPECT_THAT(host_values(id), ElementsAre(20, 77, 22));
}

TEST_F(PiecesCopyTest, ACopyThatBeginsInAPieceInPlaceGoesToTheDevice) {
  const Part straddles{kPiece - Bytes{1}, Bytes{2}};
  for (const Part& part : {kFirst, straddles, Part{Bytes{}, kSize}}) {
    const BufferId id = pieces_in(kSize, 20);
    take_out(id, {1, 2});
    take_out(id, {0});
    {
      const ManagerLock lock(core_.mutex);
      ASSERT_TRUE(fetch({id, 0}));
    }
    for (const Way way : {Way::kOutOfBuffer, Way::kIntoBuffer}) {
      UseToken token;
      const auto route = begin(id, part, way, token, stream_);
      ASSERT_TRUE(route.ok());
      EXPECT_EQ(route->host, nullptr);
      EXPECT_FALSE(token.is_host_route());
      EXPECT_EQ(core_.buffers[id].pins, 1U);
      end(token, stream_);
      EXPECT_EQ(core_.buffers[id].is_dirty(0), way == Way::kIntoBuffer);
    }
    EXPECT_EQ(launch(id), Status::kOk);
    device_.drain();
    EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  }
}

TEST_F(PiecesCopyTest, ACopyThatBeginsInAPieceThatIsOutGoesToTheHostCopyUpToThePieceInPlace) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {0});
  const Part most{Bytes{10}, kSize - Bytes{10}};
  for (const Way way : {Way::kOutOfBuffer, Way::kIntoBuffer}) {
    UseToken token;
    const auto route = begin(id, most, way, token, stream_);
    ASSERT_TRUE(route.ok());
    EXPECT_EQ(route->host, core_.buffers[id].host.slab.data + 10);
    EXPECT_EQ(route->size, kPiece - Bytes{10});
    EXPECT_EQ(core_.buffers[id].pins, 0U) << "the pieces in place may go meanwhile";
    end(token, stream_);
    EXPECT_THAT(device_values(id), ElementsAre(kGone, 21, 22));
  }
}

TEST_F(PiecesCopyTest, TheStreamOfACopyWaitsForTheWriteBacksOfThePiecesThatItNames) {
  const BufferId id = pieces_clean(kSize, 10);
  take_out(id, {0, 1, 2});
  const auto [first, second] = two_blocked_events();
  core_.buffers[id].pieces[0].write_back = first;
  core_.buffers[id].pieces[1].write_back = second;
  const auto copy = [&](const Part& part, bool& has_run) {
    const StreamHandle stream = device_.program_stream();
    UseToken token;
    ASSERT_TRUE(begin(id, part, Way::kOutOfBuffer, token, stream).ok());
    device_.submit(stream, [&has_run] { has_run = true; });
    end(token, stream);
  };
  bool has_copied_first = false;
  bool has_copied_two = false;
  bool has_copied_last = false;
  copy(kFirst, has_copied_first);
  copy(kFirstTwo, has_copied_two);
  copy(Part{2 * kPiece, Bytes{100}}, has_copied_last);
  device_.drain();
  EXPECT_TRUE(has_copied_last);
  EXPECT_FALSE(has_copied_first);
  unblock();
  EXPECT_TRUE(has_copied_first);
  EXPECT_FALSE(has_copied_two);
  unblock();
  EXPECT_TRUE(has_copied_two);
}

TEST_F(PiecesCopyTest, ACopyWaitsUntilAPieceThatItNamesHasStoppedMoving) {
  const BufferId id = pieces_clean(kSize, 10);
  take_out(id, {1});
  core_.pieces.enter({id, 1}, PieceState::kFetching);
  in_round(3, [&] { core_.pieces.enter({id, 1}, PieceState::kOut); });
  EXPECT_EQ(copy_now(id, kSecond, Way::kOutOfBuffer), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 3);
}

TEST_F(PiecesCopyTest, APieceWhosePageHasTheOnlyContentIsReadOnTheDevice) {
  const BufferId id = pieces_in(kSize, 20);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  take_out(id, {1});
  take_out(id, {0});
  ASSERT_THAT(places(id), ElementsAre(PieceState::kOut, PieceState::kUnmapped, PieceState::kIn));
  EXPECT_EQ(copy_now(id, kFirst, Way::kOutOfBuffer), Status::kOk);
  EXPECT_THAT(places(id), ElementsAre(PieceState::kOut, PieceState::kUnmapped, PieceState::kIn))
      << "on the host";
  EXPECT_EQ(copy_now(id, kSecond, Way::kOutOfBuffer), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
}

TEST_F(PiecesCopyTest, AFetchOfAnotherPieceDoesNotForgetAWriteOfTheProgram) {
  const BufferId id = pieces_clean(kSize, 10);
  take_out(id, {0, 1});
  copy_blocked(id, kSecond, Way::kIntoBuffer);
  {
    const ManagerLock lock(core_.mutex);
    EXPECT_TRUE(fetch({id, 0}));
  }
  {
    const ManagerLock lock(core_.mutex);
    EXPECT_TRUE(fetch({id, 1}));
  }
  device_.drain();
  EXPECT_FALSE(is_complete(core_.buffers[id].pieces[1].ready)) << "the program has not written";
  unblock();
  EXPECT_TRUE(is_complete(core_.buffers[id].pieces[1].ready));
}

TEST_F(PiecesCopyTest, AWriteBackOfAnotherPieceDoesNotForgetAReadOfTheProgram) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {1});
  copy_blocked(id, kSecond, Way::kOutOfBuffer);
  take_out(id, {0});
  ASSERT_THAT(places(id), ElementsAre(PieceState::kOut, PieceState::kOut, PieceState::kIn));
  EXPECT_THAT(core_.buffers[id].host.operations, SizeIs(1)) << "the next one has to wait for it";
  unblock();
  EXPECT_EQ(host_values(id).front(), 20);
}

TEST_F(PiecesCopyTest, ATransferForgetsTheOperationsThatAreOver) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {1});
  copy_blocked(id, kSecond, Way::kIntoBuffer);
  ASSERT_THAT(core_.buffers[id].host.operations, SizeIs(1));
  unblock();
  take_out(id, {0});
  EXPECT_THAT(core_.buffers[id].host.operations, IsEmpty());
}

}  // namespace
}  // namespace superpipe::testing
