// Pieces that are fetched, used and evicted, each by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "tests/residency/pieces_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(PiecesTest, AreOfOneSizeButForTheLastAndLieOneBehindTheOther) {
  const ManagerLock lock(core_.mutex);
  const Buffer& buffer = core_.buffers[make_pieces_out(kSize, 1)];
  const std::array<Bytes, 3> pages{kPiece, kPiece, kGranule};
  const std::array<Bytes, 3> content{kPiece, kPiece, Bytes{100}};
  ASSERT_THAT(buffer.pieces, SizeIs(3));
  Bytes offset;
  for (std::uint32_t n = 0; n < 3; ++n) {
    EXPECT_EQ(buffer.offset_of(n), offset) << n;
    EXPECT_EQ(buffer.address_of(n), buffer.base + offset.count()) << n;
    EXPECT_EQ(buffer.bytes_of(n), pages[n]) << n;
    EXPECT_EQ(buffer.content_of(n), content[n]) << n;
    EXPECT_EQ(buffer.slab_of(n).data, buffer.host.slab.data + offset.count()) << n;
    EXPECT_EQ(buffer.slab_of(n).size, content[n]) << n;
    offset += pages[n];
  }
  EXPECT_EQ(offset, buffer.footprint);
}

TEST_F(PiecesTest, ASizeIsRoundedUpToPagesAndThenCut) {
  const ManagerLock lock(core_.mutex);
  struct Cut {
    Bytes size;
    std::size_t pieces;
    Bytes last_pages;
    Bytes last_content;
  };
  const Bytes one{1};
  for (const Cut& cut :
       {Cut{one, 1, kGranule, one}, Cut{kGranule + one, 1, kPiece, kGranule + one},
        Cut{kPiece, 1, kPiece, kPiece}, Cut{kPiece + one, 2, kGranule, one},
        Cut{2 * kPiece - one, 2, kPiece, kPiece - one}, Cut{2 * kPiece, 2, kPiece, kPiece}}) {
    const Buffer& buffer = core_.buffers[make_new(cut.size)];
    ASSERT_THAT(buffer.pieces, SizeIs(cut.pieces)) << cut.size.count();
    const auto last = static_cast<std::uint32_t>(cut.pieces - 1);
    EXPECT_EQ(buffer.bytes_of(last), cut.last_pages) << cut.size.count();
    EXPECT_EQ(buffer.content_of(last), cut.last_content) << cut.size.count();
    EXPECT_EQ(buffer.missing, cut.pieces) << cut.size.count();
  }
}

TEST_F(PiecesTest, ARangeOfBytesLiesInThePiecesThatHoldAnyOfThem) {
  const ManagerLock lock(core_.mutex);
  const Buffer& buffer = core_.buffers[make_new(kSize)];
  // The first and the last piece.
  const auto range = [&](Bytes offset, Bytes bytes) NO_THREAD_SAFETY_ANALYSIS {
    const auto pieces = buffer.pieces_at(offset, bytes);
    const auto first = static_cast<std::size_t>(pieces.data() - buffer.pieces.data());
    return std::pair<std::size_t, std::size_t>{first, first + pieces.size() - 1};
  };
  using Range = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(range(Bytes{}, kSize), Range(0, 2));
  EXPECT_EQ(range(Bytes{}, kPiece), Range(0, 0));
  EXPECT_EQ(range(kPiece, kPiece), Range(1, 1));
  EXPECT_EQ(range(kPiece - Bytes{1}, Bytes{2}), Range(0, 1));
  EXPECT_EQ(range(kPiece + Bytes{1}, kPiece), Range(1, 2));
  EXPECT_EQ(range(2 * kPiece, Bytes{100}), Range(2, 2));
  EXPECT_EQ(range(kPiece, Bytes{}), Range(1, 1));
  EXPECT_EQ(range(kSize, Bytes{}), Range(2, 2)) << "the end of the buffer is in its last piece";
}

