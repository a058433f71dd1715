// Where a linear copy of the program goes, and what it waits for there.
#include "residency/uses/copy_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr bool kOut = false;
constexpr bool kIn = true;

class CopyRoutesTest : public UsingCoreTest {
 protected:
  using UsingCoreTest::UsingCoreTest;

  /// Begins a copy of the whole buffer.
  Result<CopyRoute> begin(BufferId id, bool in, UseToken& token) {
    return begin(id, in, token, stream_);
  }
  Result<CopyRoute> begin(BufferId id, bool in, UseToken& token, StreamHandle stream) {
    const Buffer& buffer = core_.buffers[id];
    return routes_.begin(buffer.base, Bytes{buffer.size.load()}, stream, in, token);
  }
  /// Why a copy of the whole buffer is not given a host route, or kOk. It has ended, and nothing of
  /// it was submitted.
  Status copy_now(BufferId id, bool in) {
    UseToken token;
    const auto route = begin(id, in, token);
    if (route.ok()) routes_.end(token, stream_, false);
    return route.status();
  }
  /// A copy between the host copy and the program's memory in the order of `stream`. `value`: what
  /// a copy into the buffer writes.
  void copy_on(StreamHandle stream, BufferId id, bool in, int value = 0) {
    UseToken token;
    const auto route = begin(id, in, token, stream);
    ASSERT_TRUE(route.ok() && route->host != nullptr);
    if (in) submit_host_write(stream, id, value);
    routes_.end(token, stream, true);
  }
  /// No copy holds the buffer or its host copy.
  void expect_unpinned(BufferId id) {
    EXPECT_EQ(core_.buffers[id].pins, 0U);
    EXPECT_EQ(core_.buffers[id].host.pins, 0U);
    EXPECT_FALSE(core_.buffers[id].host.is_busy());
  }

  CopyRoutes routes_{core_, streams_, mover_, uses_, digests_};
  const StreamHandle stream_ = device_.program_stream();
};

TEST_F(CopyRoutesTest, ACopyOfABufferInPlaceUsesTheDeviceAndPinsIt) {
  const BufferId id = clean(1);
  UseToken token;
  const auto route = begin(id, kIn, token);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, nullptr);
  EXPECT_FALSE(token.is_host_route());
  EXPECT_EQ(core_.buffers[id].pins, 1U);
  EXPECT_TRUE(core_.buffers[id].is_dirty(0));
  EXPECT_TRUE(core_.buffers[id].has_known_write(0));
  uses_.end_use(token, stream_, true);
  expect_unpinned(id);
}

/// Host memory for one page, which is in a slab that was given back and is in use.
class ShortOfSlabsCopyTest : public CopyRoutesTest {
 protected:
  static ResidencyOptions short_options() {
    ResidencyOptions options = options_of(1024);
    options.host_limit = kGranule;
    return options;
  }
  ShortOfSlabsCopyTest() : CopyRoutesTest(short_options()) {
    const auto slab = core_.host.acquire(kGranule, false);
    EXPECT_TRUE(slab.ok());
    if (slab.ok()) core_.host.release(*slab, {blocked_event()});
  }
};

TEST_F(ShortOfSlabsCopyTest, ACopyGoesToTheDeviceLongBeforeTheWaitLimit) {
  const BufferId id = fresh(1);
  const auto begun = core_.now();
  UseToken token;
  const auto route = begin(id, kIn, token);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit / 2);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, nullptr);
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(device_.calls(Call::kWait), 0);
  EXPECT_EQ(counters().errors, 0U);
  uses_.end_use(token, stream_, true);
  expect_unpinned(id);
}

// Its caller holds the other end of a copy, and may have to give that up before anything comes in.
TEST_F(ShortOfSlabsCopyTest, ACopyWhereTheBytesAreBringsNothingIn) {
  const BufferId id = fresh(1);
  UseToken token;
  const auto route = routes_.begin(core_.buffers[id].base, kGranule, stream_, kIn, token,
                                   /*may_come_in=*/false);
  EXPECT_EQ(route.status(), Status::kNotYet);
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  EXPECT_TRUE(token.empty());
  expect_unpinned(id);
}

