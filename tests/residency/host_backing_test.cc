// Which buffers get host memory once not all fit the device, and which stay there instead.
#include "residency/host_backing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "residency/buffer_table.h"
#include "residency/host_store.h"
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
    if (share) HostBacking::begin_life(buffers_[id], *share);
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
  HostStore host_{device_, events_, pages(6), std::chrono::milliseconds{100}};
  BufferTable buffers_;
  ManagerMutex mutex_;
  HostBacking backing_{buffers_, host_, pages(1)};
};

TEST_F(HostBackingTest, BacksWhatLivesWhenItBegins) {
  const ManagerLock lock(mutex_);
  const BufferId first = make(2);
  const BufferId second = make(3);
  EXPECT_TRUE(backing_.begin(Bytes{}));
  EXPECT_EQ(host_.reserved(), pages(5));
  EXPECT_FALSE(stays(first) || stays(second));
}

TEST_F(HostBackingTest, WhatHostMemoryIsShortOfStays) {
  const ManagerLock lock(mutex_);
  const BufferId first = make(4);
  const BufferId second = make(4);
  ASSERT_TRUE(backing_.begin(pages(4)));
  EXPECT_FALSE(stays(first));
  EXPECT_TRUE(stays(second));
  EXPECT_EQ(backing_.staying(), pages(4));
}

TEST_F(HostBackingTest, DoesNotBeginWhereTooMuchWouldStay) {
  const ManagerLock lock(mutex_);
  make(4);
  const BufferId second = make(4);
  EXPECT_FALSE(backing_.begin(pages(3)));
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

TEST_F(HostBackingTest, TheNewBufferIsBackedRatherThanTheOldOnes) {
  const ManagerLock lock(mutex_);
  const BufferId old = make(5);
  EXPECT_FALSE(stays(admit(6)));
  EXPECT_TRUE(stays(old));
}

TEST_F(HostBackingTest, HostMemoryThatComesFreeGoesToWhatStays) {
  const ManagerLock lock(mutex_);
  const BufferId backed = admit(4);
  const BufferId staying = admit(3);
  const BufferId large = admit(3);
  ASSERT_TRUE(stays(staying) && stays(large));
  end(backed);
  EXPECT_FALSE(stays(staying));
  EXPECT_FALSE(stays(large));
  EXPECT_EQ(backing_.staying(), Bytes{});
  end(staying);
  end(large);
  EXPECT_EQ(host_.reserved(), Bytes{});
}

TEST_F(HostBackingTest, AFreeLooksAtFewOfManyBuffers) {
  const ManagerLock lock(mutex_);
  const BufferId backed = admit(6);
  for (int i = 0; i < 200; ++i) make(1);
  const BufferId staying = admit(1);
  ASSERT_TRUE(stays(staying));
  end(backed);
  EXPECT_TRUE(stays(staying)) << "it lies behind 200 others";
  // Each further free looks at the next ones.
  for (int i = 0; i < 200 && stays(staying); ++i) end(admit(1));
  EXPECT_FALSE(stays(staying));
}

TEST_F(HostBackingTest, WhatStaysGivesItsRoomBackAtItsEnd) {
  const ManagerLock lock(mutex_);
  admit(6);
  end(admit(6));
  EXPECT_EQ(backing_.staying(), Bytes{});
  EXPECT_TRUE(stays(admit(6)));
}

TEST_F(HostBackingTest, ABufferThatCameToNothingGivesItsShareBack) {
  const ManagerLock lock(mutex_);
  const auto backed = backing_.reserve(pages(6), pages(6), kLimit);
  const auto staying = backing_.reserve(pages(2), pages(2), kLimit);
  ASSERT_TRUE(backed && staying && staying->stays);
  backing_.give_back(*staying, pages(2));
  backing_.give_back(*backed, pages(6));
  EXPECT_EQ(host_.reserved(), Bytes{});
  EXPECT_EQ(backing_.staying(), Bytes{});
}

TEST_F(HostBackingTest, SaysWhatAnAllocationCanHave) {
  const ManagerLock lock(mutex_);
  EXPECT_EQ(backing_.obtainable(Bytes{}, kLimit), pages(8)) << "all of the device";
  EXPECT_EQ(backing_.obtainable(pages(4), kLimit), pages(6)) << "all of the host store";
  EXPECT_EQ(backing_.obtainable(pages(8), kLimit), pages(4)) << "six of eight can stay";
  admit(4);
  EXPECT_EQ(backing_.obtainable(pages(4), kLimit), pages(6)) << "what may stay";
  admit(5);
  EXPECT_EQ(backing_.obtainable(pages(9), kLimit), pages(2)) << "what is left of the host store";
}

}  // namespace
}  // namespace superpipe::testing
