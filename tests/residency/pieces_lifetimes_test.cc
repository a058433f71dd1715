// Allocations and frees of buffers that are cut into pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "residency/uses/buffer_lifetimes.h"
#include "residency/uses/copy_routes.h"
#include "tests/residency/pieces_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Allocations and frees of the program.
class PiecesLifetimesTest : public PiecesTest {
 protected:
  using PiecesTest::PiecesTest;

  BufferId allocate(Bytes size) EXCLUDES(manager_lock) {
    const auto address = lifetimes_.allocate(size, std::nullopt);
    EXPECT_TRUE(address.ok());
    return BufferId{core_.arena->index_at(address.ok() ? *address : 0)};
  }
  /// A new buffer with content of `value`.
  BufferId allocate_written(Bytes size, int value) EXCLUDES(manager_lock) {
    const BufferId id = allocate(size);
    const ManagerLock lock(core_.mutex);
    write(id, value);
    return id;
  }
  Status free(BufferId id) EXCLUDES(manager_lock) {
    return lifetimes_.free(core_.buffers[id].base, std::nullopt);
  }
  /// A freed buffer of kSize that was written, and whose second piece is out.
  BufferId free_without_second() EXCLUDES(manager_lock) {
    const BufferId id = allocate_written(kSize, 20);
    take_out(id, {1});
    EXPECT_EQ(free(id), Status::kOk);
    return id;
  }
  void reclaim_all() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    while (pages_.reclaim_one()) {
    }
  }

  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
};

TEST_F(PiecesLifetimesTest, ANewBufferBeginsWithAllItsPiecesInPlace) {
  const BufferId id = allocate(kSize);
  EXPECT_THAT(places(id), ElementsAre(PieceState::kIn, PieceState::kIn, PieceState::kIn));
  EXPECT_EQ(device_.device_bytes(), kPages);
  for (const Piece& piece : core_.buffers[id].pieces) EXPECT_TRUE(piece.told_in);
}

TEST_F(PiecesLifetimesTest, PolicyWantsABufferUntilItsLastPieceHasCome) {
  const std::array<BufferId, 3> pass{allocate_written(kSize, 10), allocate_written(kSize, 20),
                                     allocate_written(kSize, 30)};
  const ManagerLock lock(core_.mutex);
  const auto announce = [&](BufferId id) NO_THREAD_SAFETY_ANALYSIS {
    const std::array<BufferId, 1> named{id};
    (void)core_.policy.on_launch(Access{KernelId{100 + index_of(id)}, named});
  };
  for (int i = 0; i < 8; ++i) {
    for (const BufferId id : pass) announce(id);
  }
  evictor_.evict({pass[1], 0});
  evictor_.evict({pass[1], 2});
  announce(pass[0]);
  const auto target = [&]() NO_THREAD_SAFETY_ANALYSIS {
    const auto next = core_.puller()->next_target();
    return next ? std::optional<BufferId>(next->id) : std::nullopt;
  };
  EXPECT_EQ(target(), pass[1]);
  EXPECT_TRUE(fetch({pass[1], 0}));
  EXPECT_EQ(target(), pass[1]);
  EXPECT_TRUE(fetch({pass[1], 2}));
  EXPECT_EQ(target(), std::nullopt);
}

TEST_F(PiecesLifetimesTest, ABufferOfWhichAPartIsInIsCachedWithThesePagesAlone) {
  const BufferId id = free_without_second();
  EXPECT_EQ(core_.cache.bytes(), kPages - kPiece);
  EXPECT_THAT(core_.cache.of(kPages), ElementsAre(id));
  EXPECT_FALSE(core_.buffers[id].host.slab);
  EXPECT_EQ(core_.host.reserved(), Bytes{});
}

TEST_F(PiecesLifetimesTest, ABufferOfWhichAllPiecesAreOutIsForgotten) {
  const BufferId id = allocate_written(kSize, 20);
  take_out(id, {0, 1, 2});
  EXPECT_EQ(free(id), Status::kOk);
  EXPECT_THAT(core_.cache.of(kPages), IsEmpty());
  EXPECT_THAT(core_.buffers[id].pieces, IsEmpty());
}

