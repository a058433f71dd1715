// What the manager promises, promise by promise (docs/design.md, "Invariants").
#include "residency/residency_manager.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "tests/hang_limit.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using ResidencyManagerTest = ManagerTest;

TEST_F(ResidencyManagerTest, MovesNothingWhenAllFits) {
  make(budget_of(16));
  std::vector<Address> layers;
  for (int i = 0; i < 8; ++i) layers.push_back(load(2, i));
  for (int pass = 0; pass < 6; ++pass) {
    for (const Address layer : layers) ASSERT_EQ(launch({layer}), Status::kOk);
    work();
  }
  const ResidencyStats stats = manager_->stats();
  EXPECT_EQ(stats.h2d_bytes + stats.d2h_bytes, Bytes{});
  EXPECT_EQ(stats.write_backs + stats.clean_evictions, 0U);
  EXPECT_EQ(device_->calls(Call::kUnmap), 0);
  EXPECT_EQ(stats.launches, 48U);
}

TEST_F(ResidencyManagerTest, LoadsAModelLargerThanTheDeviceIntoTheHostStore) {
  make(budget_of(4));
  std::vector<Address> layers;
  for (int i = 0; i < 20; ++i) layers.push_back(load(2, i + 1));
  const ResidencyStats stats = manager_->stats();
  EXPECT_EQ(stats.h2d_bytes + stats.d2h_bytes, Bytes{}) << "loading must not go over the device";
  EXPECT_LE(device_->peak_bytes(), Bytes{4 * kPage});
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(copy_out(layers[static_cast<std::size_t>(i)], 2 * kPage), i + 1);
}

TEST_F(ResidencyManagerTest, KeepsTheBudgetAndTheContentOverPasses) {
  make(budget_of(6));
  std::vector<Address> layers;
  for (int i = 0; i < 12; ++i) layers.push_back(load(1, 10 * i));
  for (int pass = 0; pass < 8; ++pass) {
    for (const Address layer : layers) ASSERT_EQ(launch({layer}), Status::kOk);
    work();
  }
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(copy_out(layers[i], kPage), static_cast<int>((10 * i + 8) % 256));
  }
  EXPECT_LE(device_->peak_bytes(), Bytes{6 * kPage});
  EXPECT_EQ(manager_->stats().peak_device_bytes, device_->peak_bytes());
  EXPECT_EQ(manager_->stats().peak_managed_demand, Bytes{12 * kPage});
}

TEST_F(ResidencyManagerTest, FetchesBeforeTheLaunchNeedsItOnceTheOrderIsKnown) {
  make(budget_of(6, PolicyKind::kSuperpipelinePaper));
  std::vector<Address> layers;
  for (int i = 0; i < 12; ++i) layers.push_back(load(1, i));
  const auto pass = [&] {
    for (const Address layer : layers) {
      ASSERT_EQ(launch({layer}), Status::kOk);
      for (int i = 0; i < 40; ++i) (void)manager_->run_worker_once();
    }
  };
  for (int i = 0; i < 6; ++i) pass();
  const ResidencyStats before = manager_->stats();
  for (int i = 0; i < 4; ++i) pass();
  const ResidencyStats after = manager_->stats();
  EXPECT_TRUE(after.learned.layers_known);
  EXPECT_GT(after.prefetches - before.prefetches, 20U);
  EXPECT_LE(after.demand_fetches - before.demand_fetches, 4U);
  EXPECT_GE(after.measured_passes.size(), 4U);
}

TEST_F(ResidencyManagerTest, RefusesALaunchThatAloneExceedsTheBudgetAndSaysBytesAndBudget) {
  make(budget_of(4));
  const Address a = load(3, 1);
  const Address b = load(3, 2);
  EXPECT_EQ(launch({a, b}), Status::kWorkingSetTooLarge);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr(std::to_string(6 * kPage)));
  EXPECT_THAT(warnings_[0], HasSubstr(std::to_string(4 * kPage)));
  // Nothing is pinned, nothing is lost: each alone runs.
  EXPECT_EQ(launch({a}), Status::kOk);
  EXPECT_EQ(launch({b}), Status::kOk);
  EXPECT_LE(device_->peak_bytes(), Bytes{4 * kPage});
}

