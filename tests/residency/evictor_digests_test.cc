// Evictions that compare digests: when content is written back, and whose digest counts for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "residency/transfer/evictor.h"
#include "tests/residency/evictor_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Buffers of one page under SUPERPIPE_WRITEBACK=digest.
class DigestingEvictorTest : public EvictorTest {
 protected:
  static ResidencyOptions digesting_options() {
    ResidencyOptions options = options_of(1024);
    options.compares_digests = true;
    return options;
  }
  DigestingEvictorTest() : EvictorTest(digesting_options()) {}

  /// A launch has the buffer fetched, and fills it with `value`.
  void launch(BufferId id, int value) REQUIRES(manager_lock) {
    if (piece_of(id).is_out()) {
      ASSERT_TRUE(demand(id));
    }
    device_.drain();
    core_.buffers[id].note_write();
    const std::vector<std::byte> bytes(kGranule.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
  }
  /// Lets all that was enqueued run, and brings evictions to their end.
  void settle() REQUIRES(manager_lock) {
    device_.drain();
    while (evictor_.settle_digests()) device_.drain();
  }
  /// Takes the buffer out and waits for its digest.
  void evict(BufferId id) REQUIRES(manager_lock) {
    evictor_.evict({id, 0});
    settle();
  }
  /// A launch fills the buffer with `value`, and it is taken out.
  void visit(BufferId id, int value) REQUIRES(manager_lock) {
    launch(id, value);
    evict(id);
  }
  /// A buffer that is out, with `value`, of which the host's digest is known.
  BufferId make_known(int value) REQUIRES(manager_lock) {
    const BufferId id = make_dirty(1, value);
    evict(id);
    EXPECT_TRUE(piece_of(id).host_digest.has_value());
    return id;
  }
  Piece& piece_of(BufferId id) REQUIRES(manager_lock) { return core_.buffers[id].pieces[0]; }
};

TEST_F(DigestingEvictorTest, TheFirstEvictionWritesBackAndLearnsTheDigest) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  evictor_.evict({id, 0});
  EXPECT_EQ(piece_of(id).state(), PieceState::kOut);
  EXPECT_FALSE(piece_of(id).has_page());  // it waits for nothing
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
  settle();
  EXPECT_TRUE(piece_of(id).host_digest.has_value());
  EXPECT_EQ(host_value(id), 9);
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(core_.counters.digests, 1U);
  EXPECT_FALSE(evictor_.is_pending());
}

TEST_F(DigestingEvictorTest, ContentThatALaunchDidNotChangeIsNotWrittenBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  visit(id, 9);
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(core_.counters.clean_evictions, 1U);
  EXPECT_EQ(core_.counters.unchanged, 1U);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
  EXPECT_THAT(take_idle_page().after, IsEmpty());
  EXPECT_FALSE(core_.ledger.expects_pages());
}

TEST_F(DigestingEvictorTest, ContentThatALaunchChangedIsWrittenBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  visit(id, 8);
  EXPECT_EQ(host_value(id), 8);
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_FALSE(core_.ledger.expects_pages());
  visit(id, 8);
  EXPECT_EQ(core_.counters.write_backs, 2U);
}

TEST_F(DigestingEvictorTest, ContentThatNothingNamedIsLookedAt) {
  const ManagerLock lock(core_.mutex);
  for (const int value : {9, 8}) {
    const BufferId id = make_known(9);
    const auto [write_backs, unchanged] =
        std::pair(core_.counters.write_backs, core_.counters.unchanged);
    ASSERT_TRUE(demand(id));
    device_.drain();
    const std::vector<std::byte> bytes(kGranule.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
    ASSERT_FALSE(core_.buffers[id].is_dirty(0));
    evict(id);
    EXPECT_EQ(host_value(id), value);
    EXPECT_EQ(core_.counters.write_backs, write_backs + (value == 9 ? 0 : 1));
    EXPECT_EQ(core_.counters.unchanged, unchanged + (value == 9 ? 1 : 0));
  }
}

TEST_F(DigestingEvictorTest, ContentThatNothingNamedIsWrittenBackWhereNoDigestOfItIsKnown) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1, 7);
  const std::vector<std::byte> bytes(kGranule.count(), std::byte{9});
  ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
  evict(id);
  EXPECT_EQ(host_value(id), 9);
  EXPECT_TRUE(piece_of(id).host_digest.has_value());
}