TEST_F(PiecesTest, EachChangeOfAPieceIsCountedOnce) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_new(kSize);
  Buffer& buffer = core_.buffers[id];
  EXPECT_EQ(counts(id), (Counts{3, 0, 0, 0}));
  core_.pieces.enter({id, 0}, PieceState::kFetching);
  core_.pieces.enter({id, 1}, PieceState::kFetching);
  EXPECT_EQ(counts(id), (Counts{3, 2, 0, 0}));
  core_.pieces.enter({id, 0}, PieceState::kIn, make_page(kPiece));
  EXPECT_EQ(counts(id), (Counts{2, 1, 0, 0}));
  core_.pieces.enter({id, 1}, PieceState::kOut);
  EXPECT_EQ(counts(id), (Counts{2, 0, 0, 0}));
  const EventRef arrival = blocked_event();
  buffer.set_ready(0, arrival);
  buffer.set_ready(2, arrival);
  buffer.set_ready(0, end_of(stream_));
  EXPECT_EQ(counts(id), (Counts{2, 0, 2, 0})) << "an arrival in the stead of another is one";
  buffer.set_ready(2, nullptr);
  buffer.set_ready(2, nullptr);
  EXPECT_EQ(counts(id), (Counts{2, 0, 1, 0}));
  core_.pieces.enter({id, 0}, PieceState::kLeaving);
  EXPECT_EQ(counts(id), (Counts{3, 1, 1, 0}));
  core_.pieces.enter({id, 0}, PieceState::kIn);
  EXPECT_EQ(counts(id), (Counts{2, 0, 1, 0})) << "its eviction failed";
}

TEST_F(PiecesTest, APieceIsMissingAndMovesWhileTheDeviceIsCalledForIt) {
  const BufferId id = pieces_clean(kSize, 10);
  take_out(id, {0, 1, 2});
  std::vector<Counts> seen;
  device_.on_call = [&](Call call) {
    if (call != Call::kCopyToDevice && call != Call::kUnmap) return;
    const ManagerLock lock(core_.mutex);
    seen.push_back(counts(id));
  };
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(fetch({id, 1}));
  EXPECT_EQ(counts(id), (Counts{2, 0, 1, 0}));
  device_.drain();
  evictor_.evict({id, 1});
  EXPECT_EQ(counts(id), (Counts{3, 0, 0, 0}));
  device_.on_call = nullptr;
  EXPECT_THAT(seen, ElementsAre(Counts{3, 1, 0, 0}, Counts{3, 1, 1, 0}));
}

TEST_F(PiecesTest, APieceLeavesFromTheRequestUntilItsEvictionBeginsOrIsRevoked) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 10);
  const std::array<BufferId, 1> victims{id};
  EXPECT_EQ(evictions_.request(victims), kPages);
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 3}));
  EXPECT_TRUE(evictions_.take_next().has_value());
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 2}));
  evictions_.revoke(id);
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 0}));
  EXPECT_FALSE(core_.ledger.expects_pages());
}

TEST_F(PiecesTest, AnEvictionWritesTheBytesOfItsPieceBackAndLeavesTheOthersInPlace) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_clean(kSize, 10);
  write(id, 20);
  evictor_.evict({id, 1});
  device_.drain();
  EXPECT_THAT(host_values(id), ElementsAre(10, 21, 12));
  EXPECT_THAT(device_values(id), ElementsAre(20, kGone, 22));
  EXPECT_EQ(core_.counters.d2h_bytes, kPiece);
  EXPECT_EQ(core_.pool->idle_bytes(), kPiece);
  EXPECT_TRUE(fetch({id, 1}));
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(core_.counters.h2d_bytes, kPiece);
  EXPECT_THAT(host_values(id), ElementsAre(10, 21, 12)) << "nothing else was copied";
}

TEST_F(PiecesTest, TheLastPieceMovesNoFurtherThanToTheEndOfTheBuffer) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  evictor_.evict({id, 2});
  device_.drain();
  const Slab& slab = core_.buffers[id].host.slab;
  ASSERT_TRUE(slab);
  EXPECT_EQ(slab.data[kSize.count() - 1], std::byte{22});
  EXPECT_EQ(slab.data[kSize.count()], std::byte{0}) << "no byte behind the end is written";
  EXPECT_TRUE(fetch({id, 2}));
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(core_.counters.d2h_bytes, Bytes{100});
  EXPECT_EQ(core_.counters.h2d_bytes, Bytes{100});
}

/// Pieces of which the device computes digests.
class DigestedPiecesTest : public PiecesTest {
 protected:
  static ResidencyOptions options() {
    ResidencyOptions options = options_in_pieces(1024);
    options.compares_digests = true;
    return options;
  }
  DigestedPiecesTest() : PiecesTest(options()) {}
  void evict(PieceId id) REQUIRES(manager_lock) {
    evictor_.evict(id);
    do {
      device_.drain();
    } while (evictor_.settle_digests());
  }
};

