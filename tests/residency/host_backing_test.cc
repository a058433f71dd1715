// Which buffers get host memory once not all fit the device, and which stay there instead.
#include "residency/room/host_backing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "residency/host/host_store.h"
#include "residency/pieces/buffer_table.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

constexpr Bytes pages(std::uint64_t count) { return Bytes{count * 4096}; }

/// Live buffers without shares, and a host store of six pages; pages may take eight.
class HostBackingTest : public ::testing::Test {
 protected:
  static constexpr Bytes kLimit = pages(8);

  BufferId make(std::uint64_t page_count) REQUIRES(manager_lock) {
    const BufferId id = *buffers_.create();
    Buffer& buffer = buffers_[id];
    buffer.size = pages(page_count).count();
    buffer.cut(pages(page_count), pages(page_count));
    buffer.live = true;
    return id;
  }
  /// A buffer that has its share.
  BufferId admit(std::uint64_t page_count) REQUIRES(manager_lock) {
    const auto share = backing_.reserve(pages(page_count), pages(page_count), kLimit);
    EXPECT_TRUE(share.has_value());
    const BufferId id = make(page_count);
    if (share) backing_.begin_life(buffers_[id], *share);
    return id;
  }
  bool is_refused(std::uint64_t page_count) REQUIRES(manager_lock) {
    return !backing_.reserve(pages(page_count), pages(page_count), kLimit).has_value();
  }
  void end(BufferId id) REQUIRES(manager_lock) {
    backing_.end_life(buffers_[id]);
    buffers_[id].live = false;
  }
  [[nodiscard]] bool stays(BufferId id) REQUIRES(manager_lock) { return buffers_[id].stays; }

  FakeDevice device_{FakeDevice::Options{}};
  EventPool events_{device_};
  HostStore host_{device_, events_, {pages(6)}, std::chrono::milliseconds{100}};
  BufferTable buffers_;
  ManagerMutex mutex_;
  HostBacking backing_{buffers_, host_, pages(1)};
};

TEST_F(HostBackingTest, BacksWhatLivesWhenItBegins) {
  const ManagerLock lock(mutex_);
  const BufferId first = make(2);
  const BufferId second = make(3);
  EXPECT_TRUE(backing_.shrink_to(Bytes{}));
  EXPECT_EQ(host_.reserved(), pages(5));
  EXPECT_FALSE(stays(first) || stays(second));
}

TEST_F(HostBackingTest, WhatHostMemoryIsShortOfStays) {
  const ManagerLock lock(mutex_);
  const BufferId first = make(4);
  const BufferId second = make(4);
  ASSERT_TRUE(backing_.shrink_to(pages(6)));
  EXPECT_FALSE(stays(first));
  EXPECT_TRUE(stays(second));
  EXPECT_EQ(backing_.staying(), pages(4));
}

TEST_F(HostBackingTest, ASmallerBufferIsBackedAfterALargerOneWasRefused) {
  const ManagerLock lock(mutex_);
  make(5);
  const BufferId large = make(3);
  const BufferId small = make(1);
  ASSERT_TRUE(backing_.shrink_to(pages(6)));
  EXPECT_TRUE(stays(large));
  EXPECT_FALSE(stays(small));
}

TEST_F(HostBackingTest, DoesNotBeginWhereTooMuchWouldStay) {
  const ManagerLock lock(mutex_);
  make(4);
  const BufferId second = make(4);
  EXPECT_FALSE(backing_.shrink_to(pages(5)));
  EXPECT_FALSE(backing_.has_begun());
  EXPECT_EQ(host_.reserved(), Bytes{});
  EXPECT_EQ(backing_.staying(), Bytes{});
  EXPECT_FALSE(stays(second));
}

TEST_F(HostBackingTest, HostAndDeviceHoldTogetherWhatNeitherDoes) {
  const ManagerLock lock(mutex_);
  std::vector<BufferId> ids;
  for (int i = 0; i < 12; ++i) ids.push_back(admit(1));
  EXPECT_EQ(host_.reserved(), pages(6));
  EXPECT_EQ(backing_.staying(), pages(6)) << "three quarters of the limit";
  EXPECT_TRUE(is_refused(1));
  EXPECT_EQ(host_.reserved(), pages(6));
  EXPECT_EQ(backing_.staying(), pages(6)) << "a refusal leaves nothing behind";
}

TEST_F(HostBackingTest, TheLargestBufferFitsBesideWhatStays) {
  const ManagerLock lock(mutex_);
  admit(5);
  for (int i = 0; i < 1 + 3; ++i) admit(1);
  EXPECT_EQ(backing_.staying(), pages(3));
  EXPECT_TRUE(is_refused(1)) << "a launch that names the first would find no room";
}

