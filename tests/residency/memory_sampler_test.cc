// Samples of the device, and pages that come and go beside them.
#include "residency/room/memory_sampler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/page_limit_fixture.h"

namespace superpipe::testing {
namespace {

class MemorySamplerTest : public PageLimitFixture {
 protected:
  explicit MemorySamplerTest(std::chrono::milliseconds wait_limit = kHangLimit)
      : PageLimitFixture(wait_limit) {}

  [[nodiscard]] int samples() { return device_.calls(Call::kUsage); }
  /// Has `what` done while the next sample asks the device.
  void while_asking(std::function<void()> what) {
    device_.on_call = [this, what = std::move(what)](Call made) {
      if (made != Call::kUsage) return;
      const auto now = what;
      device_.on_call = nullptr;
      now();
    };
  }
  /// The device holds so many pages more, by something that the program did.
  void grow(std::uint64_t count) {
    passthrough_.begin_change(PassthroughChange::kGrowth);
    device_.set_passthrough(limit_pages(count));
    (void)passthrough_.end_change(PassthroughChange::kGrowth);
  }

  int changes_ = 0;  ///< that the sampler told of
  MemorySampler sampler_{
      options_, {device_, passthrough_, ledger_, limit_, waits_}, [this] { ++changes_; }};
};

/// A sampler whose waits end soon, for what never comes.
class ImpatientSamplerTest : public MemorySamplerTest {
 protected:
  ImpatientSamplerTest() : MemorySamplerTest(std::chrono::milliseconds{1}) {}

  /// Samples until it was done: the limit of each wait is a real time, which may pass at any point.
  void sample_at_last() REQUIRES(manager_lock) {
    while (samples() == 0) (void)sampler_.sample();
  }
};

TEST_F(MemorySamplerTest, TellsWhetherTheEstimateIsAnotherOne) {
  const ManagerLock lock(mutex_);
  EXPECT_FALSE(sampler_.sample());
  EXPECT_EQ(changes_, 0);
  grow(3);
  EXPECT_TRUE(sampler_.sample());
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(sampler_.samples(), 2U);
  EXPECT_EQ(sampler_.peak(), limit_pages(3));
  EXPECT_EQ(passthrough_.bytes(), limit_pages(3));
  EXPECT_EQ(ledger_.limit(), limit_pages(11)) << "sixteen, less three and the headroom of two";
}

TEST_F(MemorySamplerTest, ThePeakOutlastsWhatWasThere) {
  const ManagerLock lock(mutex_);
  grow(3);
  (void)sampler_.sample();
  passthrough_.begin_change(PassthroughChange::kFree);
  device_.set_passthrough(limit_pages(1));
  (void)passthrough_.end_change(PassthroughChange::kFree);
  (void)sampler_.sample();
  EXPECT_EQ(passthrough_.bytes(), limit_pages(1));
  EXPECT_EQ(sampler_.peak(), limit_pages(3));
}

TEST_F(MemorySamplerTest, OneThatFailsPutsTheNextOneOff) {
  const ManagerLock lock(mutex_);
  grow(1);
  while (!passthrough_.is_due(options_.now())) {
  }
  device_.fail(Call::kUsage, 1, Status::kDeviceError);
  EXPECT_FALSE(sampler_.sample());
  EXPECT_EQ(sampler_.samples(), 0U);
  EXPECT_FALSE(passthrough_.is_due(options_.now()));
  EXPECT_TRUE(sampler_.wait_until_answered()) << "pages may change again";
}

// A thread that polls for free memory would otherwise keep pages from being created.
TEST_F(MemorySamplerTest, ThreadsThatWaitToChangeAPageGoFirst) {
  std::atomic<bool> changed{false};
  std::optional<AsideCall<void>> changes;
  while_asking([&] {
    changes.emplace([&] {
      const ManagerLock lock(mutex_);
      EXPECT_TRUE(sampler_.wait_until_answered());
      changed = true;
    });
    EXPECT_TRUE(changes->waits());
    while_asking([&] { EXPECT_TRUE(changed) << "it asks first"; });
  });
  {
    // The mutex stays closed from the one to the other, except in their own waits.
    const ManagerLock lock(mutex_);
    (void)sampler_.sample();
    (void)sampler_.sample();
  }
  changes->get();
  EXPECT_EQ(samples(), 2);
}

TEST_F(MemorySamplerTest, AWarningThatWaitsIsNoChange) {
  const ManagerLock lock(mutex_);
  warnings_.once("other", [] { return std::string("something else"); });
  EXPECT_FALSE(sampler_.sample());
}

TEST_F(ImpatientSamplerTest, NoneIsTakenWhileAPageChanges) {
  const ManagerLock lock(mutex_);
  ledger_.begin_creation(limit_pages(1));
  EXPECT_FALSE(sampler_.sample()) << "not within the wait limit";
  EXPECT_EQ(samples(), 0);
  EXPECT_TRUE(sampler_.wait_until_answered()) << "others may change pages again";
  ledger_.end_creation(limit_pages(1), false);
  sample_at_last();
}

TEST_F(ImpatientSamplerTest, APageChangeWaitsNoLongerThanTheWaitLimit) {
  std::optional<bool> answered;
  while_asking([&] {
    const ManagerLock lock(mutex_);
    answered = sampler_.wait_until_answered();
  });
  const ManagerLock lock(mutex_);
  sample_at_last();
  EXPECT_EQ(answered, false) << "a device that does not answer";
  EXPECT_TRUE(sampler_.wait_until_answered());
}

TEST_F(MemorySamplerTest, NothingWaitsOnceTheManagerEnds) {
  std::optional<AsideCall<void>> other;
  std::atomic<bool> got_in{false};
  while_asking([&] {
    const ManagerLock lock(mutex_);
    // A thread that waits opens the mutex, and lets this one in.
    other.emplace([&] {
      const ManagerLock theirs(mutex_);
      got_in = true;
    });
    EXPECT_TRUE(other->waits());
    waits_.stopped = true;
    EXPECT_FALSE(sampler_.wait_until_answered());
    EXPECT_FALSE(sampler_.sample());
    EXPECT_FALSE(got_in);
    waits_.stopped = false;
  });
  const ManagerLock lock(mutex_);
  (void)sampler_.sample();
  const Unlocked unlocked(mutex_);
  other->get();
}

}  // namespace
}  // namespace superpipe::testing
