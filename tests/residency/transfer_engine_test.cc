// Our own transfers: what they wait for, what they move, and when they are over.
#include "residency/transfer/transfer_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/residency/fake_device.h"

namespace superpipe::testing {
namespace {

constexpr std::chrono::milliseconds kLimit{100};

/// An engine, a page of two granules and a slab of the same size. Whatever no event holds back has
/// run after drain().
class TransferEngineTest : public ::testing::Test {
 protected:
  static constexpr Bytes kSize = 8_KiB;

  void SetUp() override {
    ASSERT_EQ(engine_.start(), Status::kOk);
    const auto window = device_.reserve(kSize);
    const auto pages = device_.create_pages(kSize);
    ASSERT_TRUE(window.ok() && pages.ok());
    window_ = *window;
    ASSERT_EQ(device_.map(window_, kSize, *pages), Status::kOk);
    ASSERT_EQ(device_.pin(memory_.data(), kSize), Status::kOk);
    slab_ = {memory_.data(), kSize};
  }
  void TearDown() override {
    device_.release_host_functions();
    device_.drain();
    EXPECT_EQ(device_.violations(), std::vector<std::string>{});
  }

  /// The end of a stream of the program on which nothing ends before device_ releases it.
  EventRef blocked_event() {
    const StreamHandle stream = device_.program_stream();
    device_.submit_blocking_host_function(stream);
    auto event = events_.record(stream, 1);
    EXPECT_TRUE(event.ok());
    return *event;
  }
  bool is_complete(const EventRef& event) {
    const auto complete = events_.is_complete(event);
    return complete.ok() && *complete;
  }
  void fill_page(int value) {
    const std::vector<std::byte> bytes(kSize.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(window_, bytes.size(), bytes.data()));
  }
  void fill_slab(int value) { std::memset(memory_.data(), value, memory_.size()); }
  /// The value of all bytes of the page in [begin, end), -1 if they differ.
  int page(std::size_t begin = 0, std::size_t end = kSize.count()) {
    std::vector<std::byte> bytes(kSize.count());
    EXPECT_TRUE(device_.read(window_, bytes.size(), bytes.data()));
    return value_of(bytes, begin, end);
  }
  int slab(std::size_t begin = 0, std::size_t end = kSize.count()) const {
    return value_of(memory_, begin, end);
  }
  static int value_of(const std::vector<std::byte>& bytes, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes[i] != bytes[begin]) return -1;
    }
    return static_cast<int>(bytes[begin]);
  }

  FakeDevice device_{{}};
  EventPool events_{device_};
  TransferEngine engine_{device_, events_};
  Address window_ = 0;
  std::vector<std::byte> memory_{kSize.count()};
  Slab slab_;
};

TEST_F(TransferEngineTest, NothingWaitsForAFetchApart) {
  std::vector<EventRef> apart;
  for (std::size_t i = 0; i < TransferEngine::kMostApart; ++i) {
    EXPECT_TRUE(engine_.may_fetch_apart());
    const EventRef after = blocked_event();
    const auto fetched = engine_.fetch_apart(window_, slab_, kSize, Bytes{}, {&after, 1});
    ASSERT_EQ(fetched.status, Status::kOk);
    EXPECT_EQ(fetched.done->fetch, 0U) << "it ends in no order with others";
    apart.push_back(fetched.done);
  }
  EXPECT_FALSE(engine_.may_fetch_apart());
  fill_slab(7);
  const auto fetched = engine_.fetch(window_, slab_, kSize, Bytes{}, {});
  ASSERT_EQ(fetched.status, Status::kOk);
  device_.drain();
  EXPECT_TRUE(is_complete(fetched.done));
  EXPECT_EQ(page(), 7);
  for (const EventRef& done : apart) EXPECT_FALSE(is_complete(done));
  fill_slab(8);
  device_.release_host_functions();
  device_.drain();
  EXPECT_EQ(page(), 8);
  EXPECT_TRUE(engine_.may_fetch_apart());
}

TEST_F(TransferEngineTest, AStreamWhoseFetchHasNoKnownEndServesNoOther) {
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_TRUE(engine_.fetch_apart(window_, slab_, kSize, Bytes{}, {}).untracked);
  const int created = device_.calls(Call::kCreateStream);
  EXPECT_EQ(engine_.fetch_apart(window_, slab_, kSize, Bytes{}, {}).status, Status::kOk);
  EXPECT_EQ(device_.calls(Call::kCreateStream), created + 1);
}

TEST_F(TransferEngineTest, WithoutAStreamOfItsOwnAFetchGoesWithTheOthers) {
  device_.fail(Call::kCreateStream, 1, Status::kDeviceError);
  fill_slab(7);
  const auto fetched = engine_.fetch_apart(window_, slab_, kSize, Bytes{}, {});
  ASSERT_EQ(fetched.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(), 7);
}