TEST_F(HostBackingTest, ARefusedBufferTakesNoRoomFromOthers) {
  const ManagerLock lock(mutex_);
  admit(6);
  EXPECT_TRUE(is_refused(8));
  EXPECT_TRUE(stays(admit(2)));
}

TEST_F(HostBackingTest, TheNewBufferIsBackedRatherThanTheOldOnes) {
  const ManagerLock lock(mutex_);
  const BufferId old = make(3);
  EXPECT_FALSE(stays(admit(5)));
  EXPECT_TRUE(stays(old));
}

TEST_F(HostBackingTest, WhatIsFreedCanBeHadAgain) {
  const ManagerLock lock(mutex_);
  for (int pass = 0; pass < 3; ++pass) {
    const BufferId first = admit(3);
    const BufferId second = admit(3);
    for (int i = 0; i < 2 && pass == 0; ++i) EXPECT_TRUE(stays(admit(2)));
    end(first);
    end(second);
    EXPECT_EQ(host_.reserved(), Bytes{});
  }
}

TEST_F(HostBackingTest, WhatHostMemoryBacksIsAdmittedHoweverMuchStays) {
  const ManagerLock lock(mutex_);
  const BufferId backed = admit(3);
  admit(3);
  EXPECT_TRUE(stays(admit(3)));
  end(backed);
  EXPECT_FALSE(backing_.reserve(pages(4), pages(4), pages(4)).has_value());
  EXPECT_TRUE(backing_.reserve(pages(2), pages(2), pages(4)).has_value());
}

TEST_F(HostBackingTest, ShrinkingBacksWhatStaysFirst) {
  const ManagerLock lock(mutex_);
  const BufferId backed = admit(5);
  admit(1);
  const BufferId staying = admit(3);
  ASSERT_TRUE(stays(staying));
  EXPECT_FALSE(backing_.shrink_to(pages(7)));
  end(backed);
  EXPECT_TRUE(backing_.shrink_to(pages(7)));
  EXPECT_FALSE(stays(staying));
  EXPECT_EQ(backing_.staying(), Bytes{});
}

TEST_F(HostBackingTest, ABufferWhoseLifeBeginsAfterwardsIsBackedOrStays) {
  const ManagerLock lock(mutex_);
  make(4);
  ASSERT_TRUE(backing_.shrink_to(pages(6)));
  for (const bool is_backed : {true, false}) {
    const BufferId id = make(2);
    backing_.begin_life(buffers_[id], {});
    EXPECT_EQ(stays(id), !is_backed);
  }
  EXPECT_EQ(backing_.staying(), pages(2));
}

TEST_F(HostBackingTest, WhatStaysGivesItsRoomBackAtItsEnd) {
  const ManagerLock lock(mutex_);
  for (int i = 0; i < 2; ++i) admit(3);
  for (int i = 0; i < 2; ++i) {
    const BufferId staying = admit(4);
    EXPECT_TRUE(stays(staying));
    end(staying);
    EXPECT_EQ(backing_.staying(), Bytes{});
  }
}

TEST_F(HostBackingTest, ABufferThatCameToNothingGivesItsShareBack) {
  const ManagerLock lock(mutex_);
  const auto backed = backing_.reserve(pages(5), pages(5), kLimit);
  const auto staying = backing_.reserve(pages(2), pages(2), kLimit);
  ASSERT_TRUE(backed && staying && staying->stays);
  backing_.give_back(*staying, pages(2));
  backing_.give_back(*backed, pages(5));
  EXPECT_EQ(host_.reserved(), Bytes{});
  EXPECT_EQ(backing_.staying(), Bytes{});
}

TEST_F(HostBackingTest, APinnedBufferGivesBackWhatItNeverNeeds) {
  const ManagerLock lock(mutex_);
  admit(3);
  const BufferId pinned = admit(3);
  buffers_[pinned].pinned_forever = true;
  backing_.keep_pinned(buffers_[pinned], kLimit);
  EXPECT_TRUE(stays(pinned));
  EXPECT_EQ(host_.reserved(), pages(3));
  EXPECT_EQ(backing_.staying(), pages(3));
  EXPECT_FALSE(backing_.was_short()) << "nobody is to be told of it";
  backing_.keep_pinned(buffers_[pinned], kLimit);
  EXPECT_EQ(backing_.staying(), pages(3)) << "once";
  end(pinned);
  EXPECT_EQ(host_.reserved(), pages(3));
  EXPECT_EQ(backing_.staying(), Bytes{});
}