TEST_F(DigestingEvictorTest, HoweverOftenLaunchesChangedItWhatNothingNamedSinceIsLookedAt) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(1);
  for (const int value : {2, 3, 4}) visit(id, value);
  const std::uint64_t write_backs = core_.counters.write_backs;
  ASSERT_TRUE(demand(id));
  device_.drain();
  evict(id);
  EXPECT_EQ(core_.counters.write_backs, write_backs);
}

TEST_F(DigestingEvictorTest, AnEvictionUnmapsBeforeItDigests) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 9);
  std::vector<Call> calls;
  device_.on_call = [&calls](Call call) {
    if (call == Call::kUnmap || call == Call::kDigest) calls.push_back(call);
  };
  evict(id);
  device_.on_call = nullptr;
  EXPECT_THAT(calls, ElementsAre(Call::kUnmap, Call::kDigest));
}

// A stale digest would take the old content for the new one.
TEST_F(DigestingEvictorTest, ContentThatComesBackToWhatItOnceWasIsWrittenBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(1);
  for (const int value : {2, 1, 2, 2, 1, 1}) {
    visit(id, value);
    ASSERT_EQ(host_value(id), value);
  }
}

// The digest of the second content has not come when the third is taken out.
TEST_F(DigestingEvictorTest, ADigestThatIsLateIsNotTakenForThatOfTheHostCopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(1);
  visit(id, 2);
  visit(id, 3);  // from now on it is written back at once
  launch(id, 4);
  evictor_.evict({id, 0});
  pass(std::chrono::milliseconds{1});
  launch(id, 3);
  evictor_.evict({id, 0});
  settle();
  EXPECT_EQ(host_value(id), 3);
  visit(id, 4);
  EXPECT_EQ(host_value(id), 4);
}

// The digest of what a memset wrote has not come when the content is again what it was before.
TEST_F(DigestingEvictorTest, AWriteBackForgetsTheDigestOfWhatTheHostHadBefore) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(1);
  launch(id, 2);
  core_.buffers[id].note_known_write();  // what filled it was a memset
  device_.hold_digests(true);
  evictor_.evict({id, 0});
  pass(std::chrono::milliseconds{1});
  launch(id, 1);
  evictor_.evict({id, 0});
  device_.hold_digests(false);
  settle();
  EXPECT_EQ(host_value(id), 1);
}

TEST_F(DigestingEvictorTest, WhileItsDigestIsUnderWayAPieceIsOutAndKeepsItsPage) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  EXPECT_EQ(piece_of(id).state(), PieceState::kDigesting);
  EXPECT_TRUE(core_.pool->empty());
  EXPECT_TRUE(core_.ledger.expects_pages());
  EXPECT_TRUE(core_.pool->expects(kGranule));
  EXPECT_TRUE(evictor_.is_pending());
  EXPECT_TRUE(core_.buffers[id].is_dirty(0));
  settle();
  EXPECT_NE(piece_of(id).state(), PieceState::kDigesting);
  EXPECT_FALSE(core_.pool->expects(kGranule));
}

TEST_F(DigestingEvictorTest, ADemandTakesThePageBackBeforeItsDigestHasCome) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  const int copies = device_.calls(Call::kCopyToDevice);
  ASSERT_TRUE(demand(id));
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), copies);
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_FALSE(core_.pool->expects(kGranule));
  settle();
  EXPECT_EQ(device_value(id), 8);
  EXPECT_EQ(host_value(id), 9);
  EXPECT_TRUE(core_.buffers[id].is_dirty(0));
  evict(id);
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(DigestingEvictorTest, AWantedPieceKeepsItsPageWhateverItsDigestSays) {
  const ManagerLock lock(core_.mutex);
  for (const int value : {9, 8}) {
    const BufferId id = make_known(9);
    launch(id, value);
    evictor_.evict({id, 0});
    piece_of(id).want = Want::kDemand;
    const std::uint64_t write_backs = core_.counters.write_backs;
    settle();
    EXPECT_TRUE(piece_of(id).has_page());
    EXPECT_NE(piece_of(id).state(), PieceState::kDigesting);
    EXPECT_FALSE(core_.ledger.expects_pages());
    EXPECT_EQ(core_.counters.write_backs, write_backs);
    EXPECT_EQ(core_.buffers[id].is_dirty(0), value != 9);
    ASSERT_TRUE(demand(id));
    EXPECT_EQ(device_value(id), value);
  }
}

