// How buffers come to be, what becomes of freed ones, and what an allocation that fails leaves.
#include "residency/uses/buffer_lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BufferLifetimesTest : public UsingCoreTest {
 protected:
  using UsingCoreTest::UsingCoreTest;

  /// The address of a new buffer; 0 if there is none.
  Address allocate(std::uint64_t pages, std::optional<StreamHandle> stream = std::nullopt) {
    const auto address = lifetimes_.allocate(Bytes{pages * kGranule.count()}, stream);
    EXPECT_TRUE(address.ok());
    return address.ok() ? *address : 0;
  }
  /// Why there is no new buffer of one page; kOk: there is.
  Status status_of_allocation(std::optional<StreamHandle> stream = std::nullopt) {
    return lifetimes_.allocate(kGranule, stream).status();
  }
  [[nodiscard]] BufferId id_of(Address address) const {
    return BufferId{core_.arena->index_at(address)};
  }
  [[nodiscard]] bool is_live(Address address) const {
    return core_.arena->index_at(address) != Arena::kNobody;
  }
  /// No bytes are counted for any live buffer.
  void expect_no_buffers() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    EXPECT_EQ(core_.ledger.managed(), Bytes{});
    EXPECT_EQ(core_.ledger.live(), Bytes{});
    EXPECT_EQ(core_.host.reserved(), Bytes{});
  }

  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
};

TEST_F(BufferLifetimesTest, ABufferBeginsOnTheDevice) {
  const Bytes size = kGranule + Bytes{1};
  const auto address = lifetimes_.allocate(size, std::nullopt);
  ASSERT_TRUE(address.ok());
  const Buffer& buffer = core_.buffers[id_of(*address)];
  EXPECT_TRUE(buffer.live);
  EXPECT_TRUE(buffer.fresh);
  EXPECT_EQ(buffer.pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(buffer.footprint, 2 * kGranule);
  EXPECT_EQ(core_.host.reserved(), Bytes{}) << "what fits the device need not leave it";
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(core_.ledger.managed(), size);
}

TEST_F(BufferLifetimesTest, SizesThatNoDeviceHasAreRefused) {
  EXPECT_EQ(lifetimes_.allocate(Bytes{}, std::nullopt).status(), Status::kInvalidValue);
  EXPECT_EQ(lifetimes_.allocate(64_MiB + Bytes{1}, std::nullopt).status(),
            Status::kOutOfDeviceMemory);
  expect_no_buffers();
}

TEST_F(BufferLifetimesTest, AnAllocationThatFailsLeavesNothingBehind) {
  for (const Call call : {Call::kCreatePages, Call::kMap}) {
    device_.fail(call, 1, Status::kDeviceError);
    EXPECT_EQ(status_of_allocation(), Status::kDeviceError) << name_of(call);
    expect_no_buffers();
    EXPECT_EQ(device_.device_bytes(), Bytes{}) << name_of(call);
  }
  const Address address = allocate(1);
  EXPECT_EQ(id_of(address), BufferId{0});
  EXPECT_EQ(address, core_.arena_base + kGranule.count())
      << "the addresses of failed ones were given back";
}

TEST_F(BufferLifetimesTest, AStoppedManagerAllocatesNothing) {
  {
    const ManagerLock lock(core_.mutex);
    core_.waits.stopped = true;
  }
  EXPECT_EQ(status_of_allocation(), Status::kDeviceError);
  expect_no_buffers();
}

TEST_F(BufferLifetimesTest, AFreedBufferServesTheNextOfItsFootprintAsNew) {
  const Address address = allocate(2);
  const BufferId id = id_of(address);
  core_.buffers[id].note_write();
  core_.buffers[id].fresh = false;
  ASSERT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  expect_no_buffers();
  EXPECT_FALSE(is_live(address));
  const int maps = device_.calls(Call::kMap);
  EXPECT_NE(allocate(1), address);
  EXPECT_EQ(device_.calls(Call::kMap), maps + 2);
  EXPECT_EQ(allocate(2), address);
  EXPECT_EQ(device_.calls(Call::kMap), maps + 2);
  EXPECT_EQ(id_of(address), id);
  EXPECT_TRUE(core_.buffers[id].fresh);
  EXPECT_FALSE(core_.buffers[id].is_dirty(0));
}

TEST_F(BufferLifetimesTest, ASynchronousAllocationTakesNoBufferWhoseFreeHasNotCompleted) {
  const Address address = allocate(1);
  ASSERT_EQ(lifetimes_.free(address, blocked_stream()), Status::kOk);
  EXPECT_NE(allocate(1), address);
  unblock();
  EXPECT_EQ(allocate(1), address);
}

TEST_F(BufferLifetimesTest, AStreamOrderedAllocationIsOrderedBehindTheFreeOfAnotherStream) {
  const Address address = allocate(1);
  ASSERT_EQ(lifetimes_.free(address, blocked_stream()), Status::kOk);
  const StreamHandle stream = device_.program_stream();
  EXPECT_EQ(allocate(1, stream), address);
  bool used = false;
  device_.submit(stream, [&] { used = true; });
  device_.drain();
  EXPECT_FALSE(used);
  unblock();
  EXPECT_TRUE(used);
}

TEST_F(BufferLifetimesTest, TheStreamOfTheFreeReusesABufferWithoutWaiting) {
  const StreamHandle stream = blocked_stream();
  const Address address = allocate(1);
  ASSERT_EQ(lifetimes_.free(address, stream), Status::kOk);
  EXPECT_EQ(allocate(1, stream), address);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 0);
}

