// What the manager promises about memory that is left to the driver (docs/design.md, I4).
#include <gmock/gmock.h>

#include "residency/residency_manager.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A program whose pass-through memory grows and shrinks, beside managed buffers.
class PassthroughTest : public ManagerTest {
 protected:
  /// The program allocates `pages` pages that the manager is told of.
  void grow(std::uint64_t pages) {
    passthrough_ += Bytes{pages * kPage};
    device_->set_passthrough(passthrough_);
    manager_->on_passthrough_allocation(Bytes{pages * kPage});
  }
  /// The program frees as many, and the worker has looked.
  void shrink(std::uint64_t pages) {
    passthrough_ -= Bytes{pages * kPage};
    device_->set_passthrough(passthrough_);
    manager_->on_passthrough_change();
    sample();
  }
  /// Lets the worker go on until it has asked the device once more.
  void sample() {
    const int asked = device_->calls(Call::kUsedBytes);
    for (int i = 0; i < 1000 && device_->calls(Call::kUsedBytes) == asked; ++i) {
      (void)manager_->run_worker_once();
    }
    ASSERT_GT(device_->calls(Call::kUsedBytes), asked);
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

TEST_F(PassthroughTest, TakesItsShareOfTheBudgetFromManagedPages) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  grow(3);
  settle();
  EXPECT_LE(device_->device_bytes(), Bytes{5 * kPage}) << "without a launch or an allocation";
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{3 * kPage});
  shrink(3);
  EXPECT_EQ(manager_->stats().passthrough_bytes, Bytes{});
  EXPECT_EQ(manager_->stats().peak_passthrough_bytes, Bytes{3 * kPage});
  for (const Address buffer : buffers) EXPECT_EQ(launch({buffer}), Status::kOk);
  device_->drain();
  EXPECT_EQ(device_->device_bytes(), Bytes{8 * kPage}) << "the room came back";
}

TEST_F(PassthroughTest, IsRefusedOnlyWhereItAloneExceedsTheBudget) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  EXPECT_TRUE(manager_->admits_passthrough(Bytes{8 * kPage})) << "managed pages give way";
  EXPECT_FALSE(manager_->admits_passthrough(Bytes{9 * kPage}));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("left to the driver fails")));
  grow(6);
  EXPECT_TRUE(manager_->admits_passthrough(Bytes{2 * kPage}));
  EXPECT_FALSE(manager_->admits_passthrough(Bytes{3 * kPage}));
  // A free is not counted when it happens: before a refusal, the device is asked.
  device_->set_passthrough(Bytes{kPage});
  EXPECT_TRUE(manager_->admits_passthrough(Bytes{7 * kPage}));
  expect_launched_once(buffers);
}

TEST_F(PassthroughTest, IsNeverRefusedWhereTheOverflowIsAllowed) {
  options_.overflow_allowed = true;
  make(budget_of(8));
  EXPECT_TRUE(manager_->admits_passthrough(Bytes{9 * kPage}));
}

TEST_F(PassthroughTest, IsNotWaitedFor) {
  make(budget_of(8));
  const auto buffers = fill_eight_pages();
  const int unmapped = device_->calls(Call::kUnmap);
  const int asked = device_->calls(Call::kUsedBytes);
  ASSERT_TRUE(manager_->admits_passthrough(Bytes{3 * kPage}));
  manager_->on_passthrough_allocation(Bytes{3 * kPage});
  manager_->on_passthrough_change();
  EXPECT_EQ(device_->calls(Call::kUnmap), unmapped);
  EXPECT_EQ(device_->calls(Call::kUsedBytes), asked);
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
  device_->set_passthrough(Bytes{2 * kPage});
  EXPECT_LE(device_->device_bytes() + Bytes{2 * kPage}, Bytes{8 * kPage});
  manager_->on_passthrough_change();
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
  // It has been freed since, and nobody told the manager.
  device_->set_passthrough(passthrough_ = Bytes{});
  EXPECT_EQ(launch({a, b}), Status::kOk);
  EXPECT_EQ(copy_out(a, kPage), 2);
  grow(2);
  settle();
  EXPECT_EQ(launch({a, b}), Status::kWorkingSetTooLarge);
  EXPECT_THAT(warnings_, Contains(HasSubstr("raise the budget by at least 4096 bytes")));
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