// A kernel of the program may keep digests from running for long: the link shall not wait for that.
TEST_F(DigestingEvictorTest, TheNextOwnerOfAPageWaitsShortlyForADigestWhichIsThenOfNoUse) {
  const ManagerLock lock(core_.mutex);
  device_.hold_digests(true);
  const BufferId old = make_dirty(1, 9);
  evictor_.evict({old, 0});  // written back, its digest under way
  device_.drain();
  const BufferId next = make_out(1, 5);
  EXPECT_FALSE(demand(next)) << "the digest may come soon";
  pass(std::chrono::milliseconds{1});
  ASSERT_TRUE(demand(next));
  device_.drain();
  EXPECT_FALSE(piece_of(next).is_filling() && !is_complete(piece_of(next).ready));
  EXPECT_EQ(device_value(next), 5);
  device_.hold_digests(false);
  settle();
  EXPECT_FALSE(piece_of(old).host_digest.has_value()) << "it is that of the next owner's content";
  EXPECT_EQ(host_value(old), 9);
}

// The fetch waits for the write-back of the former content, which reads the page as the digest
// does.
TEST_F(DigestingEvictorTest, ADigestThatEndsBeforeTheWriteBackBehindWhichAPageIsFilledIsOfUse) {
  const ManagerLock lock(core_.mutex);
  const BufferId old = make_known(9);
  launch(old, 8);
  core_.buffers[old].note_known_write();
  note_read(old, blocked_event());
  device_.hold_digests(true);
  evictor_.evict({old, 0});
  const BufferId next = make_out(1, 5);
  pass(std::chrono::milliseconds{1});
  ASSERT_TRUE(demand(next)) << "nothing is to be waited for that lasts longer than the write-back";
  device_.hold_digests(false);
  device_.drain();
  while (evictor_.settle_digests()) {
  }
  EXPECT_TRUE(piece_of(old).host_digest.has_value());
  unblock();
  EXPECT_EQ(host_value(old), 8);
  EXPECT_EQ(device_value(next), 5);
  visit(old, 8);
  EXPECT_EQ(core_.counters.unchanged, 1U);
}

TEST_F(DigestingEvictorTest, ADigestThatEndsAfterItsPageWasFilledAnewIsOfNoUse) {
  const ManagerLock lock(core_.mutex);
  const BufferId old = make_known(9);
  launch(old, 8);
  core_.buffers[old].note_known_write();
  note_read(old, blocked_event());
  device_.hold_digests(true);
  evictor_.evict({old, 0});
  const BufferId next = make_out(1, 5);
  pass(std::chrono::milliseconds{1});
  ASSERT_TRUE(demand(next));
  unblock();
  device_.hold_digests(false);
  settle();
  EXPECT_FALSE(piece_of(old).host_digest.has_value()) << "it is that of the next owner's content";
}

TEST_F(DigestingEvictorTest, APageIsNotDestroyedUnderADigest) {
  const ManagerLock lock(core_.mutex);
  device_.hold_digests(true);
  const BufferId id = make_dirty(1, 9);
  evictor_.evict({id, 0});
  device_.drain();
  EXPECT_FALSE(pages_.reclaim_one());
  device_.hold_digests(false);
  device_.drain();
  EXPECT_TRUE(pages_.reclaim_one());
  settle();
}

TEST_F(DigestingEvictorTest, AnIdThatIsUsedAgainKnowsNothingOfFormerCopies) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_fresh(1);
  Buffer& buffer = core_.buffers[id];
  for (int i = 0; i < 9; ++i) buffer.note_write();
  buffer.note_known_write();
  core_.buffers.destroy(id);
  EXPECT_EQ(buffer.known_write, 0U);
}

TEST_F(DigestingEvictorTest, AResultThatTheDeviceNeverWroteDecidesNothing) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  device_.lose_digests(true);
  visit(id, 8);
  EXPECT_EQ(host_value(id), 8);
  EXPECT_EQ(core_.counters.unchanged, 0U);
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
}

TEST_F(DigestingEvictorTest, ALateWriteBackThatCannotBePreparedMapsThePieceAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  // A copy of the program out of the slab on a stream whose end cannot be marked now.
  const StreamHandle stream = device_.program_stream();
  const Slot slot = streams_.slot_of(stream);
  core_.buffers[id].host.operations.push_back({slot, stream, false, nullptr, ++core_.seq});
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  settle();
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_EQ(device_value(id), 8);
  core_.buffers[id].host.operations.clear();
}

