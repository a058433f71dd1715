// What the manager promises about pass-through memory (docs/design.md, I4).
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "residency/residency_manager.h"
#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A program whose pass-through memory grows and shrinks, beside managed buffers.
class PassthroughTest : public ManagerTest {
 protected:
  /// The program allocates `pages` pages that the manager is told of.
  void grow(std::uint64_t pages) {
    ASSERT_TRUE(manager_->begin_passthrough_allocation(Bytes{pages * kPage}));
    passthrough_ += Bytes{pages * kPage};
    device_->set_passthrough(passthrough_);
    manager_->end_passthrough_allocation(Bytes{pages * kPage}, true);
  }
  /// The program frees as many.
  void shrink(std::uint64_t pages) {
    manager_->begin_passthrough_change(PassthroughChange::kFree);
    passthrough_ -= Bytes{pages * kPage};
    device_->set_passthrough(passthrough_);
    manager_->end_passthrough_change(PassthroughChange::kFree);
  }
  /// The program loads code of no size while another process, which then has `pages` pages, grows.
  void load_code_beside_one_with(std::uint64_t pages) {
    manager_->begin_passthrough_change(PassthroughChange::kGrowth);
    device_->set_others(Bytes{pages * kPage});
    manager_->end_passthrough_change(PassthroughChange::kGrowth);
    sample();
  }
  /// Whether an allocation of `pages` pages may be made; it then fails.
  bool admits(std::uint64_t pages) {
    const Bytes size{pages * kPage};
    const bool admitted = manager_->begin_passthrough_allocation(size);
    if (admitted) manager_->end_passthrough_allocation(size, false);
    return admitted;
  }
  /// Lets the worker go on until it has asked the device once more.
  void sample() {
    const int asked = device_->calls(Call::kUsage);
    for (int i = 0; i < 1000 && device_->calls(Call::kUsage) == asked; ++i) {
      (void)manager_->run_worker_once();
    }
    ASSERT_GT(device_->calls(Call::kUsage), asked);
  }
  /// Lets worker and device go on until there is nothing left to do.
  void settle() {
    for (int i = 0; i < 100; ++i) {
      work();
      device_->drain();
    }
  }

  /// Four buffers of two pages each, on the device, each launched on once.
  std::vector<Address> fill_eight_pages() {
    std::vector<Address> buffers;
    for (int i = 0; i < 4; ++i) buffers.push_back(load(2, i));
    for (const Address buffer : buffers) EXPECT_EQ(launch({buffer}), Status::kOk);
    return buffers;
  }
  void expect_launched_once(const std::vector<Address>& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(copy_out(buffers[i], kPage), static_cast<int>(i) + 1);
    }
  }

  Bytes passthrough_;
};

TEST_F(PassthroughTest, WhatHasToMakeRoomForItStaysIfHostMemoryIsShort) {
  options_.host_limit = Bytes{6 * kPage};
  make(budget_of(16));
  std::vector<Address> buffers;
  for (int i = 0; i < 12; ++i) buffers.push_back(load(1, i));
  grow(8);
  sample();
  for (int pass = 0; pass < 3; ++pass) {
    for (const Address buffer : buffers) EXPECT_EQ(launch({buffer}), Status::kOk);
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(copy_out(buffers[i], kPage), static_cast<int>(i) + 3);
  }
  EXPECT_EQ(manager_->stats().errors, 0U);
  EXPECT_LE(device_->device_bytes(), Bytes{8 * kPage});
}

TEST_F(PassthroughTest, TakesItsShareOfTheBudgetFromManagedPages) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  grow(3);
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{5 * kPage}) << "without a launch or an allocation";
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{3 * kPage});
  sample();
  shrink(3);
  sample();
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
  EXPECT_EQ(manager_->stats().peak_passthrough_bytes, Bytes{3 * kPage});
  for (const Address buffer : buffers) EXPECT_EQ(launch({buffer}), Status::kOk);
  device_->drain();
  EXPECT_EQ(device_->device_bytes(), Bytes{8 * kPage}) << "the room came back";
}