// PyTorch's own allocator never gives such memory to another stream; cudaMallocAsync does.
TEST_F(BufferLifetimesTest, ABufferThatAnotherStreamUsesIsNotUsedAgainBeforeThatIsOver) {
  const StreamHandle freeing = device_.program_stream();
  const StreamHandle using_it = blocked_stream();
  const Address address = allocate(1);
  {
    const ManagerLock lock(core_.mutex);
    use(id_of(address), freeing);
    use(id_of(address), using_it);
  }
  ASSERT_EQ(lifetimes_.free(address, freeing), Status::kOk);
  EXPECT_NE(allocate(1, freeing), address) << "though it was freed in the order of that stream";
  EXPECT_NE(allocate(1, using_it), address);
  EXPECT_NE(allocate(1), address);
  const Address younger = allocate(1);
  ASSERT_EQ(lifetimes_.free(younger, freeing), Status::kOk);
  device_.drain();
  {
    const ManagerLock lock(core_.mutex);
    EXPECT_TRUE(pages_.reclaim_one()) << "it is not in the way of a younger one";
    EXPECT_TRUE(pages_.reclaim_one()) << "whose page is idle then";
    EXPECT_FALSE(pages_.reclaim_one()) << "its page is still used";
  }
  unblock();
  EXPECT_EQ(allocate(1, freeing), address);
}

TEST_F(BufferLifetimesTest, OfStreamsThatMayWaitForTheProgramNoUseIsAwaited) {
  const StreamHandle freeing = device_.program_stream();
  const Address address = allocate(1);
  {
    const ManagerLock lock(core_.mutex);
    use(id_of(address), blocked_stream());
  }
  ASSERT_EQ(lifetimes_.free(address, freeing, OtherUses::kIgnored), Status::kOk);
  EXPECT_EQ(allocate(1, freeing), address);
}

TEST_F(BufferLifetimesTest, UsesOnOtherStreamsThatAreOverAreNotMarkedAgain) {
  const StreamHandle freeing = device_.program_stream();
  const StreamHandle other = device_.program_stream();
  const Address address = allocate(1);
  {
    const ManagerLock lock(core_.mutex);
    use(id_of(address), other);
    auto end = core_.events.record(other, core_.seq);
    ASSERT_TRUE(end.ok());
    core_.streams.note_event(core_.streams.slot_of(other), *end);
  }
  const int records = device_.calls(Call::kRecord);
  ASSERT_EQ(lifetimes_.free(address, freeing), Status::kOk);
  EXPECT_EQ(device_.calls(Call::kRecord), records + 1) << "the free";
  EXPECT_EQ(allocate(1, freeing), address);
}

TEST_F(BufferLifetimesTest, ABufferWhoseFreeHasCompletedIsPreferred) {
  const Address complete = allocate(1);
  const Address busy = allocate(1);
  ASSERT_EQ(lifetimes_.free(complete, std::nullopt), Status::kOk);
  ASSERT_EQ(lifetimes_.free(busy, blocked_stream()), Status::kOk);
  EXPECT_EQ(allocate(1, device_.program_stream()), complete);
}