TEST_F(CopyRoutesTest, ACopyWhereTheBytesAreUsesThePlaceThatTheyHave) {
  for (const bool is_out : {false, true}) {
    const BufferId id = is_out ? out(1, 3) : clean(1);
    UseToken token;
    const auto route = routes_.begin(core_.buffers[id].base, kGranule, stream_, kOut, token,
                                     /*may_come_in=*/false);
    ASSERT_TRUE(route.ok());
    EXPECT_EQ(route->host != nullptr, is_out);
    if (is_out) {
      routes_.end(token, stream_, false);
    } else {
      uses_.end_use(token, stream_, false);
    }
    expect_unpinned(id);
  }
}

TEST_F(ShortOfSlabsCopyTest, ACopyGetsTheSlabThatSoonComesFree) {
  const BufferId id = fresh(1);
  in_round(3, [&] { unblock(); });
  EXPECT_EQ(copy_now(id, kIn), Status::kOk);
  EXPECT_TRUE(core_.buffers[id].host.slab);
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  expect_unpinned(id);
}

class DigestingCopyRoutesTest : public CopyRoutesTest {
 protected:
  static ResidencyOptions digesting_options() {
    ResidencyOptions options = options_of(1024);
    options.compares_digests = true;
    return options;
  }
  DigestingCopyRoutesTest() : CopyRoutesTest(digesting_options()) {}

  /// A launch uses the buffer, and it is taken out; its digest may be under way.
  void visit(BufferId id) {
    UseToken token;
    ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, token),
              Status::kOk);
    uses_.end_use(token, stream_, true);
    device_.drain();
    const ManagerLock lock(core_.mutex);
    evictor_.evict({id, 0});
  }
  void settle() {
    const ManagerLock lock(core_.mutex);
    device_.drain();
    while (evictor_.settle_digests()) device_.drain();
  }
};

TEST_F(DigestingCopyRoutesTest, ACopyToTheHostCopyMakesItsDigestUnknown) {
  const BufferId id = clean(1, 7);
  visit(id);
  settle();
  ASSERT_TRUE(core_.buffers[id].pieces[0].host_digest.has_value());
  copy_on(stream_, id, kOut);
  EXPECT_TRUE(core_.buffers[id].pieces[0].host_digest.has_value());
  copy_on(stream_, id, kIn, 8);
  EXPECT_FALSE(core_.buffers[id].pieces[0].host_digest.has_value());
  // A launch that gives it back what it had before.
  visit(id);
  settle();
  device_.drain();
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(DigestingCopyRoutesTest, TheDigestOfWhatACopyHasReplacedIsOfNoUse) {
  const BufferId id = clean(1, 7);
  visit(id);  // written back, its digest under way
  ASSERT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  copy_on(stream_, id, kIn, 8);
  settle();
  EXPECT_FALSE(core_.buffers[id].pieces[0].host_digest.has_value());
}

TEST_F(DigestingCopyRoutesTest, ACopyWaitsUntilADigestHasDecidedWhereTheContentIs) {
  const BufferId id = clean(1, 7);
  visit(id);
  settle();
  visit(id);
  ASSERT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kDigesting);
  UseToken token;
  const auto route = begin(id, kOut, token);
  ASSERT_TRUE(route.ok());
  EXPECT_NE(route->host, nullptr);
  EXPECT_NE(core_.buffers[id].pieces[0].state(), PieceState::kDigesting);
  routes_.end(token, stream_, true);
}

TEST_F(CopyRoutesTest, ACopyOfABufferThatIsOutUsesTheHostCopyAndFetchesNothing) {
  const BufferId id = out(2, 7);
  const HostCopy& copy = core_.buffers[id].host;
  UseToken token;
  const auto route = routes_.begin(core_.buffers[id].base + 100, kGranule, stream_, kOut, token);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, copy.slab.data + 100);
  EXPECT_TRUE(token.is_host_route());
  EXPECT_TRUE(copy.is_busy()) << "no transfer of ours may begin meanwhile";
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  routes_.end(token, stream_, true);
  EXPECT_TRUE(token.empty());
  expect_unpinned(id);
}