TEST_F(PassthroughTest, PagesLeaveBeforeItTakesMoreThanTheHeadroom) {
  options_.headroom = Bytes{2 * kPage};
  make(budget_of(8));
  (void)fill_eight_pages();
  device_->drain();
  sample();
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{6 * kPage});
  grow(2);
  for (std::uint64_t pages = 3; pages <= 7; ++pages) {
    grow(1);
    EXPECT_LE(device_->device_bytes() + passthrough_, Bytes{8 * kPage}) << pages << " pages";
  }
}

TEST_F(PassthroughTest, ExceedsTheBudgetRatherThanWaitForWorkThatDoesNotEnd) {
  options_.headroom = Bytes{2 * kPage};
  options_.wait_limit = std::chrono::milliseconds{40};
  make(budget_of(8));
  const std::vector<Address> buffers{load(2, 0), load(2, 1), load(2, 2)};
  device_->drain();
  sample();
  device_->submit_blocking_host_function(stream_);
  for (const Address buffer : buffers) EXPECT_EQ(launch({buffer}), Status::kOk);
  grow(3);
  EXPECT_EQ(device_->device_bytes(), Bytes{6 * kPage}) << "it went on with all pages there";
  device_->release_host_functions();
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{4 * kPage});
  expect_launched_once(buffers);
}

TEST_F(PassthroughTest, IsRefusedOnlyWhereItAloneExceedsTheBudget) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  EXPECT_TRUE(admits(8)) << "managed pages give way";
  EXPECT_FALSE(admits(9));
  EXPECT_THAT(warnings_, ElementsAre(AllOf(
                             HasSubstr("a pass-through allocation of 36864 bytes (36 KiB) fails"),
                             HasSubstr("--gpu-mem"), Not(HasSubstr("--min-buffer")))));
  grow(6);
  EXPECT_TRUE(admits(2));
  EXPECT_FALSE(admits(3));
  // A free is not counted when it happens: before a refusal, the device is asked.
  shrink(5);
  EXPECT_TRUE(admits(7));
  expect_launched_once(buffers);
}

TEST_F(PassthroughTest, BlamesSmallAllocationsOnlyWhereThereAreMany) {
  make(budget_of(8));
  grow(6);
  EXPECT_FALSE(admits(3));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("--min-buffer")));
  EXPECT_EQ(manager_->stats().refused_allocations, 1U);
}

TEST_F(PassthroughTest, BlamesNoSmallAllocationsForTheMemoryOfAGraph) {
  make(budget_of(8));
  grow(6);
  EXPECT_FALSE(manager_->begin_foreseen_growth(Bytes{3 * kPage}));
  EXPECT_THAT(warnings_,
              ElementsAre(AllOf(HasSubstr("memory of 12288 bytes (12 KiB) that a graph allocates"),
                                HasSubstr("--gpu-mem"), Not(HasSubstr("--min-buffer")))));
}

TEST_F(PassthroughTest, BlamesSmallAllocationsForALaunchOnlyWhereTheyHaveALargePart) {
  make(budget_of(8));
  grow(1);
  EXPECT_EQ(launch({load(8, 0)}), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, ElementsAre(Not(HasSubstr("--min-buffer"))));
  grow(5);
  EXPECT_EQ(launch({load(3, 0)}, stream_, 8), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, Contains(HasSubstr("--min-buffer 64K")));
}

TEST_F(PassthroughTest, BlamesNoSmallAllocationsForTheLaunchOfAGraph) {
  options_.is_graph = [](KernelId /*kernel*/) { return true; };
  make(budget_of(8));
  grow(6);
  EXPECT_EQ(launch({load(3, 0)}), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("raise the budget by at least"),
                                           Not(HasSubstr("--min-buffer")))));
}

TEST_F(PassthroughTest, IsNeverRefusedWhereTheOverflowIsAllowed) {
  options_.overflow_allowed = true;
  make(budget_of(8));
  EXPECT_TRUE(admits(9));
}

