// Pieces that nothing that is known of has written: a kernel may have, through a pointer that
// nobody saw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "residency/transfer/digester.h"
#include "residency/transfer/evictor.h"
#include "residency/uses/copy_routes.h"
#include "tests/residency/pieces_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;

/// Buffers of three pieces whose memory is not set to zero for the program.
class FreshPiecesTest : public PiecesTest {
 protected:
  static ResidencyOptions options(bool compares_digests) {
    ResidencyOptions options = options_in_pieces(1024);
    options.compares_digests = compares_digests;
    return options;
  }
  explicit FreshPiecesTest(const ResidencyOptions& options = FreshPiecesTest::options(true))
      : PiecesTest(options) {}

  /// A fresh buffer that is in; the bytes of its pieces are `values`.
  BufferId make_in(const std::array<int, 3>& values) REQUIRES(manager_lock) {
    const BufferId id = make_new(kSize);
    for (std::uint32_t piece = 0; piece < values.size(); ++piece) {
      EXPECT_TRUE(fetch({id, piece}));
      write_unseen({id, piece}, values[piece]);
    }
    return id;
  }
  /// A kernel writes `value` to a piece that is in, through a pointer that nobody sees.
  void write_unseen(PieceId id, int value) REQUIRES(manager_lock) {
    device_.drain();
    const Buffer& buffer = core_.buffers[id.buffer];
    const std::vector<std::byte> bytes(buffer.content_of(id.index).count(),
                                       static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(buffer.address_of(id.index), bytes.size(), bytes.data()));
  }
  void settle() REQUIRES(manager_lock) {
    device_.drain();
    while (evictor_.settle_digests()) device_.drain();
  }
  void evict(PieceId id) REQUIRES(manager_lock) {
    evictor_.evict(id);
    settle();
  }
  /// What a piece has when it comes back. REQUIRES: it is out.
  int value_back(PieceId id) REQUIRES(manager_lock) {
    EXPECT_EQ(core_.buffers[id.buffer].pieces[id.index].state(), PieceState::kOut);
    spoil_idle_pages();
    EXPECT_TRUE(fetch(id));
    device_.drain();
    return device_values(id.buffer)[id.index];
  }
  /// What later owners find in pages that are idle now is not what earlier ones left.
  void spoil_idle_pages() REQUIRES(manager_lock) {
    std::vector<Page> pages;
    while (auto page = core_.pool->take_any()) pages.push_back(std::move(*page));
    for (Page& page : pages) {
      const std::vector<std::byte> bytes(page.size.count(), std::byte{0xAB});
      ASSERT_TRUE(device_.write(page.window, bytes.size(), bytes.data()));
      core_.pool->put(std::move(page));
    }
  }
  /// The slab that is acquired next is not new.
  void spoil_next_slab() {
    const auto slab = core_.host.acquire(HostStore::backing_of(kPages), true);
    ASSERT_TRUE(slab.ok());
    std::memset(slab->data, 0xCD, slab->size.count());
    core_.host.release(*slab, {});
  }
};

TEST_F(FreshPiecesTest, AreDroppedWhereTheirDigestIsThatOfZeros) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({0, 0, 0});
  for (std::uint32_t piece = 0; piece < 3; ++piece) evict({id, piece});
  EXPECT_EQ(core_.counters.write_backs, 0U);
  EXPECT_EQ(core_.counters.clean_evictions, 3U);
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 0);
  EXPECT_FALSE(core_.buffers[id].host.slab) << "no host memory is pinned for zeros";
  EXPECT_TRUE(core_.buffers[id].fresh);
  EXPECT_FALSE(evictor_.is_pending());
  EXPECT_FALSE(core_.ledger.expects_pages());
}

// A kernel may have written the zeros.
TEST_F(FreshPiecesTest, ReadAsZeroWhenTheyComeBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({0, 0, 0});
  for (std::uint32_t piece = 0; piece < 3; ++piece) evict({id, piece});
  for (std::uint32_t piece = 0; piece < 3; ++piece) EXPECT_EQ(value_back({id, piece}), 0);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
  evict({id, 1});
  EXPECT_EQ(value_back({id, 1}), 0) << "and again";
}