TEST_F(CopyRoutesTest, ACopyInPlaceBringsTheBufferInWithItsContent) {
  const BufferId id = out(1, 7);
  const Address base = core_.buffers[id].base;
  UseToken token;
  const auto route = routes_.begin_in_place(base + 5, Bytes{3}, stream_, true, token);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, nullptr);
  EXPECT_EQ(route->size, Bytes{3});
  EXPECT_FALSE(token.is_host_route());
  EXPECT_TRUE(core_.buffers[id].has_known_write(0));
  uses_.end_use(token, stream_, true);
  device_.drain();
  EXPECT_EQ(device_value(id), 7);
  expect_unpinned(id);
  EXPECT_EQ(
      routes_.begin_in_place(base + 2 * kGranule.count(), Bytes{3}, stream_, true, token).status(),
      Status::kInvalidValue);
}

TEST_F(CopyRoutesTest, ARangeOutsideOneLiveBufferIsAnInvalidValue) {
  const BufferId id = out(1);
  const Address base = core_.buffers[id].base;
  UseToken token;
  const auto begin_at = [&](Address address, Bytes size) {
    return routes_.begin(address, size, stream_, kIn, token).status();
  };
  EXPECT_EQ(begin_at(base, kGranule + Bytes{1}), Status::kInvalidValue);
  EXPECT_EQ(begin_at(base + 1, kGranule), Status::kInvalidValue);
  EXPECT_EQ(begin_at(base + 2 * kGranule.count(), Bytes{1}), Status::kInvalidValue);
  EXPECT_EQ(begin_at(0, Bytes{1}), Status::kInvalidValue);
  EXPECT_EQ(begin_at(base + 1, Bytes{~std::uint64_t{0}}), Status::kInvalidValue);
  EXPECT_TRUE(token.empty());
  expect_unpinned(id);
  EXPECT_EQ(begin_at(base + 1, kGranule - Bytes{1}), Status::kOk);
}

TEST_F(CopyRoutesTest, ACopyIntoABufferThatWasNeverWrittenGivesItASlabAndContent) {
  const BufferId read = fresh(1);
  const BufferId written = fresh(1);
  EXPECT_EQ(copy_now(read, kOut), Status::kOk);
  EXPECT_EQ(copy_now(written, kIn), Status::kOk);
  EXPECT_TRUE(core_.buffers[read].fresh);
  EXPECT_FALSE(core_.buffers[written].fresh);
  EXPECT_TRUE(core_.buffers[written].host.slab);
}

TEST_F(CopyRoutesTest, WithoutASlabTheCopyFailsAndNothingIsHeldOff) {
  const BufferId id = fresh(1);
  device_.fail(Call::kPin, 1, Status::kDeviceError);
  EXPECT_EQ(copy_now(id, kIn), Status::kDeviceError);
  expect_unpinned(id);
  EXPECT_TRUE(core_.buffers[id].fresh);
  EXPECT_EQ(counters().errors, 1U);
}

TEST_F(CopyRoutesTest, WaitsUntilTheBufferHasStoppedMoving) {
  const BufferId id = out(1, 7);
  core_.pieces.enter({id, 0}, PieceState::kFetching);
  in_round(3, [&] { core_.pieces.enter({id, 0}, PieceState::kOut); });
  EXPECT_EQ(copy_now(id, kOut), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 3);
}

TEST_F(CopyRoutesTest, WaitsForAMovingBufferNoLongerThanTheWaitLimit) {
  const BufferId id = out(1, 7);
  core_.pieces.enter({id, 0}, PieceState::kFetching);
  const auto begun = core_.now();
  EXPECT_EQ(copy_now(id, kOut), Status::kTimedOut);
  EXPECT_GE(core_.now() - begun, core_.options.wait_limit);
  EXPECT_LT(core_.now() - begun, 2 * core_.options.wait_limit);
  EXPECT_TRUE(told_of_giving_up("for a buffer to stop moving"));
  expect_unpinned(id);
}

TEST_F(CopyRoutesTest, WaitsForTheThreadThatGetsTheSlab) {
  const BufferId id = fresh(1);
  HostCopy& copy = core_.buffers[id].host;
  copy.is_mapping = true;
  in_round(3, [&] { copy.is_mapping = false; });
  EXPECT_EQ(copy_now(id, kIn), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 3);
  copy.is_mapping = true;  // and it never ends
  EXPECT_EQ(copy_now(id, kIn), Status::kTimedOut);
  EXPECT_EQ(copy.pins, 0U);
}