TEST_F(PassthroughTest, IsNotWaitedFor) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  const int unmapped = device_->calls(Call::kUnmap);
  const int asked = device_->calls(Call::kUsage);
  grow(3);
  shrink(1);
  EXPECT_EQ(device_->calls(Call::kUnmap), unmapped);
  EXPECT_EQ(device_->calls(Call::kUsage), asked);
}

// What the driver takes unasked between two samples fits the headroom.
TEST_F(PassthroughTest, GrowsIntoTheHeadroomUnseen) {
  options_.headroom = Bytes{2 * kPage};
  make(budget_of(8));
  std::vector<Address> buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(load(1, i));
  for (const Address buffer : buffers) ASSERT_EQ(launch({buffer}), Status::kOk);
  device_->drain();
  EXPECT_EQ(device_->device_bytes(), Bytes{6 * kPage});
  manager_->begin_passthrough_change(PassthroughChange::kGrowth);
  device_->set_passthrough(Bytes{2 * kPage});
  EXPECT_LE(device_->device_bytes() + Bytes{2 * kPage}, Bytes{8 * kPage});
  manager_->end_passthrough_change(PassthroughChange::kGrowth);
  sample();
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{4 * kPage}) << "the headroom is free again";
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(copy_out(buffers[i], kPage), static_cast<int>(i) + 1);
  }
}

TEST_F(PassthroughTest, FailsALaunchOnlyAfterTheDeviceWasAsked) {
  make(budget_of(8));
  const Address a = load(4, 1);
  const Address b = load(3, 2);
  grow(2);
  shrink(2);  // the worker has not looked yet
  EXPECT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(copy_out(a, kPage), 2);
  grow(2);
  settle();
  EXPECT_EQ(launch({a, b}), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, Contains(HasSubstr("raise the budget by at least 4096 bytes")));
}

// While this process loads code, another one takes memory.
TEST_F(PassthroughTest, WhatANeighbourTakesFailsNoLaunchWhereTheDeviceTellsProcessesApart) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(8), device);
  const Address a = load(4, 1);
  const Address b = load(3, 2);
  load_code_beside_one_with(1);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
  load_code_beside_one_with(6);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{5 * kPage}) << "too early to ask again";
  EXPECT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
}

TEST_F(PassthroughTest, WhatANeighbourTakesIsChargedWhereTheDeviceDoesNotTellProcessesApart) {
  make(budget_of(8));
  const Address a = load(4, 1);
  const Address b = load(3, 2);
  load_code_beside_one_with(6);
  EXPECT_EQ(launch({a, b}), Status::kWorkingSetTooLarge);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{6 * kPage});
}

TEST_F(PassthroughTest, WhatANeighbourDoesWhileItIsAskedForDoesNotMatter) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(8), device);
  load_code_beside_one_with(1);
  load_code_beside_one_with(6);
  std::uint64_t asked = 0;
  device_->on_call = [&](Call call) {
    if (call == Call::kOwnUsage) device_->set_others(Bytes{(6 + ++asked) * kPage});
  };
  EXPECT_TRUE(admits(8)) << "it asks at once, before a refusal";
  EXPECT_EQ(asked, 1U);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
}

// Another thread of this process loads code all the while.
TEST_F(PassthroughTest, WhatANeighbourDoesWhileThisProcessIsNeverQuietFailsNothing) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(8), device);
  load_code_beside_one_with(1);
  load_code_beside_one_with(6);
  std::uint64_t asked = 0;
  device_->on_call = [&](Call call) {
    if (call == Call::kOwnUsage) device_->set_others(Bytes{(6 + ++asked) * kPage});
  };
  manager_->begin_passthrough_change(PassthroughChange::kGrowth);
  EXPECT_TRUE(admits(8)) << "a refusal needs more than a guess";
  EXPECT_EQ(asked, 3U);
  manager_->end_passthrough_change(PassthroughChange::kGrowth);
}