TEST_F(ResidencyManagerTest, RunsOverTheBudgetOnceAndGoesBackWhenOverflowIsAllowed) {
  options_.overflow_allowed = true;
  make(budget_of(4));
  const Address a = load(3, 1);
  const Address b = load(3, 2);
  EXPECT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(device_->peak_bytes(), Bytes{6 * kPage});
  EXPECT_EQ(launch({a}), Status::kOk);
  device_->drain();
  work();
  EXPECT_LE(device_->device_bytes(), Bytes{4 * kPage});
  EXPECT_EQ(copy_out(b, kPage), 4);
}

TEST_F(ResidencyManagerTest, TakesOtherVictimsWhenAStreamWaitsForTheProgram) {
  make(budget_of(4));
  const Address stuck = load(2, 1);
  const Address idle = load(2, 2);
  const Address wanted = load(2, 3);
  const StreamHandle blocked = device_->program_stream();
  ASSERT_EQ(launch({stuck}, stream_), Status::kOk);
  ASSERT_EQ(launch({idle}, stream_), Status::kOk);
  device_->synchronize(stream_);
  device_->submit_blocking_host_function(blocked);
  ASSERT_EQ(launch({stuck}, blocked), Status::kOk);
  // The order of use makes `idle` the oldest; whichever is tried first, the launch must get through
  // without the host function, and within the budget.
  EXPECT_EQ(launch({wanted}, stream_), Status::kOk);
  EXPECT_LE(device_->peak_bytes(), Bytes{4 * kPage});
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ResidencyManagerTest, RunsOverTheBudgetAfterTheWaitLimitRatherThanHang) {
  make(budget_of(4));
  const Address stuck = load(4, 1);
  const Address wanted = load(2, 3);
  const StreamHandle blocked = device_->program_stream();
  device_->submit_blocking_host_function(blocked);
  ASSERT_EQ(launch({stuck}, blocked), Status::kOk);
  EXPECT_EQ(launch({wanted}, stream_), Status::kOk);
  EXPECT_EQ(launch({wanted}, stream_), Status::kOk);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("400 ms"));
  device_->release_host_functions();
  device_->drain();
  EXPECT_EQ(copy_out(wanted, kPage), 5);
  EXPECT_EQ(copy_out(stuck, kPage), 2);
}

TEST_F(ResidencyManagerTest, NeverTouchesACapturingStreamAndKeepsItsBuffers) {
  make(budget_of(4));
  const Address captured = load(2, 1);
  std::vector<Address> others;
  for (int i = 0; i < 4; ++i) others.push_back(load(1, i));
  const StreamHandle capturing = device_->program_stream();
  device_->set_capturing(capturing, true);
  UseToken token;
  ASSERT_EQ(announce({captured}, capturing, token), Status::kOk);
  manager_->end_use(token, capturing, true);
  for (int round = 0; round < 3; ++round) {
    for (const Address other : others) ASSERT_EQ(launch({other}), Status::kOk);
  }
  device_->set_capturing(capturing, false);
  // The graph may be launched at any time: its buffer is still where it was.
  std::byte byte;
  EXPECT_TRUE(device_->read(captured, 1, &byte));
}

TEST_F(ResidencyManagerTest, KeepsWhatIsPinnedForever) {
  make(budget_of(4));
  const Address pinned = load(2, 9);
  std::vector<Address> others;
  for (int i = 0; i < 4; ++i) others.push_back(load(1, i));
  const std::uint64_t word = pinned + 17;
  ASSERT_EQ(manager_->pin_forever({&word, 1}, "a test"), Status::kOk);
  for (int round = 0; round < 3; ++round) {
    for (const Address other : others) ASSERT_EQ(launch({other}), Status::kOk);
  }
  std::byte byte;
  ASSERT_TRUE(device_->read(pinned, 1, &byte));
  EXPECT_EQ(byte, std::byte{9});
}

TEST_F(ResidencyManagerTest, RefusesWhatDoesNotFitBesidePinnedBuffers) {
  make(budget_of(4));
  const std::uint64_t pinned = load(3, 9);
  const Address other = load(2, 1);
  ASSERT_EQ(manager_->pin_forever({&pinned, 1}, "a test"), Status::kOk);
  EXPECT_EQ(launch({other}), Status::kWorkingSetTooLarge);
  EXPECT_EQ(copy_out(other, 2 * kPage), 1);
}

TEST_F(ResidencyManagerTest, EvictsOnlyAfterAllOfAHundredStreamsAreDone) {
  make(budget_of(2));
  const Address shared = load(2, 0);
  const Address other = load(2, 5);
  std::vector<StreamHandle> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(device_->program_stream());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (i > 0) device_->order_after(streams[i], streams[i - 1]);
    ASSERT_EQ(launch({shared}, streams[i]), Status::kOk);
  }
  ASSERT_EQ(launch({other}, stream_), Status::kOk);
  device_->drain();
  EXPECT_EQ(copy_out(shared, kPage), 100);
}

