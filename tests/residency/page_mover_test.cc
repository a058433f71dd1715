// One page that gets content and loses it: what is mapped when, and what is left where a call
// fails.
#include "residency/transfer/page_mover.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

/// A page in its window, an address for it, and a slab. What no event holds back has run after
/// drain().
class PageMoverTest : public ::testing::Test {
 protected:
  using Mapping = PageMover::Mapping;
  static constexpr Bytes kSize = 8_KiB;

  void SetUp() override {
    ASSERT_EQ(transfers_.start(), Status::kOk);
    ASSERT_TRUE(digester_.prepare());
    const auto window = device_.reserve(kSize);
    const auto address = device_.reserve(kSize);
    const auto pages = device_.create_pages(kSize);
    ASSERT_TRUE(window.ok() && address.ok() && pages.ok());
    place_ = {*address, kSize, *pages, *window};
    ASSERT_EQ(device_.map(place_.window, kSize, *pages), Status::kOk);
    ASSERT_EQ(device_.pin(memory_.data(), kSize), Status::kOk);
    slab_ = {memory_.data(), kSize};
    maps_ = device_.calls(Call::kMap);
  }
  void TearDown() override {
    device_.release_host_functions();
    device_.drain();
    EXPECT_EQ(device_.violations(), std::vector<std::string>{});
    EXPECT_EQ(digester_.stop(std::chrono::milliseconds{100}), Status::kOk);
  }

  [[nodiscard]] PageMover::Content copy_of_slab() const { return {slab_, kSize, {}, 0, false}; }
  [[nodiscard]] PageMover::Leave write_back() const {
    return {slab_, kSize, false, false, {}, false};
  }
  /// How often something was mapped at the address since the test began.
  int maps() { return device_.calls(Call::kMap) - maps_; }
  void fill_window(int value) {
    const std::vector<std::byte> bytes(kSize.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(place_.window, bytes.size(), bytes.data()));
  }
  void fill_slab(int value) { std::memset(memory_.data(), value, memory_.size()); }
  int at(Address address) {
    std::byte byte{};
    EXPECT_TRUE(device_.read(address + kSize.count() - 1, 1, &byte));
    return static_cast<int>(byte);
  }
  [[nodiscard]] int slab() const { return static_cast<int>(memory_.back()); }
  /// The page is in use at its address.
  void map_now() { ASSERT_EQ(mover_.map(place_), Status::kOk); }

  FakeDevice device_{{}};
  EventPool events_{device_};
  TransferEngine transfers_{device_, events_};
  Digester digester_{device_, events_};
  PageMover mover_{device_, events_, transfers_, digester_};
  PageMover::Place place_{};
  std::vector<std::byte> memory_{kSize.count()};
  Slab slab_;
  int maps_ = 0;
};

TEST_F(PageMoverTest, LeavesMappingToTheCallerWhileContentIsOnItsWay) {
  fill_slab(7);
  auto content = copy_of_slab();
  const auto filled = mover_.fill(place_, content, Mapping::kOnArrival);
  EXPECT_EQ(filled.status, Status::kOk);
  EXPECT_FALSE(filled.is_mapped);
  EXPECT_EQ(maps(), 0);
  ASSERT_NE(filled.copy.done, nullptr);
  device_.drain();
  map_now();
  EXPECT_EQ(at(place_.address), 7);
}

TEST_F(PageMoverTest, MapsAtOnceWhereItIsTold) {
  auto content = copy_of_slab();
  const auto filled = mover_.fill(place_, content, Mapping::kAtOnce);
  EXPECT_TRUE(filled.is_mapped);
  EXPECT_EQ(maps(), 1);
}

TEST_F(PageMoverTest, MapsAtOnceWhereNothingIsCopied) {
  PageMover::Content nothing;
  const auto filled = mover_.fill(place_, nothing, Mapping::kOnArrival);
  EXPECT_EQ(filled.status, Status::kOk);
  EXPECT_TRUE(filled.is_mapped);
  EXPECT_EQ(filled.copy.done, nullptr);
}

TEST_F(PageMoverTest, ZeroesWhatTheSlabDoesNotHave) {
  fill_window(9);
  PageMover::Content zeros;
  zeros.zeroed = kSize;
  EXPECT_EQ(mover_.fill(place_, zeros, Mapping::kAtOnce).status, Status::kOk);
  device_.drain();
  EXPECT_EQ(at(place_.address), 0);
}

