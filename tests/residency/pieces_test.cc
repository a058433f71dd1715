// Buffers that are cut into pieces: each piece comes and goes by itself, with bytes, a page and
// events of its own, while launches, copies, frees and allocations are of the whole buffer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "residency/buffer_lifetimes.h"
#include "residency/copy_routes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Pieces of two pages. Most buffers have three: the last has one page, of which the program sees a
/// hundred bytes. "Content of `value`": each byte of piece n is `value` + n.
class PiecesTest : public UsingCoreTest {
 protected:
  static constexpr Bytes kPiece{2 * kGranule.count()};
  static constexpr Bytes kSize{2 * kPiece.count() + 100};
  static constexpr Bytes kPages{5 * kGranule.count()};  ///< of a buffer of kSize
  static constexpr int kGone = -2;                      ///< the value of a piece that is out

  static ResidencyOptions options_in_pieces(std::uint64_t budget_pages, Bytes piece_size = kPiece) {
    ResidencyOptions options = options_of(budget_pages);
    options.policy.kind = PolicyKind::kAuto;
    options.piece_size = piece_size;
    return options;
  }
  explicit PiecesTest(const ResidencyOptions& options = options_in_pieces(1024))
      : UsingCoreTest(options) {}

  /// A live buffer that was never written and is out.
  BufferId make_new(Bytes size) REQUIRES(manager_lock) {
    const Bytes pages = round_up(size, kGranule);
    const BufferId id = make_fresh(pages.count() / kGranule.count());
    core_.buffers[id].size = size.count();
    core_.ledger.end_life(Bytes{}, pages - size);  // whole pages were counted as the program's
    return id;
  }
  /// A live buffer that is out, with content of `value`.
  BufferId make_pieces_out(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_new(size);
    Buffer& buffer = core_.buffers[id];
    const auto slab = core_.host.acquire(buffer.host.backing, true);
    EXPECT_TRUE(slab.ok());
    buffer.host.slab = *slab;
    buffer.fresh = false;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      const Slab part = buffer.slab_of(n);
      std::memset(part.data, value + static_cast<int>(n), part.size.count());
    }
    return id;
  }
  /// A live buffer that is in and has never been out, with content of `value`.
  BufferId make_pieces_in(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_new(size);
    put_pieces_in(id, value);
    core_.buffers[id].note_write();
    return id;
  }
  /// A live buffer that is in, with the same content in its host copy.
  BufferId make_pieces_clean(Bytes size, int value) REQUIRES(manager_lock) {
    const BufferId id = make_pieces_out(size, value);
    put_pieces_in(id, value);
    return id;
  }
  BufferId pieces_in(Bytes size, int value) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_pieces_in(size, value);
  }
  BufferId pieces_clean(Bytes size, int value) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_pieces_clean(size, value);
  }

  /// A kernel writes content of `value` to a buffer that is in.
  void write(BufferId id, int value) REQUIRES(manager_lock) {
    write_on_device(id, value);
    core_.buffers[id].note_write();
  }
  /// Fetches a piece for a launch that waits for it.
  bool fetch(PieceId id) REQUIRES(manager_lock) {
    core_.buffers[id.buffer].pieces[id.index].want = Want::kDemand;
    return mover_.fetch(id, true);
  }
  /// Takes pieces out, and lets their write-backs end if they can.
  void take_out(BufferId id, const std::vector<std::uint32_t>& pieces) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    for (const std::uint32_t piece : pieces) mover_.evict({id, piece});
    device_.drain();
  }

  /// Of each piece the value of its bytes on the device; -1 if they differ, kGone if it is out.
  std::vector<int> device_values(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    std::vector<int> values;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      std::vector<std::byte> bytes(buffer.content_of(n).count());
      const bool is_in = buffer.pieces[n].place == Place::kIn &&
                         device_.read(buffer.address_of(n), bytes.size(), bytes.data());
      values.push_back(is_in ? value_in(bytes) : kGone);
    }
    return values;
  }
  /// The same of its host copy, which has all of them.
  std::vector<int> host_values(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    std::vector<int> values;
    for (std::uint32_t n = 0; buffer.host.slab && n < buffer.pieces.size(); ++n) {
      const Slab part = buffer.slab_of(n);
      values.push_back(value_in({part.data, part.size.count()}));
    }
    return values;
  }
  [[nodiscard]] std::vector<Place> places(BufferId id) const {
    std::vector<Place> places;
    for (const Piece& piece : core_.buffers[id].pieces) places.push_back(piece.place);
    return places;
  }
  /// The pieces of which an eviction was requested.
  [[nodiscard]] std::vector<std::uint32_t> leaving(BufferId id) const {
    const Buffer& buffer = core_.buffers[id];
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      if (buffer.pieces[n].evict_ticket != 0) numbers.push_back(n);
    }
    return numbers;
  }
  /// How many pieces are missing, moving, arriving, leaving.
  using Counts = std::array<std::uint32_t, 4>;
  [[nodiscard]] Counts counts(BufferId id) const {
    const Buffer& buffer = core_.buffers[id];
    return {buffer.missing, buffer.moving, buffer.arriving, buffer.leaving};
  }

  /// Whether policy knows that pieces of the buffer are on the device, and of no other buffer's.
  bool is_victim(BufferId id) REQUIRES(manager_lock) {
    return core_.puller()->next_victim(0, [](BufferId) { return true; }) == id;
  }

  Status begin_launch(BufferId id, UseToken& token) EXCLUDES(manager_lock) {
    const std::array<std::uint64_t, 1> words{core_.buffers[id].base + 8};
    return uses_.begin_launch(KernelId{7}, words, stream_, token);
  }
  /// A launch that does nothing. @return whether it could be submitted.
  Status launch(BufferId id) EXCLUDES(manager_lock) {
    UseToken token;
    const Status status = begin_launch(id, token);
    if (status == Status::kOk) uses_.end_use(token, stream_, true);
    return status;
  }
  /// The same; it sets `has_run` when the device gets to it.
  void launch(BufferId id, bool& has_run) EXCLUDES(manager_lock) {
    UseToken token;
    ASSERT_EQ(begin_launch(id, token), Status::kOk);
    device_.submit(stream_, [&has_run] { has_run = true; });
    uses_.end_use(token, stream_, true);
    device_.drain();
  }
  /// Two events: the first completes at the next unblock(), the second at the one after.
  std::pair<EventRef, EventRef> two_blocked_events() {
    const StreamHandle first = blocked_stream();
    const StreamHandle second = device_.program_stream();
    const StreamHandle other = device_.program_stream();
    device_.order_after(second, first);
    device_.submit(second, [this, other] { device_.submit_blocking_host_function(other); });
    device_.submit_blocking_host_function(second);
    return {end_of(first), end_of(second)};
  }

  const StreamHandle stream_ = device_.program_stream();

 private:
  void put_pieces_in(BufferId id, int value) REQUIRES(manager_lock) {
    Buffer& buffer = core_.buffers[id];
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      Page page = make_page(buffer.bytes_of(n));
      EXPECT_EQ(device_.map(buffer.address_of(n), page.size, page.handle), Status::kOk);
      buffer.pieces[n].page = std::move(page);
      buffer.set_place(n, Place::kIn);
    }
    buffer.fresh = false;
    write_on_device(id, value);
    core_.tell_whereabouts(id);
  }
  void write_on_device(BufferId id, int value) {
    const Buffer& buffer = core_.buffers[id];
    for (std::uint32_t n = 0; n < buffer.pieces.size(); ++n) {
      const std::vector<std::byte> bytes(buffer.content_of(n).count(),
                                         static_cast<std::byte>(value + static_cast<int>(n)));
      EXPECT_TRUE(device_.write(buffer.address_of(n), bytes.size(), bytes.data()));
    }
  }
  static int value_in(std::span<const std::byte> bytes) {
    const bool is_one = std::all_of(bytes.begin(), bytes.end(),
                                    [&](std::byte byte) { return byte == bytes.front(); });
    return is_one ? static_cast<int>(bytes.front()) : -1;
  }
};

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
  buffer.set_place(0, Place::kFetching);
  buffer.set_place(1, Place::kFetching);
  EXPECT_EQ(counts(id), (Counts{3, 2, 0, 0}));
  buffer.set_place(0, Place::kIn);
  EXPECT_EQ(counts(id), (Counts{2, 1, 0, 0}));
  buffer.set_place(1, Place::kOut);
  EXPECT_EQ(counts(id), (Counts{2, 0, 0, 0}));
  const EventRef arrival = blocked_event();
  buffer.set_ready(0, arrival);
  buffer.set_ready(2, arrival);
  buffer.set_ready(0, end_of(stream_));
  EXPECT_EQ(counts(id), (Counts{2, 0, 2, 0})) << "an arrival in the stead of another is one";
  buffer.set_ready(2, nullptr);
  buffer.set_ready(2, nullptr);
  EXPECT_EQ(counts(id), (Counts{2, 0, 1, 0}));
  buffer.set_place(0, Place::kEvicting);
  EXPECT_EQ(counts(id), (Counts{3, 1, 1, 0}));
  buffer.set_place(0, Place::kIn);
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
  mover_.evict({id, 1});
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
  mover_.evict({id, 1});
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
  mover_.evict({id, 2});
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