TEST_F(ResidencyManagerTest, RecyclesTheSlotsOfDestroyedStreams) {
  make(budget_of(2));
  const Address a = load(2, 0);
  const Address b = load(2, 0);
  for (int i = 0; i < 200; ++i) {
    const StreamHandle stream = device_->program_stream();
    ASSERT_EQ(launch({i % 2 == 0 ? a : b}, stream), Status::kOk);
    manager_->on_stream_destroy(stream);
    device_->synchronize(stream);
  }
  EXPECT_EQ(copy_out(a, kPage), 100);
  EXPECT_EQ(copy_out(b, kPage), 100);
}

TEST_F(ResidencyManagerTest, SaysOutOfMemoryForWhatNoDeviceHas) {
  make(budget_of(4));
  for (const Bytes size : {Bytes{std::uint64_t{1} << 50}, Bytes{~std::uint64_t{0}}}) {
    EXPECT_EQ(manager_->allocate(size, std::nullopt).status(), Status::kOutOfDeviceMemory);
  }
}

TEST_F(ResidencyManagerTest, ReusesFreedBuffersOfTheSameSizeLastFreedFirst) {
  make(budget_of(16));
  const Address a = load(2, 1);
  const Address b = load(2, 2);
  ASSERT_EQ(manager_->free(a), Status::kOk);
  ASSERT_EQ(manager_->free(b), Status::kOk);
  const int created = device_->calls(Call::kCreatePages);
  EXPECT_EQ(allocate(2), b);
  EXPECT_EQ(allocate(2), a);
  EXPECT_EQ(device_->calls(Call::kCreatePages), created);
  EXPECT_EQ(manager_->free(a + 1), Status::kInvalidValue);
  EXPECT_EQ(manager_->free(12345), Status::kInvalidValue);
}

TEST_F(ResidencyManagerTest, ReusesABufferFreedInStreamOrderOnlyInThatOrder) {
  make(budget_of(16));
  const StreamHandle first = device_->program_stream();
  const StreamHandle second = device_->program_stream();
  device_->submit_blocking_host_function(first);
  const auto a = manager_->allocate(Bytes{kPage}, first);
  ASSERT_TRUE(a.ok());
  ASSERT_EQ(launch({*a}, first), Status::kOk);
  ASSERT_EQ(manager_->free_async(*a, first), Status::kOk);
  const auto other = manager_->allocate(Bytes{kPage}, std::nullopt);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*other, *a) << "a synchronous allocation must not wait, nor get a page still in use";
  const auto again = manager_->allocate(Bytes{kPage}, second);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *a);
  const std::vector<std::byte> bytes(kPage, std::byte{77});
  device_->submit(second, [&] { device_->write(*again, kPage, bytes.data()); });
  device_->drain();
  std::byte byte{};
  device_->read(*again, 1, &byte);
  EXPECT_NE(byte, std::byte{77}) << "the second stream did not wait for the first";
  device_->release_host_functions();
  device_->drain();
  device_->read(*again, 1, &byte);
  EXPECT_EQ(byte, std::byte{77});
}

TEST_F(ResidencyManagerTest, ReadsZeroFromReusedMemoryWhenAskedTo) {
  options_.zero_fill = true;
  make(budget_of(4));
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t pages = 1 + static_cast<std::uint64_t>(round) % 3;
    const Address address = allocate(pages);
    EXPECT_EQ(copy_out(address, pages * kPage), 0) << round;
    EXPECT_EQ(copy_in(address, pages * kPage, 0xAB), Status::kOk);
    EXPECT_EQ(manager_->free(address), Status::kOk);
    if (round % 2 == 0) (void)load(1, 3);
  }
}

TEST_F(ResidencyManagerTest, ReclaimsCachedBuffersBeforeItRefusesAnAllocation) {
  make(PolicyConfig{}, {.capacity = Bytes{8 * kPage}});
  const Address a = load(3, 1);
  const Address b = load(3, 2);
  EXPECT_FALSE(manager_->allocate(Bytes{3 * kPage}, std::nullopt).ok());
  EXPECT_EQ(manager_->allocate(Bytes{3 * kPage}, std::nullopt).status(),
            Status::kOutOfDeviceMemory);
  ASSERT_EQ(manager_->free(a), Status::kOk);
  EXPECT_TRUE(manager_->allocate(Bytes{5 * kPage}, std::nullopt).ok());
  EXPECT_EQ(copy_out(b, kPage), 2);
}