TEST_F(DigestedPiecesTest, APieceThatNoKernelWroteSinceItsWriteBackGoesWithoutACopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  evict({id, 1});
  EXPECT_TRUE(fetch({id, 1}));
  device_.drain();
  ASSERT_EQ(device_.calls(Call::kCopyToHost), 1);
  evict({id, 1});
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 1);
  EXPECT_EQ(core_.counters.clean_evictions, 1U);
  evict({id, 0});
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 2) << "the kernel's writes to it are nowhere else";
  EXPECT_THAT(host_values(id), ElementsAre(20, 21, 0));
}

TEST_F(PiecesTest, AKernelMakesAllPiecesDirty) {
  const BufferId id = pieces_clean(kSize, 10);
  const Buffer& buffer = core_.buffers[id];
  for (std::uint32_t n = 0; n < 3; ++n) EXPECT_FALSE(buffer.is_dirty(n)) << n;
  ASSERT_EQ(launch(id), Status::kOk);
  for (std::uint32_t n = 0; n < 3; ++n) EXPECT_TRUE(buffer.is_dirty(n)) << n;
}

TEST_F(PiecesTest, AFetchWaitsForTheWriteBackOfItsOwnPieceAlone) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_out(kSize, 10);
  Buffer& buffer = core_.buffers[id];
  buffer.pieces[0].write_back = blocked_event();
  EXPECT_TRUE(fetch({id, 1}));
  device_.drain();
  EXPECT_TRUE(is_complete(buffer.pieces[1].ready));
  EXPECT_THAT(device_values(id), ElementsAre(kGone, 11, kGone));
  EXPECT_TRUE(fetch({id, 0}));
  device_.drain();
  EXPECT_FALSE(is_complete(buffer.pieces[0].ready));
  unblock();
  EXPECT_THAT(device_values(id), ElementsAre(10, 11, kGone));
}

TEST_F(PiecesTest, AnEvictionThatFailsKeepsItsPieceAloneForThisTurn) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  evictor_.evict({id, 1});
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 0}));
  const std::array<BufferId, 1> victims{id};
  EXPECT_EQ(evictions_.request(victims), kPiece + kGranule);
  EXPECT_THAT(leaving(id), ElementsAre(0, 2));
}

TEST_F(PiecesTest, ALaunchBringsInEveryPieceThatIsMissing) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {0, 2});
  ASSERT_THAT(device_values(id), ElementsAre(kGone, 21, kGone));
  std::vector<Want> wanted;
  in_round(1, [&] {
    for (const Piece& piece : core_.buffers[id].pieces) wanted.push_back(piece.want);
  });
  EXPECT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(wanted, ElementsAre(Want::kDemand, Want::kNobody, Want::kDemand)) << "both at once";
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  EXPECT_EQ(counters().demand_fetches, 2U);
  EXPECT_EQ(counters().h2d_bytes, kPiece + Bytes{100});
}

TEST_F(PiecesTest, ALaunchFailsIfOnePieceCannotComeAndCanBeTriedAgain) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {0, 1, 2});
  device_.fail(Call::kCopyToDevice, 2, Status::kDeviceError);
  EXPECT_EQ(launch(id), Status::kDeviceError);
  EXPECT_EQ(core_.buffers[id].pins, 0U);
  for (const Piece& piece : core_.buffers[id].pieces) {
    EXPECT_EQ(piece.want, Want::kNobody);
    EXPECT_EQ(piece.fetch_status, Status::kOk);
  }
  EXPECT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
}

TEST_F(PiecesTest, TheStreamOfALaunchWaitsForEachPieceThatIsArriving) {
  for (std::uint32_t n = 0; n < 3; ++n) {
    const BufferId id = pieces_clean(kSize, 10);
    const auto [first, second] = two_blocked_events();
    {
      const ManagerLock lock(core_.mutex);
      core_.buffers[id].set_ready((n + 1) % 3, first);
      core_.buffers[id].set_ready(n, second);
    }
    bool has_run = false;
    launch(id, has_run);
    EXPECT_FALSE(has_run) << n;
    unblock();
    EXPECT_TRUE(is_complete(first));
    EXPECT_FALSE(has_run) << "piece " << n << " has not arrived";
    unblock();
    EXPECT_TRUE(has_run) << n;
  }
}

TEST_F(PiecesTest, AStreamWaitsAgainOnlyWhenAnotherPieceArrives) {
  const BufferId id = pieces_clean(kSize, 10);
  const auto [first, second] = two_blocked_events();
  {
    const ManagerLock lock(core_.mutex);
    core_.buffers[id].set_ready(0, first);
  }
  ASSERT_EQ(launch(id), Status::kOk);
  const int waits = device_.calls(Call::kStreamWait);
  ASSERT_EQ(launch(id), Status::kOk);
  EXPECT_EQ(device_.calls(Call::kStreamWait), waits);
  {
    const ManagerLock lock(core_.mutex);
    core_.buffers[id].set_ready(1, second);
  }
  bool has_run = false;
  launch(id, has_run);
  unblock();
  EXPECT_FALSE(has_run);
  unblock();
  EXPECT_TRUE(has_run);
}

