// One eviction: in which order the device is asked, when content is written back, and where it is
// when a call of the device fails.
#include "residency/transfer/evictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/residency/evictor_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;

TEST_F(EvictorTest, AnEvictionUnmapsBeforeItCopies) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  std::vector<Call> calls;
  device_.on_call = [&calls](Call call) {
    if (call == Call::kUnmap || call == Call::kCopyToHost) calls.push_back(call);
  };
  evictor_.evict({id, 0});
  device_.on_call = nullptr;
  EXPECT_THAT(calls, ElementsAre(Call::kUnmap, Call::kCopyToHost));
}

TEST_F(EvictorTest, AnEvictionTakesDirtyContentToTheHostCopyAndLeavesThePageBehindThat) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  evictor_.evict({id, 0});
  const Buffer& buffer = core_.buffers[id];
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kOut);
  EXPECT_FALSE(buffer.is_dirty(0));
  EXPECT_FALSE(buffer.pieces[0].has_page());
  ASSERT_NE(buffer.pieces[0].write_back, nullptr);
  device_.drain();
  EXPECT_TRUE(is_complete(buffer.pieces[0].write_back));
  EXPECT_EQ(host_value(id), 9);
  EXPECT_THAT(take_idle_page().after, ElementsAre(buffer.pieces[0].write_back));
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_EQ(core_.counters.write_backs, 1U);
  EXPECT_EQ(core_.counters.d2h_bytes, kGranule);
}

// A kernel may have written it through a pointer that nothing of ours saw.
TEST_F(EvictorTest, WithoutDigestsContentThatNothingNamedGoesToTheHostCopyAsWell) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_clean(1, 7);
  const std::vector<std::byte> bytes(kGranule.count(), std::byte{9});
  ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
  ASSERT_FALSE(core_.buffers[id].is_dirty(0));
  evictor_.evict({id, 0});
  device_.drain();
  EXPECT_EQ(host_value(id), 9);
  EXPECT_EQ(core_.counters.write_backs, 1U);
}

TEST_F(EvictorTest, AWriteBackWaitsForWhatTheProgramStillReadsFromTheHostCopy) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_out(1, 5);
  note_read(id, blocked_event());
  ASSERT_TRUE(demand(id));
  device_.drain();
  core_.buffers[id].note_write();
  const std::vector<std::byte> bytes(kGranule.count(), std::byte{9});
  ASSERT_TRUE(device_.write(core_.buffers[id].base, bytes.size(), bytes.data()));
  evictor_.evict({id, 0});
  device_.drain();
  EXPECT_EQ(host_value(id), 5);
  unblock();
  EXPECT_EQ(host_value(id), 9);
}

TEST_F(EvictorTest, AnEvictionThatFailsLeavesTheBufferInPlaceUntilTheNextTurn) {
  const ManagerLock lock(core_.mutex);
  for (const Call call : {Call::kPin, Call::kUnmap, Call::kCopyToHost}) {
    const BufferId id = make_dirty(1, 9);
    const Buffer& buffer = core_.buffers[id];
    const std::uint64_t errors = core_.counters.errors;
    device_.fail(call, 1, Status::kDeviceError);
    evictor_.evict({id, 0});
    EXPECT_EQ(core_.counters.errors, errors + 1) << name_of(call);
    EXPECT_EQ(buffer.pieces[0].state(), PieceState::kIn) << name_of(call);
    EXPECT_TRUE(buffer.is_dirty(0)) << name_of(call);
    EXPECT_EQ(device_value(id), 9) << name_of(call);
    EXPECT_FALSE(core_.ledger.expects_pages()) << name_of(call);
    EXPECT_FALSE(core_.pool->expects(kGranule)) << name_of(call);
    EXPECT_FALSE(evictions_.has_victim(buffer, Bytes{})) << name_of(call);
    ++core_.turns;
    EXPECT_TRUE(evictions_.has_victim(buffer, Bytes{})) << name_of(call);
  }
}

// A copy of the program to other pieces needs it, or the eviction of one.
TEST_F(EvictorTest, AnEvictionWhoseSlabAnotherThreadIsGettingIsPutOff) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  Buffer& buffer = core_.buffers[id];
  buffer.host.is_mapping = true;
  evictor_.evict({id, 0});
  buffer.host.is_mapping = false;
  EXPECT_EQ(device_.calls(Call::kPin), 0) << "one of both slabs would be lost";
  EXPECT_EQ(device_.calls(Call::kUnmap), 0);
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.counters.errors, 0U);
  EXPECT_FALSE(core_.ledger.expects_pages());
  EXPECT_TRUE(evictions_.has_victim(buffer, Bytes{})) << "nothing has failed";
  evictor_.evict({id, 0});
  device_.drain();
  EXPECT_EQ(host_value(id), 9);
}

TEST_F(EvictorTest, APageThatCannotBeMappedAgainKeepsTheOnlyContent) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  const Buffer& buffer = core_.buffers[id];
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  evictor_.evict({id, 0});
  ASSERT_EQ(buffer.pieces[0].state(), PieceState::kUnmapped);
  // The next fetch maps that page, and copies nothing.
  EXPECT_TRUE(demand(id));
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kIn);
  EXPECT_TRUE(buffer.is_dirty(0));
  EXPECT_EQ(device_value(id), 9);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
}

TEST_F(EvictorTest, ABufferUnderAWriteBackWithoutAKnownEndNeverMovesAgain) {
  const ManagerLock lock(core_.mutex);
  const BufferId id = make_dirty(1, 9);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  evictor_.evict({id, 0});
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  ++core_.turns;
  EXPECT_FALSE(evictions_.has_victim(core_.buffers[id], Bytes{}));
}

}  // namespace
}  // namespace superpipe::testing