TEST_F(CopyRoutesTest, TheStreamOfACopyWaitsForTheWriteBack) {
  const BufferId id = out(1, 7);
  const StreamHandle blocked = blocked_stream();
  submit_host_write(blocked, id, 9);
  core_.buffers[id].pieces[0].write_back = end_of(blocked);
  UseToken token;
  ASSERT_TRUE(begin(id, kOut, token).ok());
  int seen = -2;
  device_.submit(stream_, [&] { seen = host_value(id); });
  routes_.end(token, stream_, true);
  device_.drain();
  EXPECT_EQ(seen, -2);
  unblock();
  EXPECT_EQ(seen, 9);
}

TEST_F(CopyRoutesTest, ACopyIsNotOrderedBehindOtherOperationsOfTheProgram) {
  const BufferId id = out(1, 7);
  copy_on(blocked_stream(), id, kIn, 9);
  copy_on(device_.program_stream(), id, kOut);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 0) << "that is up to the program";
  EXPECT_EQ(device_.calls(Call::kWait), 0);
}

TEST_F(CopyRoutesTest, AFetchWaitsForACopyThatHasEnded) {
  const BufferId id = out(1, 7);
  copy_on(blocked_stream(), id, kIn, 9);
  {
    const ManagerLock lock(core_.mutex);
    ASSERT_EQ(mover_.fetch({id, 0}, true), ContentMover::Fetched::kSettled);
  }
  device_.drain();
  unblock();
  EXPECT_EQ(device_value(id), 9);
}

TEST_F(CopyRoutesTest, ACopyThatWasNotSubmittedIsNotWaitedFor) {
  const BufferId id = out(1, 7);
  const StreamHandle blocked = blocked_stream();
  UseToken token;
  ASSERT_TRUE(begin(id, kIn, token, blocked).ok());
  routes_.end(token, blocked, false);
  EXPECT_THAT(core_.buffers[id].host.operations, IsEmpty());
  expect_unpinned(id);
}

TEST_F(CopyRoutesTest, ACopyWhoseEndCannotBeMarkedIsRememberedAllTheSame) {
  const BufferId id = out(1, 7);
  const StreamHandle blocked = blocked_stream();
  UseToken token;
  ASSERT_TRUE(begin(id, kIn, token, blocked).ok());
  submit_host_write(blocked, id, 9);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  routes_.end(token, blocked, true);
  ASSERT_THAT(core_.buffers[id].host.operations, SizeIs(1));
  {
    const ManagerLock lock(core_.mutex);
    ASSERT_EQ(mover_.fetch({id, 0}, true), ContentMover::Fetched::kSettled);
  }
  device_.drain();
  unblock();
  EXPECT_EQ(device_value(id), 9);
}

TEST_F(CopyRoutesTest, ACapturedCopyUsesTheDeviceForEver) {
  const BufferId id = out(1, 7);
  device_.set_capturing(stream_, true);
  UseToken token;
  const auto route = begin(id, kOut, token);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, nullptr);
  EXPECT_EQ(device_value(id), 7);
  EXPECT_TRUE(core_.buffers[id].pinned_forever);
}

TEST_F(CopyRoutesTest, ABufferWhosePageHasTheOnlyContentIsMappedAgain) {
  const BufferId id = dirty(1, 9);
  {
    const ManagerLock lock(core_.mutex);
    device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
    device_.fail(Call::kMap, 1, Status::kDeviceError);
    evictor_.evict({id, 0});
  }
  ASSERT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kUnmapped);
  UseToken token;
  const auto route = begin(id, kOut, token);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->host, nullptr);
  EXPECT_EQ(device_value(id), 9);
}

/// Buffers read as zero until they are written.
class ZeroFillCopyTest : public CopyRoutesTest {
 protected:
  ZeroFillCopyTest() : CopyRoutesTest(zero_filling_options()) {}
};

TEST_F(ZeroFillCopyTest, WhatWasNeverWrittenReadsAsZeroInASlabThatOthersHadBefore) {
  const auto used = core_.host.acquire(kGranule, false);
  ASSERT_TRUE(used.ok());
  std::memset(used->data, 7, kGranule.count());
  core_.host.release(*used, {});
  const BufferId id = fresh(1);
  EXPECT_EQ(copy_now(id, kOut), Status::kOk);
  EXPECT_EQ(core_.buffers[id].host.slab.data, used->data);
  EXPECT_EQ(host_value(id), 0);
}

}  // namespace
}  // namespace superpipe::testing