TEST_F(PiecesTest, UsingABufferRevokesTheEvictionsOfAllItsPieces) {
  const BufferId id = pieces_in(kSize, 20);
  {
    const ManagerLock lock(core_.mutex);
    const std::array<BufferId, 1> victims{id};
    ASSERT_EQ(evictions_.request(victims), kPages);
  }
  EXPECT_THAT(leaving(id), ElementsAre(0, 1, 2));
  EXPECT_EQ(launch(id), Status::kOk);
  EXPECT_THAT(leaving(id), IsEmpty());
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(counts(id), (Counts{0, 0, 0, 0}));
  EXPECT_FALSE(core_.ledger.expects_pages());
  run_rounds();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
}

TEST_F(PiecesTest, TheLastPieceOfABufferGoesFirstAndNoMoreThanIsNeeded) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(4 * kPiece, 20);
  EXPECT_EQ(evictions_.request_bytes(Bytes{1}, kPiece), kPiece);
  EXPECT_THAT(leaving(id), ElementsAre(3));
  EXPECT_EQ(evictions_.request_bytes(kPiece + Bytes{1}, kPiece), 2 * kPiece);
  EXPECT_THAT(leaving(id), ElementsAre(1, 2, 3));
  for (const std::uint32_t n : {3U, 2U, 1U}) {
    EXPECT_EQ(evictions_.take_next(), (PieceId{id, n}));
  }
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
}

TEST_F(PiecesTest, PiecesOfThePreferredPageSizeGoFirst) {
  const ManagerLock lock(core_.mutex);
  const BufferId even = make_pieces_in(2 * kPiece, 10);
  const BufferId odd = make_pieces_in(kSize, 20);
  EXPECT_EQ(evictions_.request_bytes(kGranule, kGranule), kGranule);
  EXPECT_THAT(leaving(even), IsEmpty());
  EXPECT_THAT(leaving(odd), ElementsAre(2));
  evictions_.revoke(odd);
  EXPECT_EQ(evictions_.request_bytes(4 * kPiece, kPiece), 4 * kPiece);
  EXPECT_THAT(leaving(even), ElementsAre(0, 1));
  EXPECT_THAT(leaving(odd), ElementsAre(0, 1)) << "its last piece has a page of another size";
}

TEST_F(PiecesTest, OfEachPageSizeGoesAsMuchAsIsLackingOfIt) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_clean(kSize, 20);
  PagesLacking lacking;
  lacking.add(kPiece);
  lacking.add(kGranule);
  EXPECT_EQ(evictions_.request_bytes(kPiece + kGranule, lacking), kPiece + kGranule);
  EXPECT_THAT(leaving(id), ElementsAre(1, 2));
}

TEST_F(PiecesTest, PagesOfThePreferredSizeAreNotTakenFromWhatIsNeededMuchSooner) {
  const ManagerLock lock(core_.mutex);
  std::vector<BufferId> pass;
  for (int i = 0; i < 16; ++i) {
    const bool is_large = i == 1 || i == 8;
    pass.push_back(make_pieces_clean(is_large ? kPiece : kGranule, i));
  }
  const auto launch = [&](BufferId id) REQUIRES(manager_lock) {
    const std::array<BufferId, 1> named{id};
    (void)core_.policy.on_launch(Access{KernelId{100 + index_of(id)}, named});
  };
  for (int i = 0; i < 3; ++i) {
    for (const BufferId id : pass) launch(id);
  }
  launch(pass[0]);
  EXPECT_EQ(evictions_.request_bytes(kPiece, kPiece), kPiece);
  EXPECT_EQ(leaving(pass[8]).size(), 1U) << "half as late as the last one";
  EXPECT_EQ(evictions_.request_bytes(kPiece, kPiece), kPiece);
  EXPECT_EQ(leaving(pass[1]).size(), 0U) << "it is next";
  EXPECT_EQ(leaving(pass[0]).size() + leaving(pass[15]).size(), 2U) << "the last two";
}