TEST_F(PiecesTest, APieceThatNoKernelWroteSinceItsWriteBackGoesWithoutACopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_pieces_in(kSize, 20);
  mover_.evict({id, 1});
  device_.drain();
  EXPECT_TRUE(fetch({id, 1}));
  device_.drain();
  ASSERT_EQ(device_.calls(Call::kCopyToHost), 1);
  mover_.evict({id, 1});
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 1);
  EXPECT_EQ(core_.counters.clean_evictions, 1U);
  mover_.evict({id, 0});
  device_.drain();
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
  mover_.evict({id, 1});
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
  mover_.evict({id, 2});
  mover_.evict({id, 1});
  EXPECT_THAT(told(), ElementsAre(true, false, false));
  EXPECT_TRUE(is_victim(id));
  mover_.evict({id, 0});
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

  Result<CopyRoute> begin(BufferId id, const Part& part, Way way, bool synchronous, UseToken& token,
                          StreamHandle stream) EXCLUDES(manager_lock) {
    return routes_.begin(core_.buffers[id].base + part.offset.count(), part.size, stream,
                         synchronous, way == Way::kIntoBuffer, token);
  }
  /// A synchronous copy. `value`: what one into the buffer writes, if it has a host route.
  /// @return why it is not given a route, or kOk. It has ended.
  Status copy_now(BufferId id, const Part& part, Way way, int value = 0) EXCLUDES(manager_lock) {
    UseToken token;
    const auto route = begin(id, part, way, true, token, stream_);
    if (!route.ok()) return route.status();
    const bool writes = route->host != nullptr && way == Way::kIntoBuffer;
    if (writes) std::memset(route->host, value, part.size.count());
    end(token, stream_);
    return Status::kOk;
  }
  /// An asynchronous copy with a host route, which does not end before unblock().
  void copy_blocked(BufferId id, const Part& part, Way way) EXCLUDES(manager_lock) {
    const StreamHandle blocked = blocked_stream();
    UseToken token;
    const auto route = begin(id, part, way, false, token, blocked);
    ASSERT_TRUE(route.ok());
    ASSERT_NE(route->host, nullptr);
    end(token, blocked);
  }
  void end(UseToken& token, StreamHandle stream) EXCLUDES(manager_lock) {
    if (token.is_host_route()) {
      routes_.end(token, stream, true);
    } else {
      uses_.end_use(token, stream, true);
    }
  }

  CopyRoutes routes_{core_, streams_, mover_, uses_};
};