// Its write-back would have to come behind that, and others behind it (I7).
TEST_F(DigestingEvictorTest, APieceThatTurnsOutToBeChangedWhileTheProgramUsesTheSlabIsMappedAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  note_read(id, blocked_event());
  settle();
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_EQ(device_value(id), 8);
  EXPECT_EQ(core_.counters.errors, 0U);
  const BufferId other = make_dirty(1, 5);
  evict(other);
  EXPECT_EQ(host_value(other), 5) << "nothing is queued before it";
  EXPECT_EQ(host_value(id), 9);
  unblock();
  evict(id);
  EXPECT_EQ(host_value(id), 8);
}

// The end of that work could not be marked when it was submitted.
TEST_F(DigestingEvictorTest, ALateWriteBackComesBehindWhatTheProgramDoesWithTheSlab) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  const StreamHandle stream = blocked_stream();
  core_.buffers[id].host.operations.push_back(
      {streams_.slot_of(stream), stream, false, nullptr, ++core_.seq});
  settle();
  EXPECT_EQ(piece_of(id).state(), PieceState::kOut);
  EXPECT_EQ(host_value(id), 9) << "the program still reads it";
  unblock();
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(DigestingEvictorTest, TheTimeThatADigestHasGrowsWithItsBytesAndBeginsWithTheOneBefore) {
  const ManagerLock lock(core_.mutex);
  const BufferId first = make_known(1);
  const BufferId second = make_known(2);
  for (const BufferId id : {first, second}) launch(id, 7);
  evictor_.evict({first, 0});
  device_.hold_digests(true);
  evictor_.evict({second, 0});
  pass(Evictor::kPatience);
  device_.drain();
  EXPECT_TRUE(evictor_.settle_digests());  // that of the first has come
  EXPECT_EQ(piece_of(second).state(), PieceState::kDigesting);
  pass(Evictor::kPatience);
  EXPECT_TRUE(evictor_.settle_digests());
  EXPECT_NE(piece_of(second).state(), PieceState::kDigesting);
  device_.hold_digests(false);
  settle();
}

TEST_F(DigestingEvictorTest, ThePageOfABufferThatIsFreedKeepsItsDigest) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  evictor_.evict({id, 0});
  core_.drop_digest({id, 0});
  EXPECT_FALSE(core_.ledger.expects_pages());
  const Page page = core_.pieces.leave({id, 0});
  EXPECT_THAT(page.after, IsEmpty());
  ASSERT_NE(page.digest, nullptr);
  EXPECT_FALSE(page.digest->is_known());
  settle();
  EXPECT_TRUE(page.digest->is_known());
  EXPECT_EQ(core_.counters.write_backs, 1U);  // nobody needs it
  core_.pool->put(page);
}

TEST_F(DigestingEvictorTest, WhatACopyOrAMemsetWroteIsWrittenBackAtOnce) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  core_.buffers[id].note_known_write();  // what filled it was a copy
  evictor_.evict({id, 0});
  EXPECT_FALSE(piece_of(id).has_page());
  settle();
  EXPECT_EQ(host_value(id), 8);
  visit(id, 8);
  EXPECT_EQ(core_.counters.unchanged, 1U);
}

TEST_F(DigestingEvictorTest, ContentThatKeepsChangingIsNotWaitedForUntilItStops) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(0);
  const auto waits = [&](int value) REQUIRES(manager_lock) {
    launch(id, value);
    evictor_.evict({id, 0});
    const bool waited = piece_of(id).state() == PieceState::kDigesting;
    settle();
    EXPECT_EQ(host_value(id), value);
    return waited;
  };
  EXPECT_TRUE(waits(1));
  EXPECT_TRUE(waits(2));
  EXPECT_FALSE(waits(3));
  EXPECT_FALSE(waits(4));
  EXPECT_FALSE(waits(4));  // it was unchanged, as its digest says
  EXPECT_TRUE(waits(4));
}

TEST_F(DigestingEvictorTest, AWantedPieceIsMappedAgainHoweverLateItsDigestIs) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  device_.hold_digests(true);
  evictor_.evict({id, 0});
  EXPECT_TRUE(core_.pool->expects(kGranule));
  core_.want({id, 0}, Want::kDemand);
  EXPECT_FALSE(core_.pool->expects(kGranule));
  pass(2 * Evictor::kPatience);
  EXPECT_FALSE(evictor_.settle_digests());
  ASSERT_EQ(mover_.fetch({id, 0}, true), ContentMover::Fetched::kSettled);
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(device_value(id), 8);
  device_.hold_digests(false);
  settle();
}