TEST_F(PiecesTest, PagesThatAreIdleOrPromisedAreNotLacking) {
  const ManagerLock lock(core_.mutex);
  const BufferId first = make_pieces_clean(kSize, 10);
  const BufferId second = make_pieces_clean(kSize, 20);
  PagesLacking lacking;
  lacking.add(kPiece);
  lacking.add(kGranule);
  // One page of each size is promised first, then idle.
  ASSERT_EQ(evictions_.request_bytes(kGranule, kGranule), kGranule);
  EXPECT_EQ(evictions_.request_bytes(kPiece, lacking), kPiece);
  const std::size_t large = leaving(first).size() + leaving(second).size();
  EXPECT_EQ(large, 2U) << "a second small page was not asked for";
  while (const auto id = evictions_.take_next()) evictor_.evict(*id);
  EXPECT_EQ(core_.pool->idle_bytes_of(kGranule), kGranule);
  EXPECT_EQ(core_.pool->idle_bytes_of(kPiece), kPiece);
  EXPECT_EQ(core_.pool->idle_bytes_of(3 * kPiece), Bytes{});
  lacking.add(kPiece);
  EXPECT_EQ(evictions_.request_bytes(kPiece, lacking), kPiece);
}

TEST_F(PiecesTest, PiecesOfAllSizesGoIfThoseOfThePreferredOneAreTooFew) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  EXPECT_EQ(evictions_.request_bytes(2 * kPiece + Bytes{1}, kPiece), kPages);
  EXPECT_THAT(leaving(id), ElementsAre(0, 1, 2));
}

TEST_F(PiecesTest, PiecesOfThePreferredPageSizeGoFirstThoughTheirUsesAreNotOver) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  use(id, blocked_stream());
  EXPECT_EQ(evictions_.request_bytes(kPiece, kPiece), kPiece);
  EXPECT_THAT(leaving(id), ElementsAre(1));
}

TEST_F(PiecesTest, AnEvictionWaitsForTheArrivalOfItsOwnPieceAlone) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_clean(kSize, 10);
  core_.buffers[id].set_ready(1, blocked_event());
  const std::array<BufferId, 1> victims{id};
  ASSERT_EQ(evictions_.request(victims), kPages);
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 2}));
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 0}));
  EXPECT_EQ(evictions_.take_next(), std::nullopt);
  unblock();
  EXPECT_EQ(evictions_.take_next(), (PieceId{id, 1}));
}

TEST_F(PiecesTest, PolicyHearsOfEachPieceThatComesAndGoes) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_clean(kSize, 10);
  const auto told = [&]() NO_THREAD_SAFETY_ANALYSIS {
    std::vector<bool> told_in;
    for (const Piece& piece : core_.buffers[id].pieces) told_in.push_back(piece.told_in);
    return told_in;
  };
  EXPECT_THAT(told(), ElementsAre(true, true, true));
  EXPECT_EQ(evictions_.request_bytes(kGranule, kGranule), kGranule);
  EXPECT_THAT(told(), ElementsAre(true, true, false));
  evictions_.revoke(id);
  EXPECT_THAT(told(), ElementsAre(true, true, true));
  evictor_.evict({id, 2});
  evictor_.evict({id, 1});
  EXPECT_THAT(told(), ElementsAre(true, false, false));
  EXPECT_TRUE(is_victim(id));
  evictor_.evict({id, 0});
  EXPECT_THAT(told(), ElementsAre(false, false, false));
  EXPECT_FALSE(is_victim(id));
  EXPECT_TRUE(fetch({id, 1}));
  EXPECT_THAT(told(), ElementsAre(false, true, false));
  EXPECT_TRUE(is_victim(id));
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError);
  EXPECT_TRUE(fetch({id, 0}));
  EXPECT_THAT(told(), ElementsAre(false, true, false)) << "it did not get there";
}

/// A budget of five pages, and pieces of one.
class TightPiecesTest : public PiecesTest {
 protected:
  TightPiecesTest() : PiecesTest(options_in_pieces(5, kGranule)) {}
};

TEST_F(TightPiecesTest, ALaunchEvictsNoMorePiecesThanItLacks) {
  const BufferId other = pieces_in(3 * kGranule, 10);
  BufferId id{};
  {
    const ManagerLock lock(core_.mutex);
    id = make_pieces_out(3 * kGranule, 20);
    ASSERT_TRUE(fetch({id, 0}) && fetch({id, 2}));
  }
  EXPECT_EQ(launch(id), Status::kOk);
  device_.drain();
  EXPECT_THAT(device_values(id), ElementsAre(20, 21, 22));
  EXPECT_THAT(device_values(other), ElementsAre(10, 11, kGone));
  EXPECT_THAT(leaving(other), IsEmpty());
  EXPECT_EQ(device_.peak_bytes(), 5 * kGranule);
}

}  // namespace
}  // namespace superpipe::testing