TEST_F(ResidencyManagerTest, RefusesAnAllocationThatTheHostStoreCannotBack) {
  options_.host_limit = Bytes{4 * kPage};
  make(budget_of(2));
  const Address a = load(3, 1);
  EXPECT_EQ(manager_->allocate(Bytes{2 * kPage}, std::nullopt).status(), Status::kOutOfHostMemory);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("SUPERPIPE_HOST_MEM"));
  EXPECT_EQ(manager_->capacity().left, Bytes{kPage});
  EXPECT_EQ(manager_->capacity().used, Bytes{3 * kPage});
  EXPECT_TRUE(manager_->allocate(Bytes{kPage}, std::nullopt).ok());
  ASSERT_EQ(manager_->free(a), Status::kOk);
  EXPECT_TRUE(manager_->allocate(Bytes{3 * kPage}, std::nullopt).ok());
}

// The slab of what was freed behind work that does not end is in the way of another one.
TEST_F(ResidencyManagerTest, RunsOverTheBudgetRatherThanWaitForAStreamOfTheProgramForHostMemory) {
  options_.host_limit = Bytes{3 * kPage};
  make(budget_of(2));
  const Address a = load(1, 1);
  const Address b = load(1, 2);
  const Address freed = load(1, 3);
  const StreamHandle blocked = device_->program_stream();
  device_->submit_blocking_host_function(blocked);
  ASSERT_EQ(manager_->free_async(freed, blocked), Status::kOk);
  const Address d = load(1, 4);
  // Each of these but the last one leaves a buffer on the device that has a slab.
  ASSERT_EQ(launch({d}), Status::kOk);
  ASSERT_EQ(launch({a, d}), Status::kOk);
  ASSERT_EQ(launch({b, d}), Status::kOk);
  ASSERT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(device_->calls(Call::kWait), 0) << "a thread waited for the program's work";
  EXPECT_EQ(manager_->stats().errors, 0U);
  device_->release_host_functions();
  device_->drain();
  EXPECT_EQ(copy_out(a, kPage), 3);
  EXPECT_EQ(copy_out(b, kPage), 4);
  EXPECT_EQ(copy_out(d, kPage), 7);
}

TEST_F(ResidencyManagerTest, KeepsTheOnlyCopyWhenAWriteBackFails) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 50);
  ASSERT_EQ(launch({a}), Status::kOk);
  device_->fail(Call::kCopyToHost, 1, Status::kDeviceError, true);
  EXPECT_EQ(launch({b}), Status::kDeviceError);
  EXPECT_GT(manager_->stats().errors, 0U);
  std::byte byte{};
  ASSERT_TRUE(device_->read(a, 1, &byte)) << "the page went away with the only copy";
  EXPECT_EQ(byte, std::byte{2});
  device_->clear_faults();
  EXPECT_EQ(launch({b}), Status::kOk);
  EXPECT_EQ(copy_out(a, kPage), 2);
}

TEST_F(ResidencyManagerTest, DoesNotSpinOnADeviceThatFailsForGood) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 50);
  ASSERT_EQ(launch({a}), Status::kOk);
  device_->drain();
  for (const Call call : {Call::kUnmap, Call::kMap, Call::kCopyToHost, Call::kCopyToDevice}) {
    device_->fail(call, 1, Status::kDeviceError, true);
  }
  const int before = device_->calls(Call::kUnmap);
  EXPECT_EQ(launch({b}), Status::kDeviceError);
  work();
  EXPECT_LE(device_->calls(Call::kUnmap) - before, 3);
  device_->clear_faults();
  EXPECT_EQ(copy_out(a, kPage), 2);
  EXPECT_EQ(copy_out(b, kPage), 50);
}

TEST_F(ResidencyManagerTest, RefusesCopiesThatLeaveTheBuffer) {
  make(budget_of(4));
  const Address a = load(1, 1);
  UseToken token;
  EXPECT_EQ(manager_->begin_copy_in(a + 1, Bytes{kPage}, stream_, token).status(),
            Status::kInvalidValue);
  EXPECT_EQ(manager_->begin_copy_out(a - 1, Bytes{1}, stream_, token).status(),
            Status::kInvalidValue);
  EXPECT_TRUE(token.empty());
}