// Whether the answer has it already, nobody tells.
TEST_F(PassthroughTest, WhatThisProcessAllocatesWhileItIsAskedForIsNotTakenForAnothers) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(20), device);
  load_code_beside_one_with(1);
  load_code_beside_one_with(16);
  std::uint64_t asked = 0;
  device_->on_call = [&](Call call) {
    if (call != Call::kOwnUsage) return;
    device_->set_others(Bytes{(16 + ++asked) * kPage});
    grow(1);
  };
  EXPECT_TRUE(admits(12));
  EXPECT_EQ(asked, 3U);
  EXPECT_GE(manager_->stats().passthrough_bytes, Bytes{3 * kPage});
  EXPECT_LE(manager_->stats().passthrough_bytes, Bytes{4 * kPage});
}

// The answers do not fit together then, and it is asked for again.
TEST_F(PassthroughTest, WhatIsAllocatedWhileItIsAskedForCountsOnce) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(8), device);
  load_code_beside_one_with(1);
  load_code_beside_one_with(6);
  bool has_grown = false;
  device_->on_call = [&](Call call) {
    if (call == Call::kOwnUsage && !std::exchange(has_grown, true)) grow(2);
  };
  EXPECT_TRUE(admits(6));
  EXPECT_TRUE(has_grown);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{2 * kPage});
}

// As a driver without the processes, from then on.
TEST_F(PassthroughTest, NobodyIsAskedAnyMoreWhoDidNotTell) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(8), device);
  device_->fail(Call::kOwnUsage, 1, Status::kDeviceError, /*repeat=*/true);
  load_code_beside_one_with(4);
  EXPECT_FALSE(admits(8));
  EXPECT_FALSE(admits(8));
  EXPECT_EQ(device_->calls(Call::kOwnUsage), 4) << "at the start, and three times";
}

// The pages that leave meanwhile are in one answer, and not in the other.
TEST_F(PassthroughTest, AnswersBetweenWhichPagesLeftAreNotCompared) {
  FakeDevice::Options device;
  device.tells_processes = true;
  make(budget_of(20), device);
  (void)load(2, 1);
  const Address freed = load(2, 2);
  grow(3);
  sample();
  ASSERT_EQ(manager_->free(freed), Status::kOk);
  device_->drain();
  load_code_beside_one_with(1);
  load_code_beside_one_with(6);
  ASSERT_EQ(manager_->stats().passthrough_bytes, Bytes{8 * kPage}) << "too early to ask again";
  const int destroyed = device_->calls(Call::kDestroyPages);
  bool has_asked = false;
  device_->on_call = [&](Call call) {
    if (call == Call::kOwnUsage && !std::exchange(has_asked, true)) manager_->trim();
  };
  EXPECT_TRUE(admits(13));
  EXPECT_GT(device_->calls(Call::kDestroyPages), destroyed);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{3 * kPage});
}

// Under `resident` nothing gives way to an allocation of a buffer.
TEST_F(PassthroughTest, WhatANeighbourTakesFailsNoBuffer) {
  FakeDevice::Options device;
  device.tells_processes = true;
  PolicyConfig policy = budget_of(8);
  policy.kind = PolicyKind::kResident;
  make(policy, device);
  load_code_beside_one_with(1);
  load_code_beside_one_with(6);
  EXPECT_NE(load(6, 1), Address{});
}

// While all buffers are pinned nobody can go; the limit is kept as soon as that ends, without a
// launch or an allocation.
TEST_F(PassthroughTest, IsMadeRoomForOnceBuffersAreUnpinned) {
  make(budget_of(8));
  std::vector<std::uint64_t> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(load(2, i));
  ASSERT_EQ(launch(buffers), Status::kOk);
  settle();
  UseToken token;
  ASSERT_EQ(announce(buffers, stream_, token), Status::kOk);
  grow(3);
  settle();
  EXPECT_EQ(device_->device_bytes(), Bytes{8 * kPage});
  manager_->end_use(token, stream_, true);
  sample();
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{5 * kPage});
  grow(2);
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{3 * kPage});
}