TEST_F(PiecesLifetimesTest, AReusedBufferIsNewAndWhatWasOutIsStillOut) {
  const BufferId id = free_without_second();
  ASSERT_EQ(allocate(kPages), id) << "a size of the same pages";
  const Buffer& buffer = core_.buffers[id];
  EXPECT_EQ(core_.cache.bytes(), Bytes{});
  EXPECT_THAT(places(id), ElementsAre(PieceState::kIn, PieceState::kOut, PieceState::kIn));
  EXPECT_EQ(counts(id), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(buffer.content_of(2), kGranule);
  EXPECT_TRUE(buffer.fresh);
  for (std::uint32_t n = 0; n < 3; ++n) {
    EXPECT_FALSE(buffer.is_dirty(n)) << n;
    EXPECT_EQ(buffer.pieces[n].told_in, n != 1) << n;
  }
  {
    const ManagerLock lock(core_.mutex);
    EXPECT_TRUE(is_victim(id)) << "policy has been told anew";
  }
  EXPECT_EQ(launch(id), Status::kOk);
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0) << "it has no content yet";
}

TEST_F(PiecesLifetimesTest, AReclaimGivesAllPagesOfACachedBufferBack) {
  const BufferId id = free_without_second();
  const Address base = core_.buffers[id].base;
  {
    const ManagerLock lock(core_.mutex);
    EXPECT_TRUE(pages_.reclaim_one());
  }
  EXPECT_EQ(core_.cache.bytes(), Bytes{});
  EXPECT_EQ(core_.pool->idle_bytes(), kPages);
  EXPECT_THAT(core_.buffers[id].pieces, IsEmpty());
  EXPECT_EQ(core_.arena->take(kPages), base);
  reclaim_all();
  EXPECT_EQ(device_.device_bytes(), Bytes{});
  EXPECT_EQ(device_.mapped_ranges(), 0U);
}

TEST_F(PiecesLifetimesTest, ACachedBufferKeepsItsPagesWhileAPieceIsArriving) {
  const BufferId id = allocate(kSize);
  {
    const ManagerLock lock(core_.mutex);
    core_.buffers[id].set_ready(1, blocked_event());
  }
  ASSERT_EQ(free(id), Status::kOk);
  reclaim_all();
  EXPECT_THAT(places(id), ElementsAre(PieceState::kIn, PieceState::kIn, PieceState::kIn));
  EXPECT_EQ(core_.cache.bytes(), kPages);
  unblock();
  reclaim_all();
  EXPECT_EQ(device_.device_bytes(), Bytes{});
}

TEST_F(PiecesLifetimesTest, AReclaimThatFailsHalfWayLeavesTheRestCached) {
  const BufferId id = allocate(kSize);
  ASSERT_EQ(free(id), Status::kOk);
  device_.fail(Call::kUnmap, 2, Status::kDeviceError);
  {
    const ManagerLock lock(core_.mutex);
    (void)pages_.reclaim_one();
    EXPECT_FALSE(core_.ledger.expects_pages());
  }
  EXPECT_THAT(places(id), ElementsAre(PieceState::kOut, PieceState::kIn, PieceState::kIn));
  EXPECT_EQ(core_.cache.bytes(), kPages - kPiece);
  EXPECT_EQ(allocate(kSize), id);
  EXPECT_EQ(launch(id), Status::kOk);
}

TEST_F(PiecesLifetimesTest, AFreeGivesThePageOfAnEvictionThatFailedHalfWayBack) {
  const BufferId id = allocate_written(kSize, 20);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  take_out(id, {1});
  ASSERT_TRUE(core_.buffers[id].pieces[1].has_page());
  ASSERT_EQ(free(id), Status::kOk);
  EXPECT_EQ(core_.pool->idle_bytes(), kPiece);
  EXPECT_EQ(core_.cache.bytes(), kPages - kPiece);
  ASSERT_EQ(allocate(kSize), id);
  EXPECT_EQ(launch(id), Status::kOk);
}

