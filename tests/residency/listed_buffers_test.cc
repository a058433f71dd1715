// Buffers on the user's list (SUPERPIPE_PIN), as a program under a whole manager has them.
#include "residency/uses/listed_buffers.h"

#include <gtest/gtest.h>

#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

using ListedBuffersTest = ManagerTest;

TEST_F(ListedBuffersTest, BuffersOnTheUsersListNeverLeave) {
  options_.pins = *PinList::parse("2,12288B");
  make(budget_of(6));
  const Address first = load(1, 1);
  const Address second = load(1, 2);
  const Address third = load(3, 3);
  EXPECT_EQ(manager_->stats().pinned_buffers, 2U);
  const Address rest[] = {load(1, 4), load(1, 5), load(1, 6)};
  for (const Address address : rest) ASSERT_EQ(launch({address, first}, stream_), Status::kOk);
  for (int pass = 0; pass < 3; ++pass) {
    for (const Address address : rest) {
      ASSERT_EQ(launch({address}, stream_), Status::kOk);
      device_->drain();
      std::byte byte{};
      EXPECT_TRUE(device_->read(second, 1, &byte)) << "it is mapped";
      EXPECT_TRUE(device_->read(third, 1, &byte));
    }
  }
  EXPECT_GT(manager_->stats().clean_evictions + manager_->stats().write_backs, 0U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("SUPERPIPE_PIN"), std::string::npos) << warnings_[0];
}

TEST_F(ListedBuffersTest, ABufferOnTheUsersListIsInPlaceWhenItsAddressIsKnown) {
  options_.pins = *PinList::parse("3");
  make(budget_of(2));
  const Address first = load(1, 1);
  const Address second = load(1, 2);
  const Address third = allocate(1);
  std::byte byte{};
  EXPECT_TRUE(device_->read(third, 1, &byte));
  EXPECT_EQ(copy_out(first, kPage), 1);
  EXPECT_EQ(copy_out(second, kPage), 2);
}

TEST_F(ListedBuffersTest, ABufferOnTheUsersListForWhichThereIsNoRoomIsRefused) {
  options_.pins = *PinList::parse("1-9");
  make(budget_of(3));
  (void)allocate(2);
  EXPECT_EQ(manager_->allocate(Bytes{2 * kPage}, std::nullopt).status(),
            Status::kWorkingSetTooLarge);
  (void)allocate(1);
}

TEST_F(ListedBuffersTest, ABufferOnTheUsersListTakesNoHostMemory) {
  options_.pins = *PinList::parse("3");
  options_.host_limit = Bytes{6 * kPage};
  make(budget_of(5));
  (void)load(2, 1);
  (void)load(2, 2);
  (void)load(2, 3);
  const Address last = load(2, 4);
  ASSERT_EQ(warnings_.size(), 1U) << "the host store backs all that moves";
  EXPECT_NE(warnings_[0].find("SUPERPIPE_PIN"), std::string::npos) << warnings_[0];
  EXPECT_EQ(copy_out(last, 2 * kPage), 4);
}

// A program that is out of memory frees what it can and tries again.
TEST_F(ListedBuffersTest, AnAllocationThatFailedDoesNotCount) {
  options_.pins = *PinList::parse("2");
  make(budget_of(2));
  (void)allocate(1);
  ASSERT_EQ(manager_->allocate(Bytes{3 * kPage}, std::nullopt).status(),
            Status::kWorkingSetTooLarge);
  EXPECT_EQ(manager_->buffers_so_far(), 1U);
  EXPECT_EQ(manager_->near(allocate(1))->number, 2U);
  EXPECT_EQ(manager_->stats().pinned_buffers, 1U) << "the second buffer is the one that is named";
}

TEST_F(ListedBuffersTest, CountsBuffersOnFromEarlierOnes) {
  options_.pins = *PinList::parse("8");
  options_.buffers_before = 6;
  make(budget_of(2));
  EXPECT_EQ(manager_->near(allocate(1))->number, 7U);
  EXPECT_EQ(manager_->stats().pinned_buffers, 0U);
  EXPECT_EQ(manager_->near(allocate(1))->number, 8U);
  EXPECT_EQ(manager_->stats().pinned_buffers, 1U);
}

// What was freed on the stream that allocates is given out again at once, with work on it.
TEST_F(ListedBuffersTest, ABufferThatCannotBePinnedGoesBackInTheOrderOfItsStream) {
  options_.pins = *PinList::parse("3");
  options_.piece_size = Bytes{kPage};
  make(budget_of(3, PolicyKind::kAuto));
  const Address freed = load(2, 1);
  const Address other = load(2, 2);
  ASSERT_EQ(launch({other}), Status::kOk);
  device_->drain();
  std::byte byte{};
  ASSERT_TRUE(device_->read(freed, 1, &byte));
  device_->submit_blocking_host_function(stream_);
  ASSERT_EQ(manager_->free_async(freed, stream_), Status::kOk);
  device_->fail(Call::kMap, 1, Status::kDeviceError, /*repeat=*/true);
  ASSERT_EQ(manager_->allocate(Bytes{2 * kPage}, stream_).status(), Status::kDeviceError);
  device_->clear_faults();
  const StreamHandle next = device_->program_stream();
  const auto again = manager_->allocate(Bytes{2 * kPage}, next);
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(*again, freed);
  bool has_run = false;
  device_->submit(next, [&] { has_run = true; });
  device_->drain();
  EXPECT_FALSE(has_run) << "work that was submitted before the free uses the buffer still";
  device_->release_host_functions();
  device_->drain();
  EXPECT_TRUE(has_run);
}

TEST_F(ListedBuffersTest, ABufferThatCannotBePinnedGoesBackInAnyOrderIfNotInThatOfItsStream) {
  options_.pins = *PinList::parse("2");
  make(budget_of(2));
  (void)allocate(1);
  const Bytes before = manager_->stats().managed_bytes;
  device_->fail(Call::kRecord, 1, Status::kDeviceError, /*repeat=*/true);
  ASSERT_EQ(manager_->allocate(Bytes{3 * kPage}, stream_).status(), Status::kWorkingSetTooLarge);
  device_->clear_faults();
  EXPECT_EQ(manager_->stats().managed_bytes, before) << "nobody knows its address to free it";
  EXPECT_EQ(manager_->buffers_so_far(), 1U);
}

}  // namespace
}  // namespace superpipe::testing