// The worker does not undo at once what the user allowed.
TEST_F(PassthroughTest, MovesNothingAfterALaunchThatMayExceedTheLimit) {
  options_.overflow_allowed = true;
  make(budget_of(4));
  const Address a = load(3, 1);
  const Address b = load(3, 2);
  ASSERT_EQ(launch({a, b}), Status::kOk);
  settle();
  const Bytes moved = manager_->stats().h2d_bytes;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(launch({a, b}), Status::kOk);
    settle();
  }
  EXPECT_EQ(manager_->stats().h2d_bytes, moved);
}

TEST_F(PassthroughTest, FailsAnAllocationOnlyAfterTheDeviceWasAsked) {
  make(budget_of(8, PolicyKind::kResident));
  grow(6);
  shrink(6);
  EXPECT_TRUE(manager_->allocate(Bytes{4 * kPage}, std::nullopt).ok());
}

// A victim that cannot go is not asked again and again.
TEST_F(PassthroughTest, AsksVictimsThatCannotGoOncePerSample) {
  make(budget_of(8));
  (void)fill_eight_pages();
  settle();
  device_->fail(Call::kUnmap, 1, Status::kDeviceError, true);
  const int asked = device_->calls(Call::kUsage);
  const int unmapped = device_->calls(Call::kUnmap);
  grow(3);
  for (int i = 0; i < 2000; ++i) (void)manager_->run_worker_once();
  const int samples = device_->calls(Call::kUsage) - asked;
  EXPECT_LE(device_->calls(Call::kUnmap) - unmapped, 4 * (samples + 1)) << "four victims each time";
  device_->clear_faults();
}

/// The same with the worker's own thread: what happens while the device is being asked.
class PassthroughThreadsTest : public PassthroughTest {
 protected:
  PassthroughThreadsTest() {
    options_.worker_thread = true;
    options_.wait_limit = options_.sample_limit = kHangLimit;
  }
  /// Has the device call `call` last until release(). The test continues once it has begun.
  void hold(Call call) {
    device_->on_call = [this, call](Call made) {
      if (made != call || held_.exchange(true)) return;
      begun_.set_value();
      released_.get_future().wait();
    };
  }
  void wait_until_held() { begun_.get_future().wait(); }
  void release() { released_.set_value(); }
  /// Two buffers of four and three pages, of which one is out; and a freed one whose page is
  /// cached.
  std::vector<std::uint64_t> load_with_one_out() {
    const Address large = load(4, 1);
    const Address small = load(3, 2);
    free(load(1, 3));
    EXPECT_TRUE(manager_->make_room(Bytes{4 * kPage}));
    free(load(1, 3));
    return {large, small};
  }
  /// Begins to destroy that page, which lasts until release().
  std::future<void> trim_slowly() {
    hold(Call::kDestroyPages);
    auto trim = std::async(std::launch::async, [this] { manager_->trim(); });
    wait_until_held();
    return trim;
  }
  void free(Address buffer) {
    device_->synchronize(stream_);
    EXPECT_EQ(manager_->free(buffer), Status::kOk);
  }
  void TearDown() override {
    device_->on_call = nullptr;
    PassthroughTest::TearDown();
  }

  std::atomic<bool> held_{false};
  std::promise<void> begun_;
  std::promise<void> released_;
};

// Two samples of the same growth must not take it off the estimate twice.
TEST_F(PassthroughThreadsTest, IsSampledByOneThreadAtATime) {
  make(budget_of(8));
  hold(Call::kUsage);
  auto first = std::async(std::launch::async, [&] { (void)manager_->capacity(); });
  wait_until_held();
  grow(3);
  AsideCall<void> second([&] { (void)manager_->capacity(); });
  EXPECT_TRUE(second.waits());
  release();
  first.get();
  second.get();
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{3 * kPage});
  EXPECT_EQ(manager_->stats().managed_limit, Bytes{5 * kPage});
}

// The device's count and ours are compared with no page on its way: a launch is not refused for
// what was freed long ago.
TEST_F(PassthroughThreadsTest, IsSampledWhenPagesHaveStoppedChanging) {
  make(budget_of(8));
  const std::vector<std::uint64_t> both = load_with_one_out();
  auto trim = trim_slowly();
  grow(2);
  shrink(2);
  AsideCall<Status> launched([&] { return launch(both); });
  EXPECT_TRUE(launched.waits());
  release();
  trim.get();
  EXPECT_EQ(launched.get(), Status::kOk);
}