// A launch that waited for it on the host could be what that work waits for.
TEST_F(PageMoverTest, MapsAtOnceWhatComesBehindWorkOfTheProgram) {
  const StreamHandle stream = device_.program_stream();
  device_.submit_blocking_host_function(stream);
  const auto end = events_.record(stream, 1);
  ASSERT_TRUE(end.ok());
  auto content = copy_of_slab();
  content.after = {*end};
  content.asks = true;
  const auto filled = mover_.fill(place_, content, Mapping::kOnArrival);
  EXPECT_EQ(filled.status, Status::kOk);
  EXPECT_TRUE(filled.is_mapped);
}

TEST_F(PageMoverTest, MapsNothingWhereTheCopyFails) {
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError);
  auto content = copy_of_slab();
  const auto filled = mover_.fill(place_, content, Mapping::kAtOnce);
  EXPECT_EQ(filled.status, Status::kDeviceError);
  EXPECT_FALSE(filled.is_mapped);
  EXPECT_EQ(maps(), 0);
}

TEST_F(PageMoverTest, SaysWhatWritesThePageThatCannotBeMapped) {
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  auto content = copy_of_slab();
  const auto filled = mover_.fill(place_, content, Mapping::kAtOnce);
  EXPECT_EQ(filled.status, Status::kDeviceError);
  EXPECT_FALSE(filled.is_mapped);
  EXPECT_NE(filled.copy.done, nullptr) << "the page may be used when that is over";
}

TEST_F(PageMoverTest, UnmapsBeforeItCopiesOut) {
  fill_window(5);
  map_now();
  const auto left = mover_.take(place_, write_back());
  EXPECT_EQ(left.status, Status::kOk);
  EXPECT_FALSE(left.is_mapped);
  EXPECT_FALSE(left.has_digest());
  ASSERT_NE(left.written.done, nullptr);
  device_.drain();
  EXPECT_EQ(slab(), 5);
}

TEST_F(PageMoverTest, CopiesNothingWhereTheDigestDecides) {
  fill_window(5);
  map_now();
  auto leave = write_back();
  leave.digests = leave.awaits_digest = true;
  const auto left = mover_.take(place_, leave);
  EXPECT_EQ(left.status, Status::kOk);
  EXPECT_TRUE(left.has_digest());
  EXPECT_EQ(left.written.done, nullptr);
  device_.drain();
  EXPECT_EQ(slab(), 0);
  // It has found the content changed.
  const auto late = mover_.write_back(place_, write_back());
  EXPECT_EQ(late.status, Status::kOk);
  EXPECT_FALSE(late.is_mapped);
  device_.drain();
  EXPECT_EQ(slab(), 5);
}

TEST_F(PageMoverTest, CopiesBesideADigestThatDecidesNothing) {
  fill_window(5);
  map_now();
  auto leave = write_back();
  leave.digests = true;
  const auto left = mover_.take(place_, leave);
  EXPECT_TRUE(left.has_digest());
  EXPECT_NE(left.written.done, nullptr);
  device_.drain();
  EXPECT_EQ(slab(), 5);
}

// A digest that could not be enqueued is no reason to keep the page.
TEST_F(PageMoverTest, CopiesWhereADigestThatWouldDecideCannotBeHad) {
  fill_window(5);
  map_now();
  device_.fail(Call::kDigest, 1, Status::kDeviceError);
  auto leave = write_back();
  leave.digests = leave.awaits_digest = true;
  const auto left = mover_.take(place_, leave);
  EXPECT_FALSE(left.has_digest());
  EXPECT_EQ(left.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(slab(), 5);
}

TEST_F(PageMoverTest, TouchesNothingWhereThePageCannotBeUnmapped) {
  map_now();
  device_.fail(Call::kUnmap, 1, Status::kDeviceError);
  auto leave = write_back();
  leave.digests = true;
  const auto left = mover_.take(place_, leave);
  EXPECT_EQ(left.status, Status::kDeviceError);
  EXPECT_TRUE(left.is_mapped);
  EXPECT_EQ(left.written.done, nullptr);
  EXPECT_FALSE(left.has_digest());
}

TEST_F(PageMoverTest, MapsAgainWhatCannotBeCopiedOut) {
  fill_window(5);
  map_now();
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  const auto left = mover_.take(place_, write_back());
  EXPECT_EQ(left.status, Status::kDeviceError);
  EXPECT_TRUE(left.is_mapped);
  EXPECT_EQ(at(place_.address), 5);
}

TEST_F(PageMoverTest, SaysThatItCouldNotMapAgain) {
  fill_window(5);
  map_now();
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  device_.fail(Call::kMap, 1, Status::kDeviceError);
  const auto left = mover_.take(place_, write_back());
  EXPECT_EQ(left.status, Status::kDeviceError);
  EXPECT_FALSE(left.is_mapped);
  EXPECT_EQ(at(place_.window), 5);
}

}  // namespace
}  // namespace superpipe::testing