TEST_F(BufferLifetimesTest, AReuseThatFailsLeavesTheBufferCached) {
  const Address address = allocate(1);
  ASSERT_EQ(lifetimes_.free(address, blocked_stream()), Status::kOk);
  const StreamHandle stream = device_.program_stream();
  device_.fail(Call::kStreamWait, 1, Status::kDeviceError);
  EXPECT_EQ(status_of_allocation(stream), Status::kDeviceError);
  expect_no_buffers();
  EXPECT_EQ(counters().errors, 1U);
  EXPECT_EQ(allocate(1, stream), address);
  EXPECT_EQ(device_.calls(Call::kStreamWait), 2) << "the free is still to be waited for";
}

TEST_F(BufferLifetimesTest, OnlyTheStartOfALiveBufferCanBeFreed) {
  const Address address = allocate(2);
  EXPECT_EQ(lifetimes_.free(address + kGranule.count(), std::nullopt), Status::kInvalidValue);
  EXPECT_EQ(lifetimes_.free(0, std::nullopt), Status::kInvalidValue);
  EXPECT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  EXPECT_EQ(lifetimes_.free(address, std::nullopt), Status::kInvalidValue);
}

TEST_F(BufferLifetimesTest, AFreeWhoseEndCannotBeMarkedFailsAndLeavesTheBufferAlive) {
  const Address address = allocate(1);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_EQ(lifetimes_.free(address, device_.program_stream()), Status::kDeviceError);
  EXPECT_TRUE(is_live(address));
  EXPECT_EQ(counters().errors, 1U);
}

TEST_F(BufferLifetimesTest, AFreeWaitsUntilNothingWorksOnTheBuffer) {
  const Address address = allocate(1);
  Buffer& buffer = core_.buffers[id_of(address)];
  buffer.pins = 1;
  buffer.host.pins = 1;
  core_.pieces.enter({id_of(address), 0}, PieceState::kLeaving);
  rounds_.round = [&] {
    if (rounds_.rounds == 2) buffer.pins = 0;
    if (rounds_.rounds == 3) core_.pieces.enter({id_of(address), 0}, PieceState::kIn);
    if (rounds_.rounds == 4) buffer.host.pins = 0;
    return true;
  };
  EXPECT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  EXPECT_EQ(rounds_.rounds, 4);
}

TEST_F(BufferLifetimesTest, AFreeWaitsNoLongerThanTheWaitLimit) {
  const Address address = allocate(1);
  core_.buffers[id_of(address)].pins = 1;
  EXPECT_EQ(lifetimes_.free(address, std::nullopt), Status::kTimedOut);
  EXPECT_TRUE(is_live(address));
  EXPECT_TRUE(told_of_giving_up("for another thread to be done with a buffer"));
}

TEST_F(BufferLifetimesTest, AFreedBufferIsNeitherEvictedNorFetched) {
  const Address address = allocate(1);
  const BufferId id = id_of(address);
  const std::vector<BufferId> victims{id};
  {
    const ManagerLock lock(core_.mutex);
    ASSERT_EQ(evictions_.request(victims), kGranule);
    core_.fetches.push(Want::kPrefetch, {id, 0, core_.buffers[id].generation});
    core_.buffers[id].pieces[0].want = Want::kPrefetch;
  }
  ASSERT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(core_.ledger.expects_pages());
  run_rounds();
  EXPECT_TRUE(core_.fetches.empty());
  EXPECT_EQ(core_.cache.of(kGranule), victims);
  EXPECT_EQ(device_.calls(Call::kUnmap), 0);
}

TEST_F(BufferLifetimesTest, ASlabServesNobodyBeforeTheWriteBackIntoItHasEnded) {
  const Address address = allocate(1);
  Buffer& buffer = core_.buffers[id_of(address)];
  buffer.note_write();
  buffer.fresh = false;
  {
    const ManagerLock lock(core_.mutex);
    buffer.host.operations.push_back(
        {kNoSlot, StreamHandle{}, false, blocked_event(), ++core_.seq});
    evictor_.evict({id_of(address), 0});
  }
  const std::byte* const data = buffer.host.slab.data;
  ASSERT_NE(data, nullptr);
  ASSERT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  const auto early = core_.host.acquire(kGranule, false);
  ASSERT_TRUE(early.ok());
  EXPECT_NE(early->data, data);
  unblock();
  const auto late = core_.host.acquire(kGranule, false);
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->data, data);
  core_.host.release(*early, {});
  core_.host.release(*late, {});
}