TEST_F(ResidencyManagerTest, FindsBuffersByAnyAddressInThem) {
  make(budget_of(4));
  const auto a = manager_->allocate(Bytes{kPage + 10}, std::nullopt);
  ASSERT_TRUE(a.ok());
  ASSERT_TRUE(manager_->find(*a + kPage + 9));
  EXPECT_EQ(manager_->find(*a + kPage + 9)->base, *a);
  EXPECT_EQ(manager_->find(*a)->size, Bytes{kPage + 10});
  EXPECT_FALSE(manager_->find(*a + kPage + 10));
  EXPECT_FALSE(manager_->find(*a - 1));
  EXPECT_TRUE(manager_->in_arena(*a));
  const auto b = manager_->allocate(Bytes{kPage}, std::nullopt);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(manager_->near(*b - 1)->past_end, Bytes{*b - *a - kPage - 10});
  EXPECT_FALSE(manager_->in_arena(0));
  EXPECT_FALSE(manager_->in_arena(~std::uint64_t{0}));
}

TEST_F(ResidencyManagerTest, NamesEachBufferOnceHoweverManyWordsNameIt) {
  make(budget_of(100));
  std::vector<std::uint64_t> words;
  for (int i = 0; i < 70; ++i) {
    words.push_back(load(1, i));
    words.push_back(words.back() + 5);
    words.push_back(words.back());
  }
  words.push_back(words.back() + kPage);  // one past the end: the guard
  UseToken token;
  ASSERT_EQ(announce(words, stream_, token), Status::kOk);
  EXPECT_EQ(manager_->stats().accesses, 70U) << "more than a token holds inline";
  manager_->end_use(token, stream_, true);
  EXPECT_TRUE(token.empty());
}

TEST_F(ResidencyManagerTest, MeasuresAStallWhenALaunchWaitsForItsFetch) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 2);
  ASSERT_EQ(launch({a}), Status::kOk);
  EXPECT_EQ(manager_->stats().stall_ms, 0.0) << "it was resident";
  device_->drain();
  ASSERT_EQ(launch({b}), Status::kOk);
  device_->drain();
  work();
  EXPECT_GT(manager_->stats().stall_ms, 0.0);
}

TEST_F(ResidencyManagerTest, TouchesTheDeviceNoMoreOnceAbandoned) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 2);
  ASSERT_EQ(launch({a}), Status::kOk);
  device_->drain();
  int calls = 0;
  device_->on_call = [&](Call) { ++calls; };
  manager_->abandon();
  UseToken token;
  EXPECT_EQ(manager_->begin_use(std::vector<std::uint64_t>{b}, false, kLegacyStream, token),
            Status::kDeviceError);
  manager_.reset();
  EXPECT_EQ(calls, 0);
  device_->on_call = nullptr;
}

// I5: whatever call of the port is under way, another thread can use the manager.
TEST_F(ResidencyManagerTest, HoldsNoLockDuringAnyCallOfTheDevice) {
  make(budget_of(4));
  std::vector<Address> layers;
  for (int i = 0; i < 6; ++i) layers.push_back(load(1, i));
  int held = 0;
  int probes = 0;
  bool inside = false;
  device_->on_call = [&](Call) {
    if (inside || ++probes % 7 != 0) return;
    inside = true;
    auto other = std::async(std::launch::async, [&] { (void)manager_->stats(); });
    if (other.wait_for(kHangLimit) != std::future_status::ready) {
      ++held;
      std::abort();  // the thread is stuck behind a lock: nothing sensible can follow
    }
    inside = false;
  };
  for (int pass = 0; pass < 4; ++pass) {
    for (const Address layer : layers) ASSERT_EQ(launch({layer}), Status::kOk);
  }
  ASSERT_EQ(manager_->free(layers[0]), Status::kOk);
  (void)allocate(2);
  manager_->trim();
  (void)manager_->make_room(Bytes{kPage});
  manager_->begin_passthrough_change(PassthroughChange::kFree);
  manager_->end_passthrough_change(PassthroughChange::kFree);
  work();
  manager_->on_stream_destroy(stream_);
  device_->on_call = nullptr;
  EXPECT_EQ(held, 0);
  EXPECT_GT(probes, 50);
}

TEST_F(ResidencyManagerTest, TracksThePerThreadStreamOfEachThread) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 9);
  ASSERT_EQ(launch({a}, kPerThreadStream), Status::kOk);
  std::thread([&] { EXPECT_EQ(launch({a}, kPerThreadStream), Status::kOk); }).join();
  ASSERT_EQ(launch({b}, kPerThreadStream), Status::kOk);
  device_->drain();
  EXPECT_EQ(copy_out(a, kPage), 3);
  EXPECT_EQ(copy_out(b, kPage), 10);
}

