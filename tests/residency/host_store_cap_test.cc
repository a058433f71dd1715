// The cap of a host store: beside other processes, and as the host has more or less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "residency/host/host_store.h"
#include "tests/residency/fake_device.h"
#include "tests/residency/host_files.h"
#include "tests/temporary_folder.h"

namespace superpipe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostStoreCapTest : public ::testing::Test {
 protected:
  FakeDevice device_{{}};
  EventPool events_{device_};
};

/// A store whose ledger has a cap of 12 KiB, below its own.
class SharingStoreTest : public HostStoreCapTest {
 protected:
  SharingStoreTest() {
    folder_ = make_temporary_folder("host-store");
    ledger_ = HostLedger::join({.host = 12_KiB}, folder_, problem_);
    peer_ = HostLedger::join({.host = 12_KiB}, folder_, problem_);
    store_.emplace(device_, events_, HostLimit{16_KiB}, std::chrono::milliseconds{100},
                   ledger_.get());
  }
  ~SharingStoreTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  std::string problem_;
  std::unique_ptr<HostLedger> ledger_;
  std::unique_ptr<HostLedger> peer_;
  std::optional<HostStore> store_;
};

TEST_F(SharingStoreTest, ReservesNoMoreThanOthersLeave) {
  ASSERT_TRUE(peer_->take(4_KiB));
  EXPECT_EQ(store_->reachable(), 8_KiB);
  EXPECT_FALSE(store_->reserve(12_KiB));
  EXPECT_EQ(store_->reserved(), Bytes{});
  EXPECT_THAT(store_->words_of_others(), HasSubstr("other processes have reserved"));
  EXPECT_TRUE(store_->reserve(8_KiB));
  EXPECT_EQ(store_->reachable(), 8_KiB);
  EXPECT_FALSE(peer_->take(4_KiB));
  store_->unreserve(8_KiB);
  EXPECT_TRUE(store_->reserve(8_KiB)) << "what it gave back";
  EXPECT_THAT(store_->words_of_others(), IsEmpty());
}

TEST_F(SharingStoreTest, ItsOwnCapIsNotTheOthersFault) {
  ASSERT_TRUE(peer_->take(4_KiB));
  ASSERT_FALSE(store_->reserve(12_KiB));
  EXPECT_FALSE(store_->reserve(20_KiB));
  EXPECT_THAT(store_->words_of_others(), IsEmpty());
}

/// A store with a cap of 16 KiB, on a host whose memory the test decides.
class RisingStoreTest : public HostStoreCapTest {
 protected:
  /// Of which fifteen sixteenths are for host stores, as of what the store has.
  void set_available(Bytes available) const { files_.set_available(available); }
  bool reserve(Bytes size) {
    now_ += HostMemoryWatch::kLeastPause;
    return store_.reserve(size);
  }

  HostFiles files_;
  HostMemoryWatch::Clock::time_point now_{std::chrono::hours{1}};
  HostMemoryWatch host_{(set_available(8_KiB), files_.root()), [this] { return now_; }};
  HostStore store_{device_,
                   events_,
                   {16_KiB, SizeSpec::of_bytes(128_KiB), &host_},
                   std::chrono::milliseconds{100}};
};

TEST_F(RisingStoreTest, ReservesWhatTheProgramHasFreedMeanwhile) {
  ASSERT_TRUE(reserve(16_KiB));
  EXPECT_FALSE(reserve(4_KiB));
  set_available(64_KiB);
  EXPECT_TRUE(reserve(4_KiB));
  EXPECT_EQ(store_.limit(), 60_KiB);
  EXPECT_EQ(store_.reachable(), 60_KiB);
  EXPECT_FALSE(reserve(44_KiB));
}

TEST_F(RisingStoreTest, LeavesTheProgramItsPartHoweverMuchIsPinned) {
  ASSERT_TRUE(reserve(16_KiB));
  ASSERT_TRUE(store_.acquire(16_KiB, false).ok());
  set_available(16_KiB);
  EXPECT_FALSE(reserve(16_KiB));
  EXPECT_TRUE(reserve(12_KiB)) << "28 of 30";
  ASSERT_TRUE(store_.acquire(12_KiB, false).ok());
  set_available(4_KiB);
  EXPECT_FALSE(reserve(4_KiB));
}