TEST_F(BufferLifetimesTest, APageUnderATransferWithoutAKnownEndServesNobody) {
  for (const bool stays_mapped : {true, false}) {
    const Bytes pages_before = device_.device_bytes();
    const Address address = allocate(1);
    Buffer& buffer = core_.buffers[id_of(address)];
    buffer.note_write();
    buffer.fresh = false;
    {
      const ManagerLock lock(core_.mutex);
      device_.fail(Call::kRecord, 1, Status::kDeviceError);
      if (!stays_mapped) device_.fail(Call::kMap, 1, Status::kDeviceError);
      evictor_.evict({id_of(address), 0});
    }
    ASSERT_EQ(buffer.pieces[0].state(), stays_mapped ? PieceState::kIn : PieceState::kUnmapped);
    ASSERT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
    EXPECT_NE(allocate(1), address);
    EXPECT_EQ(device_.device_bytes(), pages_before + 2 * kGranule);
  }
}

/// A budget of one page, and host memory for two.
class TightLifetimesTest : public BufferLifetimesTest {
 protected:
  explicit TightLifetimesTest(std::uint64_t budget_pages = 1)
      : BufferLifetimesTest(tight(budget_pages)) {}
  static ResidencyOptions tight(std::uint64_t budget_pages) {
    ResidencyOptions options = options_of(budget_pages);
    options.host_limit = 2 * kGranule;
    return options;
  }
};

TEST_F(TightLifetimesTest, ABufferWithoutRoomBeginsOutAndEvictsNobody) {
  const Address first = allocate(1);
  const Address second = allocate(1);
  EXPECT_EQ(core_.buffers[id_of(first)].pieces[0].state(), PieceState::kIn);
  EXPECT_EQ(core_.buffers[id_of(second)].pieces[0].state(), PieceState::kOut);
  EXPECT_TRUE(core_.buffers[id_of(second)].live);
  EXPECT_EQ(device_.calls(Call::kUnmap), 0);
  // It leaves nothing but its address behind, and no page in the cache.
  ASSERT_EQ(lifetimes_.free(second, std::nullopt), Status::kOk);
  EXPECT_EQ(allocate(1), second);
}

TEST_F(TightLifetimesTest, OnceNotAllFitTheDeviceEachBufferIsBacked) {
  const Address first = allocate(1);
  EXPECT_EQ(core_.host.reserved(), Bytes{});
  const Address second = allocate(1);
  EXPECT_EQ(core_.host.reserved(), 2 * kGranule);
  EXPECT_EQ(core_.host.pinned(), Bytes{}) << "pinned only when it is needed";
  ASSERT_EQ(lifetimes_.free(second, std::nullopt), Status::kOk);
  EXPECT_EQ(core_.host.reserved(), kGranule);
  ASSERT_EQ(lifetimes_.free(first, std::nullopt), Status::kOk);
  expect_no_buffers();
}

/// A budget of four pages, and host memory for two.
class LittleHostMemoryTest : public TightLifetimesTest {
 protected:
  LittleHostMemoryTest() : TightLifetimesTest(4) {}
};

TEST_F(LittleHostMemoryTest, AProgramThatFitsTheDeviceNeedsNone) {
  allocate(2);
  const Address last = allocate(2);
  EXPECT_EQ(status_of_allocation(), Status::kOutOfHostMemory)
      << "a page too many for both together";
  EXPECT_EQ(core_.host.reserved(), Bytes{}) << "what a refused allocation began is taken back";
  ASSERT_EQ(lifetimes_.free(last, std::nullopt), Status::kOk);
  EXPECT_EQ(status_of_allocation(), Status::kOk);
}

TEST_F(LittleHostMemoryTest, ARefusedAllocationLeavesASlabThatIsBeingMappedBacked) {
  Buffer& buffer = core_.buffers[id_of(allocate(2))];
  allocate(2);
  {
    const ManagerLock lock(core_.mutex);
    ASSERT_TRUE(core_.backing.back(buffer));
    buffer.host.is_mapping = true;
  }
  EXPECT_EQ(lifetimes_.allocate(2 * kGranule, std::nullopt).status(), Status::kOutOfHostMemory);
  EXPECT_EQ(core_.host.reserved(), 2 * kGranule);
  buffer.host.is_mapping = false;
}