TEST_F(TransferEngineTest, FetchesOnlyAfterWhatItWasToldToWaitFor) {
  fill_page(1);
  fill_slab(5);
  const std::vector<EventRef> after{nullptr, blocked_event()};
  const Transferred fetched = engine_.fetch(window_, slab_, kSize, Bytes{}, after);
  ASSERT_EQ(fetched.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(), 1) << "the event had not completed";
  EXPECT_FALSE(is_complete(fetched.done));
  device_.release_host_functions();
  EXPECT_EQ(events_.wait(fetched.done, kLimit), Status::kOk);
  EXPECT_EQ(page(), 5) << "the transfer was said to be complete";
}

TEST_F(TransferEngineTest, WritesBackOnlyAfterWhatItWasToldToWaitFor) {
  fill_page(1);
  fill_slab(5);
  const std::vector<EventRef> after{blocked_event()};
  const Transferred written = engine_.write_back(window_, slab_, kSize, after);
  ASSERT_EQ(written.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(slab(), 5) << "the event had not completed";
  EXPECT_FALSE(is_complete(written.done));
  device_.release_host_functions();
  EXPECT_EQ(events_.wait(written.done, kLimit), Status::kOk);
  EXPECT_EQ(slab(), 1) << "the transfer was said to be complete";
}

TEST_F(TransferEngineTest, FillsOnlyAfterWhatItWasToldToWaitFor) {
  fill_page(1);
  const std::vector<EventRef> after{blocked_event()};
  const Transferred filled = engine_.fill(window_, kSize, after);
  ASSERT_EQ(filled.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(), 1) << "the event had not completed";
  EXPECT_FALSE(is_complete(filled.done));
  device_.release_host_functions();
  EXPECT_EQ(events_.wait(filled.done, kLimit), Status::kOk);
  EXPECT_EQ(page(), 0) << "the fill was said to be complete";
}

TEST_F(TransferEngineTest, OrdersAFetchBehindAWriteBackByTheEventOfTheLatter) {
  fill_page(1);
  fill_slab(5);
  const std::vector<EventRef> after{blocked_event()};
  const Transferred written = engine_.write_back(window_, slab_, kSize, after);
  ASSERT_EQ(written.status, Status::kOk);
  std::vector<std::byte> next(kSize.count(), std::byte{9});
  ASSERT_EQ(device_.pin(next.data(), kSize), Status::kOk);
  const Transferred fetched =
      engine_.fetch(window_, Slab{next.data(), kSize}, kSize, Bytes{}, {&written.done, 1});
  ASSERT_EQ(fetched.status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(), 1) << "the page was overwritten before it had been read";
  device_.release_host_functions();
  device_.drain();
  EXPECT_EQ(slab(), 1);
  EXPECT_EQ(page(), 9);
}

TEST_F(TransferEngineTest, MovesTheBytesOfTheBufferAndNoOthers) {
  constexpr Bytes kPart = 5_KiB;
  fill_page(1);
  fill_slab(5);
  ASSERT_EQ(engine_.fetch(window_, slab_, kPart, Bytes{}, {}).status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(0, kPart.count()), 5);
  EXPECT_EQ(page(kPart.count()), 1);
  fill_page(2);
  ASSERT_EQ(engine_.write_back(window_, slab_, kPart, {}).status, Status::kOk);
  device_.drain();
  EXPECT_EQ(slab(0, kPart.count()), 2);
  EXPECT_EQ(slab(kPart.count()), 5);
}

TEST_F(TransferEngineTest, ZeroesWhatLiesBetweenTheBufferAndTheExtent) {
  fill_page(1);
  fill_slab(5);
  const Transferred fetched = engine_.fetch(window_, slab_, 3_KiB, 6_KiB, {});
  ASSERT_EQ(fetched.status, Status::kOk);
  EXPECT_EQ(events_.wait(fetched.done, kLimit), Status::kOk);
  EXPECT_EQ(page(0, 3 << 10), 5);
  EXPECT_EQ(page(3 << 10, 6 << 10), 0);
  EXPECT_EQ(page(6 << 10), 1);
}

TEST_F(TransferEngineTest, ZeroesNothingWithinTheBuffer) {
  fill_page(1);
  fill_slab(5);
  ASSERT_EQ(engine_.fetch(window_, slab_, 6_KiB, 3_KiB, {}).status, Status::kOk);
  ASSERT_EQ(engine_.fetch(window_, slab_, 6_KiB, 6_KiB, {}).status, Status::kOk);
  device_.drain();
  EXPECT_EQ(page(0, 6 << 10), 5);
  EXPECT_EQ(device_.calls(Call::kZero), 0);
}

TEST_F(TransferEngineTest, JoinsEventsWithAFillOfNothing) {
  fill_page(1);
  const StreamHandle stream = device_.program_stream();
  const auto other = events_.record(stream, 1);
  ASSERT_TRUE(other.ok());
  const std::vector<EventRef> after{*other, blocked_event()};
  const Transferred joined = engine_.fill(window_, Bytes{}, after);
  ASSERT_EQ(joined.status, Status::kOk);
  device_.drain();
  EXPECT_TRUE(is_complete(*other));
  EXPECT_FALSE(is_complete(joined.done)) << "the second event has not completed";
  device_.release_host_functions();
  device_.drain();
  EXPECT_TRUE(is_complete(joined.done));
  EXPECT_EQ(page(), 1);
}

TEST_F(TransferEngineTest, HoldsNoDirectionUpByAnother) {
  const std::vector<EventRef> after{blocked_event()};
  const Transferred fetched = engine_.fetch(window_, slab_, kSize, Bytes{}, after);
  const Transferred filled = engine_.fill(window_, kSize, {});
  const Transferred written = engine_.write_back(window_, slab_, kSize, {});
  ASSERT_TRUE(fetched.done && filled.done && written.done);
  device_.drain();
  EXPECT_FALSE(is_complete(fetched.done));
  EXPECT_TRUE(is_complete(filled.done)) << "a new buffer queued behind a prefetch";
  EXPECT_TRUE(is_complete(written.done)) << "a write-back queued behind a prefetch";
}

TEST_F(TransferEngineTest, EnqueuesNothingWhenNoEventCanMarkTheEnd) {
  fill_page(1);
  fill_slab(5);
  device_.fail(Call::kCreateEvent, 1, Status::kDeviceError);
  const Transferred fetched = engine_.fetch(window_, slab_, kSize, Bytes{}, {});
  EXPECT_EQ(fetched.status, Status::kDeviceError);
  EXPECT_FALSE(fetched.untracked);
  EXPECT_EQ(fetched.done, nullptr);
  device_.drain();
  EXPECT_EQ(page(), 1);
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
}

TEST_F(TransferEngineTest, EnqueuesNothingWhenItCannotBeMadeToWait) {
  const std::vector<EventRef> after{blocked_event()};
  device_.fail(Call::kStreamWait, 1, Status::kDeviceError, true);
  for (const Transferred& transferred :
       {engine_.fetch(window_, slab_, kSize, Bytes{}, after),
        engine_.write_back(window_, slab_, kSize, after), engine_.fill(window_, kSize, after)}) {
    EXPECT_EQ(transferred.status, Status::kDeviceError);
    EXPECT_FALSE(transferred.untracked);
  }
  EXPECT_EQ(device_.calls(Call::kCopyToDevice), 0);
  EXPECT_EQ(device_.calls(Call::kCopyToHost), 0);
  EXPECT_EQ(device_.calls(Call::kZero), 0);
}

TEST_F(TransferEngineTest, CallsATransferUntrackedWhoseEndCannotBeMarked) {
  device_.fail(Call::kRecord, 1, Status::kDeviceError, true);
  for (const Transferred& transferred :
       {engine_.fetch(window_, slab_, kSize, Bytes{}, {}),
        engine_.write_back(window_, slab_, kSize, {}), engine_.fill(window_, kSize, {})}) {
    EXPECT_NE(transferred.status, Status::kOk);
    EXPECT_TRUE(transferred.untracked) << "it was enqueued";
    EXPECT_EQ(transferred.done, nullptr);
  }
}

// What the device refused may have been enqueued all the same, in part or whole.
TEST_F(TransferEngineTest, MarksTheEndOfWhatTheDeviceRefused) {
  fill_page(1);
  const std::vector<EventRef> after{blocked_event()};
  device_.fail_late(1, Status::kDeviceError);
  const Transferred filled = engine_.fill(window_, kSize, after);
  EXPECT_EQ(filled.status, Status::kDeviceError);
  EXPECT_FALSE(filled.untracked);
  ASSERT_NE(filled.done, nullptr);
  device_.drain();
  EXPECT_FALSE(is_complete(filled.done)) << "the fill has not run";
  device_.release_host_functions();
  EXPECT_EQ(events_.wait(filled.done, kLimit), Status::kOk);
  EXPECT_EQ(page(), 0) << "the fill was said to be over";
}

TEST_F(TransferEngineTest, ReportsACopyThatTheDeviceRefused) {
  device_.fail(Call::kCopyToDevice, 1, Status::kDeviceError);
  EXPECT_EQ(engine_.fetch(window_, slab_, 3_KiB, 6_KiB, {}).status, Status::kDeviceError);
  EXPECT_EQ(device_.calls(Call::kZero), 0) << "the page will not be used";
  device_.fail(Call::kCopyToHost, 1, Status::kDeviceError);
  EXPECT_EQ(engine_.write_back(window_, slab_, kSize, {}).status, Status::kDeviceError);
}

TEST_F(TransferEngineTest, StopsOnlyWhenAllTransfersAreOver) {
  fill_page(1);
  fill_slab(5);
  const Transferred written = engine_.write_back(window_, slab_, 4_KiB, {});
  ASSERT_EQ(engine_.fetch(window_, slab_, kSize, Bytes{}, {&written.done, 1}).status, Status::kOk);
  ASSERT_EQ(engine_.stop(kLimit), Status::kOk);
  EXPECT_EQ(slab(0, 4 << 10), 1);
  EXPECT_EQ(page(0, 4 << 10), 1);
  EXPECT_EQ(page(4 << 10), 5);
  EXPECT_EQ(device_.calls(Call::kDestroyStream), 3);
}

TEST_F(TransferEngineTest, KeepsTheStreamOfATransferThatDoesNotEndInTime) {
  const std::vector<EventRef> after{blocked_event()};
  ASSERT_EQ(engine_.fetch(window_, slab_, kSize, Bytes{}, after).status, Status::kOk);
  EXPECT_EQ(engine_.stop(kLimit), Status::kTimedOut);
  EXPECT_EQ(device_.calls(Call::kDestroyStream), 2) << "those of the other directions";
}

TEST_F(TransferEngineTest, StopsOnce) {
  ASSERT_EQ(engine_.stop(kLimit), Status::kOk);
  EXPECT_EQ(engine_.stop(kLimit), Status::kOk);
  EXPECT_EQ(device_.calls(Call::kDestroyStream), 3);
}

TEST_F(TransferEngineTest, IsIdleWhenAllTransfersHaveEnded) {
  EXPECT_TRUE(engine_.is_idle()) << "there were none";
  const auto begin = [&](int kind) {
    const std::vector<EventRef> after{blocked_event()};
    switch (kind) {
      case 0:
        return engine_.fetch(window_, slab_, kSize, kSize, after);
      case 1:
        return engine_.fetch_apart(window_, slab_, kSize, kSize, after);
      case 2:
        return engine_.write_back(window_, slab_, kSize, after);
      default:
        return engine_.fill(window_, kSize, after);
    }
  };
  for (int kind = 0; kind < 4; ++kind) {
    ASSERT_EQ(begin(kind).status, Status::kOk);
    device_.drain();
    EXPECT_FALSE(engine_.is_idle()) << kind;
    device_.release_host_functions();
    device_.drain();
    EXPECT_TRUE(engine_.is_idle()) << kind;
  }
}

TEST_F(TransferEngineTest, IsNeverIdleAfterATransferWithAnUnknownEnd) {
  device_.fail(Call::kRecord, 1, Status::kDeviceError);
  EXPECT_TRUE(engine_.write_back(window_, slab_, kSize, {}).untracked);
  device_.drain();
  EXPECT_FALSE(engine_.is_idle());
}

TEST(TransferEngine, DestroysTheStreamsOfAStartThatFailedHalfWay) {
  FakeDevice device({});
  EventPool events(device);
  TransferEngine engine(device, events);
  device.fail(Call::kCreateStream, 3, Status::kDeviceError);
  EXPECT_EQ(engine.start(), Status::kDeviceError);
  EXPECT_EQ(engine.stop(kLimit), Status::kOk);
  EXPECT_EQ(device.calls(Call::kDestroyStream), 2);
  EXPECT_EQ(device.violations(), std::vector<std::string>{});
}

// A launch that waits for it on the host could be what that work waits for.
TEST_F(TransferEngineTest, WhatComesBehindWorkOfTheProgramSaysSo) {
  const EventRef blocked = blocked_event();
  const Transferred free = engine_.fill(window_, kSize, {});
  const Transferred behind = engine_.fill(window_, kSize, {&blocked, 1});
  const Transferred on_its_stream = engine_.fill(window_, kSize, {});
  const Transferred behind_that = engine_.write_back(window_, slab_, kSize, {&behind.done, 1});
  const Transferred apart = engine_.fetch_apart(window_, slab_, kSize, Bytes{}, {&blocked, 1});
  const Transferred other = engine_.fetch(window_, slab_, kSize, Bytes{}, {});
  EXPECT_FALSE(free.done->follows_program);
  EXPECT_TRUE(behind.done->follows_program);
  EXPECT_TRUE(on_its_stream.done->follows_program);
  EXPECT_TRUE(behind_that.done->follows_program);
  EXPECT_TRUE(apart.done->follows_program);
  EXPECT_FALSE(other.done->follows_program);
  device_.release_host_functions();
  device_.drain();
  ASSERT_TRUE(is_complete(behind.done) && is_complete(on_its_stream.done));
  EXPECT_FALSE(engine_.fill(window_, kSize, {&behind.done, 1}).done->follows_program)
      << "it is known to be over";
}

}  // namespace
}  // namespace superpipe::testing