TEST_F(FreshPiecesTest, AreWrittenBackWhereTheyAreNotZero) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 8, 0});
  evict({id, 0});
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(value_back({id, 0}), 7);
  evict({id, 1});
  EXPECT_EQ(value_back({id, 1}), 8) << "the slab, which came with the other piece, lacked it";
  evict({id, 2});
  EXPECT_EQ(value_back({id, 2}), 0);
}

TEST_F(FreshPiecesTest, ThatWereZeroReadAsZeroAlsoFromASlabThatComesLater) {
  const ManagerLock lock(core_.mutex);
  spoil_next_slab();
  const BufferId id = make_in({7, 0, 9});
  evict({id, 1});
  evict({id, 0});
  EXPECT_THAT(host_values(id), ElementsAre(7, 0, 0));
  EXPECT_EQ(value_back({id, 1}), 0);
}

TEST_F(FreshPiecesTest, AreNotDroppedForADigestThatComesAfterASlab) {
  const ManagerLock lock(core_.mutex);
  spoil_next_slab();
  const BufferId id = make_in({7, 0, 9});
  evictor_.evict({id, 0});
  evictor_.evict({id, 1});
  settle();
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_EQ(value_back({id, 1}), 0);
}

TEST_F(FreshPiecesTest, ThatAreWantedBeforeTheirDigestHasComeKeepTheirPage) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  for (std::uint32_t piece = 0; piece < 2; ++piece) evictor_.evict({id, piece});
  for (std::uint32_t piece = 0; piece < 2; ++piece) {
    core_.buffers[id].pieces[piece].want = Want::kDemand;
  }
  settle();
  EXPECT_FALSE(core_.ledger.expects_pages());
  for (std::uint32_t piece = 0; piece < 2; ++piece) ASSERT_TRUE(fetch({id, piece}));
  EXPECT_THAT(device_values(id), ElementsAre(7, 0, 0));
  for (std::uint32_t piece = 0; piece < 2; ++piece) evict({id, piece});
  EXPECT_EQ(value_back({id, 0}), 7);
  EXPECT_EQ(value_back({id, 1}), 0);
}

TEST_F(FreshPiecesTest, AreWrittenBackWhenTheirDigestIsOverdue) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  device_.hold_digests(true);
  evictor_.evict({id, 0});
  device_.drain();
  EXPECT_FALSE(evictor_.settle_digests());
  pass(2 * Evictor::kPatience);
  EXPECT_TRUE(evictor_.settle_digests());
  device_.hold_digests(false);
  settle();
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(value_back({id, 0}), 7);
}

TEST_F(FreshPiecesTest, AreWrittenBackWhereNoDigestCanBeEnqueued) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 8, 0});
  device_.fail(Call::kDigest, 1, Status::kDeviceError);
  evict({id, 0});  // from now on there are no digests
  evict({id, 1});
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_EQ(value_back({id, 0}), 7);
  EXPECT_EQ(value_back({id, 1}), 8);
}

TEST_F(FreshPiecesTest, AreMappedAgainWhereThereIsNoSlabForThem) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  device_.fail(Call::kPin, 1, Status::kOutOfHostMemory);
  evict({id, 0});
  EXPECT_THAT(device_values(id), ElementsAre(7, 0, 0));
  EXPECT_FALSE(core_.ledger.expects_pages());
  ++core_.turns;
  evict({id, 0});
  EXPECT_EQ(value_back({id, 0}), 7);
}

// A copy of the program to another piece gets the buffer its slab just when the digest has come.
TEST_F(FreshPiecesTest, AreNotWrittenBackToASlabBesideTheOneThatAnotherThreadIsGetting) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  evictor_.evict({id, 0});
  device_.drain();
  bool has_settled = false;
  device_.on_call = [&](Call call) {
    if (call != Call::kPin || std::exchange(has_settled, true)) return;
    const ManagerLock other(core_.mutex);
    EXPECT_TRUE(evictor_.settle_digests());
  };
  ASSERT_EQ(mover_.ensure_slab(core_.buffers[id], true), Status::kOk);
  device_.on_call = nullptr;
  ASSERT_TRUE(has_settled);
  EXPECT_THAT(device_values(id), ElementsAre(7, 0, 0)) << "no slab has its only content";
  EXPECT_EQ(core_.counters.errors, 0U);
  evict({id, 0});
  EXPECT_EQ(value_back({id, 0}), 7);
}