TEST_F(LittleHostMemoryTest, ABufferThatLeavesAllTheSameIsBackedThen) {
  const BufferId id = id_of(allocate(2));
  const BufferId unbacked = id_of(allocate(1));
  const ManagerLock lock(core_.mutex);
  for (const BufferId each : {id, unbacked}) core_.buffers[each].note_write();
  evictor_.evict({id, 0});
  EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kOut);
  EXPECT_EQ(core_.host.reserved(), 2 * kGranule);
  evictor_.evict({unbacked, 0});
  EXPECT_EQ(core_.buffers[unbacked].pieces[0].state(), PieceState::kIn)
      << "its content has no other place";
  EXPECT_FALSE(core_.warnings.empty());
  core_.counters.errors = 0;
}

TEST_F(TightLifetimesTest, ABufferThatHostMemoryCannotBackIsRefusedWithAWarning) {
  allocate(1);
  const Address second = allocate(1);
  EXPECT_EQ(status_of_allocation(), Status::kOutOfHostMemory);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("out of host memory")));
  EXPECT_EQ(core_.host.reserved(), 2 * kGranule);
  ASSERT_EQ(lifetimes_.free(second, std::nullopt), Status::kOk);
  allocate(1);
}

/// A budget of four pages, and a launch of two that was begun without a buffer of three, of which
/// two are in place.
class LeftOutLifetimesTest : public BufferLifetimesTest {
 protected:
  LeftOutLifetimesTest() : BufferLifetimesTest(in_pieces()) {}
  static ResidencyOptions in_pieces() {
    ResidencyOptions options = options_of(4);
    options.policy.kind = PolicyKind::kAuto;
    options.piece_size = kGranule;
    return options;
  }

  /// Begins the launch: only words of structs name the buffer of three pages.
  void begin_without() {
    token_.set_certain_words(1);
    const std::array<std::uint64_t, 2> words{kept_, stale_};
    ASSERT_EQ(uses_.begin_launch(KernelId{7}, words, stream_, token_), Status::kOk);
    ASSERT_EQ(token_.left_out(), 1U);
    ASSERT_EQ(core_.buffers[id_of(stale_)].missing, 1U);
  }
  void submit() { uses_.end_use(token_, stream_, true); }
  /// Frees the buffer in an order that says nothing of the launch.
  Status free_stale() { return lifetimes_.free(stale_, device_.program_stream()); }
  /// Runs rounds. @return whether there may be work later.
  bool work() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    run_rounds();
    return mover_rounds_.is_pending();
  }

  const StreamHandle stream_ = blocked_stream();
  const Address stale_ = allocate(3);
  const Address kept_ = allocate(2);
  UseToken token_;
};

// The kernel shall fault there, not read what another buffer has.
TEST_F(LeftOutLifetimesTest, AFreedBufferKeepsItsAddressWhileALaunchRunsThatWasBegunWithoutIt) {
  begin_without();
  submit();
  ASSERT_EQ(free_stale(), Status::kOk);
  const Address other = allocate(3);
  EXPECT_NE(other, stale_);
  ASSERT_EQ(lifetimes_.free(other, std::nullopt), Status::kOk);
  EXPECT_TRUE(work());
  EXPECT_NE(allocate(3), stale_);
}

TEST_F(LeftOutLifetimesTest, AFreedBufferGivesAddressAndPagesOnWhenTheLaunchHasCompleted) {
  begin_without();
  submit();
  ASSERT_EQ(free_stale(), Status::kOk);
  EXPECT_TRUE(work());
  EXPECT_EQ(core_.cache.bytes(), Bytes{}) << "nobody may have its pages";
  unblock();
  EXPECT_FALSE(work());
  EXPECT_EQ(core_.cache.bytes(), 2 * kGranule);
  EXPECT_EQ(allocate(3), stale_);
}