// Operations of other threads announce changes all the time: that must not shorten the wait for a
// page whose destruction takes long.
TEST_F(PassthroughThreadsTest, IsSampledHoweverOftenOthersAnnounceChanges) {
  make(budget_of(9));
  const Address busy = load(1, 9);
  UseToken keep;
  ASSERT_EQ(announce({busy}, stream_, keep), Status::kOk);
  const std::vector<std::uint64_t> both = load_with_one_out();
  auto trim = trim_slowly();
  grow(2);
  shrink(2);
  std::atomic<bool> stop{false};
  std::atomic<int> announced{0};
  const StreamHandle other = device_->program_stream();
  auto announcing = std::async(std::launch::async, [&] {
    while (!stop) {
      UseToken token;
      if (announce({busy}, other, token) == Status::kOk) manager_->end_use(token, other, true);
      ++announced;
    }
  });
  std::atomic<bool> launches{false};
  auto launched = std::async(std::launch::async, [&] {
    launches = true;
    return launch({both[0], both[1], busy});
  });
  while (!launches) std::this_thread::yield();
  const int before = announced;
  while (announced < before + 1000) std::this_thread::yield();
  EXPECT_EQ(launched.wait_for(std::chrono::seconds{0}), std::future_status::timeout);
  release();
  trim.get();
  EXPECT_EQ(launched.get(), Status::kOk);
  stop = true;
  announcing.get();
  manager_->end_use(keep, stream_, true);
}

TEST_F(PassthroughThreadsTest, DoesNotChangePagesWhileItIsSampled) {
  make(budget_of(8));
  hold(Call::kUsage);
  auto asked = std::async(std::launch::async, [&] { (void)manager_->capacity(); });
  wait_until_held();
  const int created = device_->calls(Call::kCreatePages);
  AsideCall<Result<Address>> allocated(
      [&] { return manager_->allocate(Bytes{kPage}, std::nullopt); });
  EXPECT_TRUE(allocated.waits());
  EXPECT_EQ(device_->calls(Call::kCreatePages), created);
  release();
  asked.get();
  EXPECT_TRUE(allocated.get().ok());
  EXPECT_EQ(device_->calls(Call::kCreatePages), created + 1);
}

TEST_F(PassthroughTest, HasRoomMadeAfterTheDriverWasOutOfMemory) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  EXPECT_TRUE(manager_->make_room(Bytes{3 * kPage}));
  EXPECT_LE(device_->device_bytes(), Bytes{5 * kPage});
  expect_launched_once(buffers);
}

TEST_F(PassthroughTest, HasNoRoomMadeWhereNothingIsOurs) {
  make(budget_of(8));
  EXPECT_FALSE(manager_->make_room(Bytes{kPage})) << "asking the driver again is of no use";
}

// What is stuck behind work that may need the program is no room (I7).
TEST_F(PassthroughTest, HasRoomMadeBesideWhatIsStuck) {
  make(budget_of(8));
  const Address stuck = load(4, 1);
  const Address idle = load(4, 2);
  const StreamHandle other = device_->program_stream();
  device_->order_after(other, stream_);
  UseToken token;
  ASSERT_EQ(announce({stuck}, other, token), Status::kOk);
  device_->submit_blocking_host_function(other);
  manager_->end_use(token, other, true);
  ASSERT_EQ(launch({idle}), Status::kOk);
  EXPECT_TRUE(manager_->make_room(Bytes{kPage}));
  EXPECT_EQ(device_->device_bytes(), Bytes{4 * kPage}) << "the idle buffer went";
  EXPECT_FALSE(manager_->make_room(Bytes{kPage}));
  device_->release_host_functions();
  device_->synchronize(other);
  EXPECT_EQ(copy_out(stuck, kPage), 1);
  EXPECT_EQ(copy_out(idle, kPage), 3);
}

}  // namespace
}  // namespace superpipe::testing