TEST_F(ResidencyManagerTest, WritesNothingBackThatWasOnlyRead) {
  options_.compares_digests = true;
  make(budget_of(2));
  const std::uint64_t a = load(2, 1);
  const std::uint64_t b = load(2, 2);
  for (int round = 0; round < 3; ++round) {
    for (const std::uint64_t word : {a, b}) {
      UseToken token;
      ASSERT_EQ(manager_->begin_use({&word, 1}, false, stream_, token), Status::kOk);
      manager_->end_use(token, stream_, true);
    }
  }
  // The first eviction of each saves what was copied in; after that the host copy stays equal.
  EXPECT_LE(manager_->stats().write_backs, 2U);
  EXPECT_GE(manager_->stats().clean_evictions, 2U);
}

// A report of a fault names what the kernel may have lacked, not what others once did.
TEST_F(ResidencyManagerTest, SaysThatABufferWasLeftOutUntilItHasComeInAgain) {
  options_.kernel_name = [](KernelId kernel) {
    return "kernel " + std::to_string(static_cast<std::uint64_t>(kernel));
  };
  make(budget_of(4));
  const Address named = load(2, 1);
  const Address stale = load(3, 2);
  const Address other = load(2, 3);
  const auto left_out_by = [&] {
    std::vector<std::string> kernels;
    for (const AbsentBuffer& one : manager_->absent_buffers()) {
      if (one.number == 2) kernels.push_back(one.left_out_by);
    }
    return kernels;
  };
  UseToken token;
  token.set_certain_words(1);
  ASSERT_EQ(announce({named, stale}, stream_, token), Status::kOk);
  manager_->end_use(token, stream_, true);
  EXPECT_EQ(left_out_by(), std::vector<std::string>{"kernel 7"});
  device_->synchronize(stream_);
  ASSERT_EQ(launch({stale}), Status::kOk);
  EXPECT_EQ(left_out_by(), std::vector<std::string>{});
  device_->synchronize(stream_);
  ASSERT_EQ(launch({named, other}), Status::kOk);
  EXPECT_EQ(left_out_by(), std::vector<std::string>{""});
}

TEST(ResidencyManagerCreate, ReservesLessWhereTheDeviceHasNotThatMuch) {
  for (const int nth : {1, 2}) {
    FakeDevice device({});
    device.fail(Call::kReserve, nth, Status::kOutOfDeviceMemory);
    ResidencyOptions options;
    options.worker_thread = false;
    const auto manager = ResidencyManager::create(device, options);
    ASSERT_TRUE(manager.ok()) << nth;
    EXPECT_EQ(device.calls(Call::kReserve), nth + 2) << "twice the half of it";
    EXPECT_EQ(device.calls(Call::kReleaseReservation), nth - 1);
    const auto address = (*manager)->allocate(2_MiB, std::nullopt);
    ASSERT_TRUE(address.ok());
    EXPECT_TRUE((*manager)->in_arena(*address));
    EXPECT_FALSE((*manager)->in_arena(*address + (512_GiB).count()));
    EXPECT_EQ((*manager)->allocate(600_GiB, std::nullopt).status(), Status::kOutOfDeviceMemory);
    (*manager)->shut_down();
    EXPECT_EQ(device.violations(), std::vector<std::string>{});
  }
  FakeDevice device({});
  device.fail(Call::kReserve, 1, Status::kOutOfDeviceMemory, /*repeat=*/true);
  EXPECT_EQ(ResidencyManager::create(device, ResidencyOptions{}).status(),
            Status::kOutOfDeviceMemory);
}

TEST(ResidencyManagerCreate, FailsCleanlyWhenTheDeviceRefuses) {
  for (const Call call : {Call::kReserve, Call::kCreateStream}) {
    for (int nth = 1; nth <= 2; ++nth) {
      FakeDevice device({});
      device.fail(call, nth, Status::kDeviceError);
      ResidencyOptions options;
      options.arena_size = Bytes{64 << 20};
      EXPECT_EQ(ResidencyManager::create(device, options).status(), Status::kDeviceError);
      EXPECT_EQ(device.violations(), std::vector<std::string>{});
      EXPECT_EQ(device.live_events(), 0U);
    }
  }
}

}  // namespace
}  // namespace superpipe::testing