/// There is host memory for one buffer, in a slab of another size that is still in use.
class ShortOfSlabsFreshPiecesTest : public FreshPiecesTest {
 protected:
  static ResidencyOptions short_options() {
    ResidencyOptions options = FreshPiecesTest::options(true);
    options.host_limit = kPages;
    return options;
  }
  ShortOfSlabsFreshPiecesTest() : FreshPiecesTest(short_options()) {
    const auto slab = core_.host.acquire(kGranule, false);
    EXPECT_TRUE(slab.ok());
    if (slab.ok()) core_.host.release(*slab, {blocked_event()});
  }
};

TEST_F(ShortOfSlabsFreshPiecesTest, AreMappedAgainWithoutAnErrorUntilASlabCanBeHad) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  evict({id, 0});
  EXPECT_THAT(device_values(id), ElementsAre(7, 0, 0));
  EXPECT_EQ(core_.counters.errors, 0U) << "a launch that needs room would fail for it";
  EXPECT_TRUE(evictions_.has_victim(core_.buffers[id], kPiece)) << "in the same turn";
  unblock();
  evict({id, 0});
  EXPECT_EQ(value_back({id, 0}), 7);
}

// The copy makes the host copy what the buffer has, but not of the pieces that are in.
TEST_F(FreshPiecesTest, ThatAreInKeepTheirContentWhenTheProgramCopiesToOthersOnTheHost) {
  BufferId id{};
  {
    const ManagerLock lock(core_.mutex);
    id = make_in({0, 8, 0});
    evict({id, 0});
  }
  CopyRoutes routes{core_, streams_, mover_, uses_, digests_};
  UseToken token;
  const auto route = routes.begin(core_.buffers[id].base, kPiece, stream_, true, token);
  ASSERT_TRUE(route.ok());
  ASSERT_NE(route->host, nullptr);
  std::memset(route->host, 5, kPiece.count());
  routes.end(token, stream_, true);
  const ManagerLock lock(core_.mutex);
  evict({id, 1});
  EXPECT_EQ(value_back({id, 0}), 5);
  EXPECT_EQ(value_back({id, 1}), 8);
}

TEST_F(FreshPiecesTest, ThatWereThereBeforeTheSlabDoNotPassForCleanOnes) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({7, 0, 0});
  evict({id, 1});
  core_.buffers[id].note_write();  // of a copy to the pieces that are in
  ASSERT_TRUE(fetch({id, 1}));
  write_unseen({id, 1}, 9);
  evict({id, 0});  // the slab comes
  evict({id, 1});
  EXPECT_EQ(value_back({id, 1}), 9);
  EXPECT_EQ(value_back({id, 0}), 7);
}

TEST_F(FreshPiecesTest, OfABufferWithASlabAreWrittenBack) {
  const ManagerLock lock(core_.mutex);
  spoil_next_slab();
  const BufferId id = make_in({0, 8, 0});
  ASSERT_EQ(mover_.ensure_slab(core_.buffers[id], false), Status::kOk);
  evict({id, 0});
  evict({id, 1});
  EXPECT_EQ(value_back({id, 0}), 0);
  EXPECT_EQ(value_back({id, 1}), 8);
}

class UndigestedFreshPiecesTest : public FreshPiecesTest {
 protected:
  UndigestedFreshPiecesTest() : FreshPiecesTest(options(false)) {}
};

TEST_F(UndigestedFreshPiecesTest, AreWrittenBackWhateverTheyHave) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_in({0, 8, 0});
  evict({id, 0});
  evict({id, 1});
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_EQ(value_back({id, 0}), 0);
  EXPECT_EQ(value_back({id, 1}), 8);
}

}  // namespace
}  // namespace superpipe::testing
