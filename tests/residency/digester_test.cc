// Digests on the device: when there are none, how many may be under way, and what is left behind.
#include "residency/transfer/digester.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

constexpr std::chrono::milliseconds kLimit{100};

/// A digester, and a page that is mapped at its window only. What was enqueued has run after
/// drain().
class DigesterTest : public ::testing::Test {
 protected:
  static constexpr Bytes kSize = 8_KiB;

  void SetUp() override {
    const auto window = device_.reserve(kSize);
    const auto pages = device_.create_pages(kSize);
    ASSERT_TRUE(window.ok() && pages.ok());
    window_ = *window;
    ASSERT_EQ(device_.map(window_, kSize, *pages), Status::kOk);
    fill(1);
  }
  void TearDown() override {
    device_.drain();
    EXPECT_EQ(digester_.stop(kLimit), Status::kOk);
    EXPECT_FALSE(digester_.is_ready());
    EXPECT_EQ(device_.pinned_ranges(), 0U);
    EXPECT_EQ(device_.violations(), std::vector<std::string>{});
  }

  void fill(int value) {
    const std::vector<std::byte> bytes(kSize.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(window_, bytes.size(), bytes.data()));
  }
  /// The digest of the page as it is now.
  ContentDigest digest(Bytes size = kSize) {
    const auto enqueued = digester_.enqueue(window_, size);
    EXPECT_EQ(enqueued.status, Status::kOk);
    device_.drain();
    const auto complete = events_.is_complete(enqueued.done);
    EXPECT_TRUE(complete.ok() && *complete);
    const auto result = digester_.result(enqueued.slot);
    digester_.give_back(enqueued.slot);
    EXPECT_TRUE(result.has_value());
    return result.value_or(ContentDigest{});
  }

  FakeDevice device_{FakeDevice::Options{}};
  EventPool events_{device_};
  Digester digester_{device_, events_};
  Address window_ = 0;
};

TEST_F(DigesterTest, ContentAloneDecidesOverADigest) {
  ASSERT_TRUE(digester_.prepare());
  const ContentDigest ones = digest();
  fill(2);
  EXPECT_NE(digest(), ones);
  fill(1);
  EXPECT_EQ(digest(), ones);
  EXPECT_NE(digest(kSize - Bytes{1}), ones);
}

TEST_F(DigesterTest, ThereAreNoDigestsBeforeTheDeviceIsReady) {
  EXPECT_FALSE(digester_.is_ready());
  EXPECT_TRUE(digester_.prepare());
  EXPECT_TRUE(digester_.is_ready());
}

class DigesterWithoutTest : public DigesterTest, public ::testing::WithParamInterface<Call> {};

TEST_P(DigesterWithoutTest, ThereAreNoDigests) {
  device_.fail(GetParam(), 1,
               GetParam() == Call::kPin ? Status::kOutOfHostMemory : Status::kDeviceError);
  EXPECT_FALSE(digester_.prepare());
  EXPECT_FALSE(digester_.is_ready());
  EXPECT_EQ(device_.calls(GetParam()), 1) << "it was never asked for";
}

INSTANTIATE_TEST_SUITE_P(AnyCall, DigesterWithoutTest,
                         ::testing::Values(Call::kPrepareDigests, Call::kPin, Call::kCreateStream),
                         [](const auto& call) { return std::string(name_of(call.param)); });

TEST_F(DigesterTest, ThereAreNoMoreAfterOneThatTheDeviceRefused) {
  ASSERT_TRUE(digester_.prepare());
  device_.fail(Call::kDigest, 1, Status::kDeviceError);
  const auto refused = digester_.enqueue(window_, kSize);
  EXPECT_EQ(refused.status, Status::kDeviceError);
  EXPECT_NE(refused.done, nullptr) << "a part of it may be under way";
  EXPECT_FALSE(refused.untracked);
  EXPECT_FALSE(digester_.is_ready());
}

TEST_F(DigesterTest, AnEndThatCannotBeMarkedIsSaid) {
  ASSERT_TRUE(digester_.prepare());
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  const auto lost = digester_.enqueue(window_, kSize);
  EXPECT_EQ(lost.status, Status::kDeviceError);
  EXPECT_TRUE(lost.untracked);
  EXPECT_FALSE(digester_.is_ready());
}

TEST_F(DigesterTest, AResultThatWasNotWrittenIsNone) {
  ASSERT_TRUE(digester_.prepare());
  (void)digest();
  device_.lose_digests(true);
  const auto enqueued = digester_.enqueue(window_, kSize);
  ASSERT_EQ(enqueued.status, Status::kOk);
  device_.drain();
  EXPECT_FALSE(digester_.result(enqueued.slot).has_value());
}

TEST_F(DigesterTest, OneMoreThanThereIsRoomForIsForLater) {
  ASSERT_TRUE(digester_.prepare());
  std::vector<Digester::Slot> slots;
  for (std::size_t i = 0; i < Digester::kSlots; ++i) {
    const auto enqueued = digester_.enqueue(window_, kSize);
    ASSERT_EQ(enqueued.status, Status::kOk) << i;
    slots.push_back(enqueued.slot);
  }
  EXPECT_EQ(digester_.enqueue(window_, kSize).status, Status::kNotYet);
  EXPECT_TRUE(digester_.is_ready());
  device_.drain();
  digester_.give_back(slots[7]);
  EXPECT_EQ(digester_.enqueue(window_, kSize).slot, slots[7]);
}

TEST_F(DigesterTest, WorkThatDoesNotEndKeepsItsMemory) {
  ASSERT_TRUE(digester_.prepare());
  device_.hold_digests(true);
  ASSERT_EQ(digester_.enqueue(window_, kSize).status, Status::kOk);
  EXPECT_EQ(digester_.stop(kLimit), Status::kTimedOut);
  EXPECT_EQ(device_.pinned_ranges(), 1U);
  device_.hold_digests(false);
}

}  // namespace
}  // namespace superpipe::testing
