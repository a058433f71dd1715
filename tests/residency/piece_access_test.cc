// Another device is allowed to access buffers: those that are mapped, and those that will be.
#include "residency/pieces/piece_access.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/core_fixture.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

class PieceAccessTest : public ManagerTest {
 protected:
  [[nodiscard]] bool is_for_all(Address address) {
    return device_->peers_without_access(address, kPage) == 0;
  }
  /// Of the two kinds of waits, the one of programs: with the lock open.
  void make_with_worker() {
    device_ = std::make_unique<FakeDevice>(FakeDevice::Options{});
    options_.arena_size = Bytes{64 << 20};
    options_.host_limit = Bytes{1 << 30};
    options_.wait_limit = kHangLimit;
    auto created = ResidencyManager::create(*device_, options_);
    ASSERT_TRUE(created.ok());
    manager_ = std::move(*created);
  }
};

TEST_F(PieceAccessTest, RenewsWhatIsMappedAndMapsTheRestForAll) {
  make(budget_of(3, PolicyKind::kAuto));
  const Address first = load(2, 1);
  const Address second = load(2, 2);
  ASSERT_EQ(launch({first}), Status::kOk);
  device_->drain();
  device_->add_peer();
  ASSERT_FALSE(is_for_all(first)) << "it was mapped before";
  EXPECT_EQ(manager_->renew_access(), Status::kOk);
  EXPECT_TRUE(is_for_all(first));
  const int renewals = device_->calls(Call::kRenewAccess);
  ASSERT_EQ(launch({second}), Status::kOk);
  device_->drain();
  EXPECT_TRUE(is_for_all(second));
  EXPECT_EQ(device_->calls(Call::kRenewAccess), renewals);
}

TEST_F(PieceAccessTest, RenewsCachedBuffersWhichComeBackAsTheyAre) {
  make({});
  const Address address = load(1, 1);
  ASSERT_EQ(manager_->free(address), Status::kOk);
  device_->add_peer();
  EXPECT_EQ(manager_->renew_access(), Status::kOk);
  EXPECT_EQ(allocate(1), address);
  EXPECT_TRUE(is_for_all(address));
}

TEST_F(PieceAccessTest, WaitsForAPieceThatIsBeingMapped) {
  make_with_worker();
  std::optional<AsideCall<Status>> renewed;
  int maps = 0;
  device_->on_call = [&](Call call) {
    // The first is that of the page's window.
    if (call != Call::kMap || ++maps != 2) return;
    device_->add_peer();
    renewed.emplace([this] { return manager_->renew_access(); });
    // The call comes back with what it was begun with. Who does not wait for it comes to its end.
    EXPECT_TRUE(renewed->waits());
  };
  const Address address = allocate(1);
  ASSERT_TRUE(renewed.has_value());
  EXPECT_EQ(renewed->get(), Status::kOk);
  EXPECT_TRUE(is_for_all(address));
}

TEST_F(PieceAccessTest, AsksAgainWhenAPieceMayHaveGoneUnderTheCall) {
  make({});
  const Address address = load(1, 1);
  device_->add_peer();
  device_->fail(Call::kRenewAccess, 1, Status::kDeviceError);
  EXPECT_EQ(manager_->renew_access(), Status::kOk);
  EXPECT_TRUE(is_for_all(address));
}

TEST_F(PieceAccessTest, SaysWhenTheDeviceDoesNotGiveAccess) {
  make({});
  (void)load(1, 1);
  device_->add_peer();
  device_->fail(Call::kRenewAccess, 1, Status::kDeviceError, /*repeat=*/true);
  EXPECT_EQ(manager_->renew_access(), Status::kDeviceError);
}

/// Pieces of buffers in states that the test makes.
class SlowPieceAccessTest : public UsingCoreTest {
 protected:
  PieceAccess access_{core_};
};

// As where thousands of them are opened to a device.
TEST_F(SlowPieceAccessTest, APieceIsWaitedForHoweverLongThoseBeforeItTook) {
  const BufferId first = clean(1);
  const BufferId moving = clean(1);
  {
    const ManagerLock lock(core_.mutex);
    core_.pieces.enter({moving, 0}, PieceState::kLeaving);
  }
  device_.add_peer();
  device_.on_call = [this](Call call) {
    if (call == Call::kRenewAccess) pass(2 * core_.options.wait_limit);
  };
  in_round(3, [&]() NO_THREAD_SAFETY_ANALYSIS {
    core_.pieces.enter({moving, 0}, PieceState::kIn);
  });
  EXPECT_EQ(access_.renew(), Status::kOk);
  device_.on_call = nullptr;
  for (const BufferId id : {first, moving}) {
    EXPECT_EQ(device_.peers_without_access(core_.buffers[id].base, kGranule.count()), 0);
  }
}

TEST_F(SlowPieceAccessTest, AllPiecesTogetherAreWaitedForNoLongerThanTheWaitLimit) {
  const std::vector<BufferId> ids{clean(1), clean(1), clean(1)};
  {
    const ManagerLock lock(core_.mutex);
    for (const BufferId id : ids) core_.pieces.enter({id, 0}, PieceState::kLeaving);
  }
  // One after the other stops moving when most of the wait limit has passed since the one before.
  std::size_t next = 0;
  auto since = core_.now();
  rounds_.round = [&]() NO_THREAD_SAFETY_ANALYSIS {
    if (next < ids.size() && core_.now() - since > core_.options.wait_limit * 3 / 4) {
      core_.pieces.enter({ids[next++], 0}, PieceState::kIn);
      since = core_.now();
    }
    return false;
  };
  const auto begun = core_.now();
  EXPECT_EQ(access_.renew(), Status::kTimedOut);
  EXPECT_LT(core_.now() - begun, core_.options.wait_limit * 3 / 2);
  const ManagerLock lock(core_.mutex);
  while (next < ids.size()) core_.pieces.enter({ids[next++], 0}, PieceState::kIn);
}

TEST_F(SlowPieceAccessTest, APieceThatGoesOnMovingIsWaitedForNoLongerThanTheWaitLimit) {
  const BufferId moving = clean(1);
  {
    const ManagerLock lock(core_.mutex);
    core_.pieces.enter({moving, 0}, PieceState::kLeaving);
  }
  EXPECT_EQ(access_.renew(), Status::kTimedOut);
  const ManagerLock lock(core_.mutex);
  core_.pieces.enter({moving, 0}, PieceState::kIn);
}

}  // namespace
}  // namespace superpipe::testing