TEST_F(RisingStoreTest, WhatIsBeingPinnedDoesNotCountTwice) {
  ASSERT_TRUE(reserve(16_KiB));
  set_available(16_KiB);
  bool reserved = true;
  device_.on_call = [&](Call call) {
    if (call == Call::kPin) reserved = reserve(4_KiB);
  };
  ASSERT_TRUE(store_.acquire(16_KiB, false).ok());
  device_.on_call = nullptr;
  EXPECT_FALSE(reserved) << "it is available still";
  set_available(8_KiB);
  EXPECT_TRUE(reserve(4_KiB));
}

TEST_F(RisingStoreTest, IdleSlabsServeWhatIsReserved) {
  ASSERT_TRUE(reserve(16_KiB));
  const auto slab = store_.acquire(16_KiB, false);
  ASSERT_TRUE(slab.ok());
  store_.release(*slab, {});
  store_.unreserve(16_KiB);
  EXPECT_FALSE(reserve(24_KiB));
  EXPECT_TRUE(reserve(20_KiB)) << "of 22.5";
}

TEST_F(RisingStoreTest, WhatWasTooMuchIsNoReasonToRefuseLess) {
  set_available(32_KiB);
  ASSERT_TRUE(store_.reserve(16_KiB));
  EXPECT_FALSE(store_.reserve(16_KiB));
  EXPECT_TRUE(store_.reserve(12_KiB)) << "28 of 30";
  EXPECT_FALSE(store_.reserve(4_KiB));
}

TEST_F(RisingStoreTest, FallsWhenNobodyNeedsItsSlabsAnyMore) {
  HostStore store(device_, events_, {16_KiB, std::nullopt, &host_}, std::chrono::milliseconds{100},
                  nullptr, [this] { return now_; });
  set_available(1_GiB);
  ASSERT_TRUE(store.reserve(1_MiB));
  ASSERT_TRUE(store.reserve(66_MiB));
  ASSERT_TRUE(store.acquire(1_MiB, false).ok());
  const auto slab = store.acquire(66_MiB, false);
  ASSERT_TRUE(slab.ok());
  EXPECT_EQ(store.limit(), 64_MiB + 67_MiB);
  store.release(*slab, {});
  store.unreserve(66_MiB);
  EXPECT_EQ(store.limit(), 64_MiB + 67_MiB) << "a program may make anew what it has freed";
  now_ += IdlePatience::kLongest;
  EXPECT_TRUE(store.unpin_expired());
  EXPECT_EQ(store.limit(), 64_MiB + 1_MiB);
}

TEST_F(RisingStoreTest, WhatIsPromisedStaysSo) {
  set_available(Bytes{});
  EXPECT_TRUE(reserve(12_KiB));
  EXPECT_FALSE(reserve(8_KiB));
  EXPECT_EQ(store_.limit(), 16_KiB);
  EXPECT_TRUE(reserve(4_KiB));
}

TEST_F(RisingStoreTest, RisesToLittleMoreThanIsNeeded) {
  HostStore store(device_, events_, {16_KiB, std::nullopt, &host_}, std::chrono::milliseconds{100});
  set_available(1_GiB);
  EXPECT_TRUE(store.reserve(20_KiB));
  EXPECT_EQ(store.limit(), 64_MiB + 20_KiB);
}

TEST_F(RisingStoreTest, TheUsersCapIsTheLast) {
  set_available(1_GiB);
  EXPECT_FALSE(reserve(132_KiB));
  EXPECT_TRUE(reserve(128_KiB));
  EXPECT_FALSE(reserve(4_KiB));
}

TEST_F(SharingStoreTest, RaisesTheCapOfAll) {
  HostFiles files;
  HostMemoryWatch::Clock::time_point now{std::chrono::hours{1}};
  files.set_available(8_KiB);
  HostMemoryWatch host(files.root(), [&] { return now; });
  HostStore store(device_, events_, {12_KiB, std::nullopt, &host}, std::chrono::milliseconds{100},
                  ledger_.get());
  ASSERT_TRUE(peer_->take(4_KiB));
  EXPECT_FALSE(store.reserve(12_KiB));
  now += HostMemoryWatch::kLeastPause;
  files.set_available(64_KiB);
  EXPECT_TRUE(store.reserve(12_KiB));
  EXPECT_TRUE(store.reserve(20_KiB));
  EXPECT_TRUE(peer_->take(16_KiB)) << "60 are for all";
  EXPECT_FALSE(peer_->take(12_KiB));
}

}  // namespace
}  // namespace superpipe::testing