TEST_F(PiecesCopyTest, ACopyIntoPiecesThatAreOutGoesToTheHostCopyThoughOthersAreIn) {
  const BufferId id = pieces_in(4 * kPiece, 20);
  take_out(id, {1, 2});
  const Part part{kPiece, 2 * kPiece};
  UseToken token;
  const auto route = begin(id, part, Way::kIntoBuffer, true, token, stream_);
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
      const auto route = begin(id, part, way, true, token, stream_);
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

TEST_F(PiecesCopyTest, ASynchronousCopyWaitsForTheWriteBacksOfThePiecesThatItNamesAlone) {
  for (const Way way : {Way::kOutOfBuffer, Way::kIntoBuffer}) {
    const BufferId id = pieces_clean(kSize, 10);
    take_out(id, {0, 1, 2});
    core_.buffers[id].pieces[0].write_back = blocked_event();
    EXPECT_EQ(copy_now(id, kSecond, way, 11), Status::kOk);
    EXPECT_EQ(copy_now(id, kFirst, way), Status::kTimedOut);
    EXPECT_EQ(copy_now(id, kFirstTwo, way), Status::kTimedOut);
    unblock();
    EXPECT_EQ(copy_now(id, kFirstTwo, way), Status::kOk);
  }
}

TEST_F(PiecesCopyTest, TheStreamOfAnAsynchronousCopyWaitsForTheWriteBacksOfThePiecesThatItNames) {
  const BufferId id = pieces_clean(kSize, 10);
  take_out(id, {0, 1, 2});
  const auto [first, second] = two_blocked_events();
  core_.buffers[id].pieces[0].write_back = first;
  core_.buffers[id].pieces[1].write_back = second;
  const auto copy = [&](const Part& part, bool& has_run) {
    const StreamHandle stream = device_.program_stream();
    UseToken token;
    ASSERT_TRUE(begin(id, part, Way::kOutOfBuffer, false, token, stream).ok());
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
  Buffer& buffer = core_.buffers[id];
  buffer.set_place(1, Place::kEvicting);
  in_round(3, [&] { buffer.set_place(1, Place::kOut); });
  EXPECT_EQ(copy_now(id, kSecond, Way::kOutOfBuffer), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 3);
}

TEST_F(PiecesCopyTest, APieceWhosePageHasTheOnlyContentIsReadOnTheDevice) {
  const BufferId id = pieces_in(kSize, 20);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  take_out(id, {1});
  take_out(id, {0});
  ASSERT_THAT(places(id), ElementsAre(Place::kOut, Place::kOut, Place::kIn));
  EXPECT_EQ(copy_now(id, kFirst, Way::kOutOfBuffer), Status::kOk);
  EXPECT_THAT(places(id), ElementsAre(Place::kOut, Place::kOut, Place::kIn)) << "on the host";
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
  EXPECT_EQ(copy_now(id, kSecond, Way::kOutOfBuffer), Status::kTimedOut);
  unblock();
  EXPECT_EQ(copy_now(id, kSecond, Way::kOutOfBuffer), Status::kOk);
}

TEST_F(PiecesCopyTest, AWriteBackOfAnotherPieceDoesNotForgetAReadOfTheProgram) {
  const BufferId id = pieces_in(kSize, 20);
  take_out(id, {1});
  copy_blocked(id, kSecond, Way::kOutOfBuffer);
  take_out(id, {0});
  ASSERT_THAT(places(id), ElementsAre(Place::kOut, Place::kOut, Place::kIn));
  EXPECT_EQ(copy_now(id, kSecond, Way::kIntoBuffer), Status::kTimedOut);
  unblock();
  EXPECT_EQ(copy_now(id, kSecond, Way::kIntoBuffer), Status::kOk);
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

  BufferLifetimes lifetimes_{core_, streams_, pages_, mover_, evictions_};
};

TEST_F(PiecesLifetimesTest, ANewBufferBeginsWithAllItsPiecesInPlace) {
  const BufferId id = allocate(kSize);
  EXPECT_THAT(places(id), ElementsAre(Place::kIn, Place::kIn, Place::kIn));
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
  mover_.evict({pass[1], 0});
  mover_.evict({pass[1], 2});
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
  EXPECT_THAT(places(id), ElementsAre(Place::kIn, Place::kOut, Place::kIn));
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
  EXPECT_THAT(places(id), ElementsAre(Place::kIn, Place::kIn, Place::kIn));
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
  EXPECT_THAT(places(id), ElementsAre(Place::kOut, Place::kIn, Place::kIn));
  EXPECT_EQ(core_.cache.bytes(), kPages - kPiece);
  EXPECT_EQ(allocate(kSize), id);
  EXPECT_EQ(launch(id), Status::kOk);
}

TEST_F(PiecesLifetimesTest, AFreeGivesThePageOfAnEvictionThatFailedHalfWayBack) {
  const BufferId id = allocate_written(kSize, 20);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  take_out(id, {1});
  ASSERT_TRUE(core_.buffers[id].pieces[1].page.has_value());
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
  EXPECT_EQ(core_.buffers[allocate(kSize)].base, core_.arena_base);
}

/// A budget of four pages, and pieces of one.
class TightPiecesLifetimesTest : public PiecesLifetimesTest {
 protected:
  TightPiecesLifetimesTest() : PiecesLifetimesTest(options_in_pieces(4, kGranule)) {}
};

TEST_F(TightPiecesLifetimesTest, ABufferBeginsInPlaceAsAWholeOrNotAtAll) {
  const BufferId first = allocate(3 * kGranule);
  const BufferId second = allocate(2 * kGranule);
  EXPECT_THAT(places(first), ElementsAre(Place::kIn, Place::kIn, Place::kIn));
  EXPECT_THAT(places(second), ElementsAre(Place::kOut, Place::kOut));
  EXPECT_EQ(device_.calls(Call::kUnmap), 0) << "nothing was evicted for it";
  EXPECT_FALSE(core_.buffers[second].has_pages());
  EXPECT_THAT(places(allocate(kGranule)), ElementsAre(Place::kIn)) << "the fourth page is left";
  EXPECT_EQ(device_.peak_bytes(), 4 * kGranule);
}

/// Buffers read as zero until they are written.
class ZeroFillPiecesTest : public PiecesLifetimesTest {
 protected:
  ZeroFillPiecesTest() : PiecesLifetimesTest(zero_filling()) {}

  CopyRoutes routes_{core_, streams_, mover_, uses_};

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
      routes_.begin(core_.buffers[id].base + kPiece.count(), kPiece, stream_, true, true, token);
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