// Its pages are nobody's before, but they are not lost.
TEST_F(LeftOutLifetimesTest, ALaunchWaitsForThePagesThatAFreedBufferGivesOn) {
  begin_without();
  submit();
  ASSERT_EQ(free_stale(), Status::kOk);
  const std::array<std::uint64_t, 2> words{kept_, allocate(2)};
  const int before = rounds_.rounds;
  rounds_.round = [this, before]() NO_THREAD_SAFETY_ANALYSIS {
    if (rounds_.rounds == before + 8) unblock();
    return mover_rounds_.run();
  };
  UseToken token;
  const StreamHandle stream = device_.program_stream();
  EXPECT_EQ(uses_.begin_launch(KernelId{8}, words, stream, token), Status::kOk);
  EXPECT_GE(rounds_.rounds, before + 8);
  uses_.end_use(token, stream, true);
}

TEST_F(LeftOutLifetimesTest, AFreedBufferGivesItsAddressOnWhereTheLaunchHasCompleted) {
  begin_without();
  submit();
  unblock();
  ASSERT_EQ(free_stale(), Status::kOk);
  EXPECT_EQ(allocate(3), stale_);
}

TEST_F(LeftOutLifetimesTest, AFreeWaitsForTheEndOfABeginningLaunchAndForNoMore) {
  begin_without();
  const int before = rounds_.rounds;
  in_round(before + 2, [this]() NO_THREAD_SAFETY_ANALYSIS {
    const Unlocked unlocked(core_.mutex);
    submit();
  });
  EXPECT_EQ(free_stale(), Status::kOk);
  EXPECT_EQ(rounds_.rounds, before + 2);
}

// Nothing tells when the kernel has ended, so the address is nobody's any more.
TEST_F(LeftOutLifetimesTest, ABufferThatIsLeftOutForGoodCanBeFreedAndKeepsItsAddress) {
  begin_without();
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  submit();
  ASSERT_EQ(free_stale(), Status::kOk);
  unblock();
  EXPECT_NE(allocate(3), stale_);
}

/// Buffers read as zero until they are written.
class ZeroFillLifetimesTest : public BufferLifetimesTest {
 protected:
  ZeroFillLifetimesTest() : BufferLifetimesTest(zero_filling_options()) {}
};

TEST_F(ZeroFillLifetimesTest, ABufferUnderAFillWithoutAKnownEndIsNotCachedAgain) {
  const Address address = allocate(1);
  ASSERT_EQ(lifetimes_.free(address, std::nullopt), Status::kOk);
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_EQ(status_of_allocation(), Status::kDeviceError);
  expect_no_buffers();
  EXPECT_NE(allocate(1), address);
}

/// Nothing is ever evicted, on a device with room for two pages.
class ResidentLifetimesTest : public BufferLifetimesTest {
 protected:
  ResidentLifetimesTest()
      : BufferLifetimesTest(resident(), FakeDevice::Options{.capacity = 2 * kGranule}) {}
  static ResidencyOptions resident() {
    ResidencyOptions options = options_of(1024);
    options.policy.kind = PolicyKind::kResident;
    options.policy.budget = std::nullopt;
    return options;
  }
};

TEST_F(ResidentLifetimesTest, ABufferWithoutAPageIsRefused) {
  allocate(2);
  EXPECT_EQ(status_of_allocation(), Status::kOutOfDeviceMemory);
  EXPECT_EQ(core_.host.reserved(), Bytes{}) << "nothing is ever out";
  const ManagerLock lock(core_.mutex);
  EXPECT_EQ(core_.ledger.managed(), 2 * kGranule);
}

TEST_F(ResidentLifetimesTest, RatherThanRefusingItHasTheStreamWaitForOtherUsesOfAFreedBuffer) {
  const StreamHandle freeing = device_.program_stream();
  const Address address = allocate(2);
  {
    const ManagerLock lock(core_.mutex);
    use(id_of(address), blocked_stream());
  }
  ASSERT_EQ(lifetimes_.free(address, freeing), Status::kOk);
  EXPECT_EQ(allocate(2, freeing), address);
  bool used = false;
  device_.submit(freeing, [&] { used = true; });
  device_.drain();
  EXPECT_FALSE(used);
  unblock();
  EXPECT_TRUE(used);
}

TEST_F(ResidentLifetimesTest, WaitsForABufferThatWasFreedInStreamOrderBeforeItRefuses) {
  const Address address = allocate(2);
  ASSERT_EQ(lifetimes_.free(address, blocked_stream()), Status::kOk);
  in_round(3, [this] { unblock(); });
  EXPECT_NE(allocate(1), 0U);
  EXPECT_GE(rounds_.rounds, 3);
}

}  // namespace
}  // namespace superpipe::testing