TEST_F(DigestingEvictorTest, ADigestThatDoesNotComeIsNotWaitedForLong) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  device_.hold_digests(true);
  evictor_.evict({id, 0});
  EXPECT_FALSE(evictor_.settle_digests());
  pass(Evictor::kPatience);
  EXPECT_TRUE(evictor_.settle_digests());
  EXPECT_FALSE(piece_of(id).has_page());
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_FALSE(evictor_.settle_digests());  // only once
  device_.hold_digests(false);
  settle();
  EXPECT_EQ(host_value(id), 8);
  visit(id, 8);  // what the late digest said is known
  EXPECT_EQ(core_.counters.unchanged, 1U);
}

TEST_F(DigestingEvictorTest, ADeviceThatCannotDigestHasAllWrittenBackAndTheUserIsTold) {
  const ManagerLock lock(core_.mutex);
  device_.fail(Call::kDigest, 1, Status::kDeviceError, true);
  const BufferId id = make_dirty(1, 9);
  evict(id);
  visit(id, 9);
  visit(id, 9);
  EXPECT_EQ(core_.counters.write_backs, 3U);
  EXPECT_EQ(core_.counters.digests, 0U);
  EXPECT_EQ(device_.calls(Call::kDigest), 1);
  core_.flush_warnings();
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("SUPERPIPE_WRITEBACK"), std::string::npos) << told_[0];
}

TEST_F(DigestingEvictorTest, ADigestThatCannotBeEnqueuedMeansAWriteBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  device_.fail(Call::kDigest, 1, Status::kDeviceError);
  evict(id);
  EXPECT_EQ(host_value(id), 8);
  visit(id, 7);  // no other digest is asked for
  EXPECT_EQ(host_value(id), 7);
  EXPECT_EQ(device_.calls(Call::kDigest), 2);
  EXPECT_EQ(core_.counters.errors, 0U) << "nothing has failed that anybody asked for";
}

TEST_F(DigestingEvictorTest, APageUnderADigestWithoutAKnownEndNeverMovesAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  evict(id);
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_EQ(device_value(id), 8);
  ++core_.turns;
  EXPECT_FALSE(evictions_.has_victim(core_.buffers[id], Bytes{}));
}

TEST_F(DigestingEvictorTest, APieceWhoseWriteBackFailsAfterItsDigestIsMappedAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 8);
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  evict(id);
  EXPECT_EQ(piece_of(id).state(), PieceState::kIn);
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_EQ(core_.counters.errors, 1U);
  EXPECT_EQ(device_value(id), 8);
  evict(id);
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(DigestingEvictorTest, AnEndThatTheDeviceDoesNotTellMeansAWriteBack) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_known(9);
  launch(id, 9);
  evictor_.evict({id, 0});
  device_.fail(Call::kIsComplete, 1, Status::kDeviceError);
  settle();
  EXPECT_EQ(host_value(id), 9);
  EXPECT_EQ(core_.counters.write_backs, 2U);
  EXPECT_FALSE(piece_of(id).host_digest.has_value());
}

TEST_F(DigestingEvictorTest, AsManyDigestsAreUnderWayAsThereIsRoomFor) {
  const ManagerLock lock(core_.mutex);
  constexpr std::size_t kBuffers = Digester::kSlots + 3;
  std::vector<BufferId> buffers;
  for (std::size_t i = 0; i < kBuffers; ++i)
    buffers.push_back(make_dirty(1, static_cast<int>(i % 200)));
  device_.hold_digests(true);
  for (const BufferId id : buffers) evictor_.evict({id, 0});
  EXPECT_EQ(core_.counters.digests, Digester::kSlots);
  EXPECT_EQ(core_.counters.write_backs, kBuffers);
  device_.hold_digests(false);
  settle();
  for (std::size_t i = 0; i < kBuffers; ++i) {
    EXPECT_EQ(host_value(buffers[i]), static_cast<int>(i % 200));
    EXPECT_EQ(piece_of(buffers[i]).host_digest.has_value(), i < Digester::kSlots);
  }
}

}  // namespace
}  // namespace superpipe::testing