// Else others, which host memory cannot back, would be refused for it.
TEST_F(HostBackingTest, APinnedBufferForWhichThereIsNoRoomBesideWhatStaysIsBackedAsBefore) {
  const ManagerLock lock(mutex_);
  const BufferId pinned = admit(5);
  EXPECT_TRUE(stays(admit(3)));
  EXPECT_TRUE(backing_.was_short());
  buffers_[pinned].pinned_forever = true;
  backing_.keep_pinned(buffers_[pinned], kLimit);
  EXPECT_FALSE(stays(pinned));
  EXPECT_EQ(host_.reserved(), pages(5));
}

TEST_F(HostBackingTest, APinnedBufferIsBackedWhereAnotherOneNeedsItsRoom) {
  const ManagerLock lock(mutex_);
  admit(3);
  const BufferId pinned = admit(3);
  buffers_[pinned].pinned_forever = true;
  backing_.keep_pinned(buffers_[pinned], kLimit);
  ASSERT_TRUE(stays(pinned));
  EXPECT_TRUE(stays(admit(4))) << "host memory has three pages left, and four of eight may stay";
  EXPECT_FALSE(stays(pinned));
  EXPECT_EQ(host_.reserved(), pages(6));
}

TEST_F(HostBackingTest, WhenItBeginsItBacksAPinnedBufferWhereAnotherOneNeedsItsRoom) {
  const ManagerLock lock(mutex_);
  const BufferId pinned = make(2);
  buffers_[pinned].pinned_forever = true;
  const BufferId other = make(4);
  EXPECT_FALSE(stays(admit(3)));
  EXPECT_FALSE(stays(pinned));
  EXPECT_TRUE(stays(other)) << "host memory has three pages for both";
}

TEST_F(HostBackingTest, APinnedBufferKeepsAHostCopyThatItHas) {
  const ManagerLock lock(mutex_);
  const BufferId pinned = admit(3);
  admit(3);
  buffers_[pinned].pinned_forever = true;
  buffers_[pinned].host.is_mapping = true;
  backing_.keep_pinned(buffers_[pinned], kLimit);
  EXPECT_FALSE(stays(pinned));
  EXPECT_EQ(host_.reserved(), pages(6));
}

TEST_F(HostBackingTest, WhenItBeginsItBacksNoPinnedBufferForWhichThereIsRoom) {
  const ManagerLock lock(mutex_);
  const BufferId small = make(2);
  const BufferId large = make(4);
  const BufferId other = make(2);
  for (const BufferId id : {small, large}) buffers_[id].pinned_forever = true;
  ASSERT_TRUE(backing_.shrink_to(pages(6)));
  EXPECT_TRUE(stays(small));
  EXPECT_FALSE(stays(large)) << "of six pages four may stay";
  EXPECT_FALSE(stays(other));
  EXPECT_EQ(host_.reserved(), pages(6));
  EXPECT_FALSE(backing_.was_short());
}

TEST_F(HostBackingTest, ShrinkingBacksPinnedBuffersLast) {
  const ManagerLock lock(mutex_);
  const BufferId pinned = make(2);
  buffers_[pinned].pinned_forever = true;
  const BufferId backed = make(6);
  const BufferId staying = make(2);
  ASSERT_TRUE(backing_.shrink_to(kLimit));
  ASSERT_TRUE(stays(pinned) && stays(staying));
  end(backed);
  EXPECT_TRUE(backing_.shrink_to(pages(4)));
  EXPECT_TRUE(stays(pinned));
  EXPECT_FALSE(stays(staying));
}

TEST_F(HostBackingTest, SaysWhatSmallAllocationsCanHaveTogether) {
  const ManagerLock lock(mutex_);
  EXPECT_EQ(backing_.obtainable(Bytes{}, kLimit), pages(12)) << "host memory, and six may stay";
  EXPECT_EQ(backing_.obtainable(pages(4), kLimit), pages(8));
  EXPECT_EQ(backing_.obtainable(pages(4), pages(40)), pages(36)) << "all of a large device";
  int admitted = 0;
  for (Bytes left = pages(12); left > Bytes{}; left -= pages(1)) {
    EXPECT_EQ(backing_.obtainable(pages(admitted), kLimit), left);
    admit(1);
    ++admitted;
  }
  EXPECT_EQ(backing_.obtainable(pages(admitted), kLimit), Bytes{});
  EXPECT_TRUE(is_refused(1));
}

}  // namespace
}  // namespace superpipe::testing