TEST_F(PiecesLifetimesTest, AnAllocationThatFailsAtOnePieceLeavesNothingInPlace) {
  // Each page is mapped at its window when it is created, and then all at the buffer's address.
  for (const auto& [call, nth] : {std::pair{Call::kCreatePages, 3}, std::pair{Call::kMap, 5}}) {
    device_.fail(call, nth, Status::kDeviceError);
    EXPECT_EQ(lifetimes_.allocate(kSize, std::nullopt).status(), Status::kDeviceError);
    EXPECT_EQ(core_.cache.bytes(), Bytes{});
    EXPECT_EQ(core_.pool->idle_bytes(), device_.device_bytes()) << name_of(call);
    EXPECT_THAT(core_.buffers[BufferId{0}].pieces, IsEmpty());
    reclaim_all();
    EXPECT_EQ(device_.mapped_ranges(), 0U) << name_of(call);
  }
  EXPECT_EQ(core_.buffers[allocate(kSize)].base, core_.arena_base + kGranule.count());
}

/// A budget of four pages, and pieces of one.
class TightPiecesLifetimesTest : public PiecesLifetimesTest {
 protected:
  TightPiecesLifetimesTest() : PiecesLifetimesTest(options_in_pieces(4, kGranule)) {}
};

TEST_F(TightPiecesLifetimesTest, ABufferBeginsInPlaceAsAWholeOrNotAtAll) {
  const BufferId first = allocate(3 * kGranule);
  const BufferId second = allocate(2 * kGranule);
  EXPECT_THAT(places(first), ElementsAre(PieceState::kIn, PieceState::kIn, PieceState::kIn));
  EXPECT_THAT(places(second), ElementsAre(PieceState::kOut, PieceState::kOut));
  EXPECT_EQ(device_.calls(Call::kUnmap), 0) << "nothing was evicted for it";
  EXPECT_FALSE(core_.buffers[second].has_pages());
  EXPECT_THAT(places(allocate(kGranule)), ElementsAre(PieceState::kIn))
      << "the fourth page is left";
  EXPECT_EQ(device_.peak_bytes(), 4 * kGranule);
}

/// Buffers read as zero until they are written.
class ZeroFillPiecesTest : public PiecesLifetimesTest {
 protected:
  ZeroFillPiecesTest() : PiecesLifetimesTest(zero_filling()) {}

  CopyRoutes routes_{core_, streams_, mover_, uses_, digests_};

 private:
  static ResidencyOptions zero_filling() {
    ResidencyOptions options = options_in_pieces(1024);
    options.zero_fill = true;
    return options;
  }
};

TEST_F(ZeroFillPiecesTest, AReusedBufferReadsAsZeroWhetherItsPiecesWereInOrOut) {
  const BufferId id = free_without_second();
  ASSERT_EQ(allocate(kSize), id);
  ASSERT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(0, 0, 0));
}

TEST_F(ZeroFillPiecesTest, ACopyIntoOnePieceLeavesTheOthersZero) {
  const auto used = core_.host.acquire(kPages, false);
  ASSERT_TRUE(used.ok());
  std::memset(used->data, 7, kPages.count());
  core_.host.release(*used, {});
  const BufferId id = free_without_second();
  ASSERT_EQ(allocate(kSize), id);
  UseToken token;
  const auto route =
      routes_.begin(core_.buffers[id].base + kPiece.count(), kPiece, stream_, true, token);
  ASSERT_TRUE(route.ok());
  ASSERT_NE(route->host, nullptr);
  std::memset(route->host, 77, kPiece.count());
  routes_.end(token, stream_, true);
  device_.drain();  // the pieces that were in are zero now
  take_out(id, {0, 2});
  EXPECT_THAT(host_values(id), ElementsAre(0, 77, 0));
  ASSERT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(0, 77, 0));
}

}  // namespace
}  // namespace superpipe::testing
