// Digests of what the program has filled on the host: when they are computed, and what voids them.
#include "residency/transfer/host_digests.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "residency/stock_rounds.h"
#include "residency/uses/buffer_lifetimes.h"
#include "residency/uses/copy_routes.h"
#include "tests/residency/core_fixture.h"

namespace superpipe::testing {
namespace {

/// More than is read in one step.
constexpr std::uint64_t kPagesOfSteps = 2 * HostDigests::kStep.count() / kGranule.count() + 1;

class HostDigestsTest : public UsingCoreTest {
 protected:
  static ResidencyOptions digesting_options() {
    ResidencyOptions options = options_of(4096);
    options.compares_digests = true;
    return options;
  }
  explicit HostDigestsTest(ResidencyOptions options = digesting_options())
      : UsingCoreTest(std::move(options)) {
    core_.stocker.attach(stock_rounds_);
  }

  /// The program fills a buffer that is out with `value`. @return whether it came to the host.
  bool write(BufferId id, int value) {
    const Buffer& buffer = core_.buffers[id];
    UseToken token;
    const auto route = routes_.begin(buffer.base, Bytes{buffer.size.load()}, stream_, true, token);
    if (!route.ok() || route->host == nullptr) return false;
    std::memset(route->host, value, buffer.size.load());
    routes_.end(token, stream_, false);
    return true;
  }
  /// A buffer that the program has filled on the host.
  BufferId written(std::uint64_t pages, int value) {
    const BufferId id = fresh(pages);
    EXPECT_TRUE(write(id, value));
    return id;
  }
  /// Computes all digests that are waited for.
  void digest_all() {
    const ManagerLock lock(core_.mutex);
    device_.let_time_pass(HostDigests::kQuiet);
    // Slabs that are lacking are pinned before.
    for (int round = 0; round < 8 && digests_.rest(); ++round) (void)core_.stocker.run_once();
    EXPECT_FALSE(digests_.rest().has_value());
  }
  /// A launch has the buffer fetched and fills it with `value`; then it is taken out.
  void visit(BufferId id, int value) {
    UseToken token;
    ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, token),
              Status::kOk);
    uses_.end_use(token, stream_, true);
    device_.drain();
    const Buffer& buffer = core_.buffers[id];
    const std::vector<std::byte> bytes(buffer.footprint.count(), static_cast<std::byte>(value));
    ASSERT_TRUE(device_.write(buffer.base, bytes.size(), bytes.data()));
    const ManagerLock lock(core_.mutex);
    evictor_.evict({id, 0});
    device_.drain();
    while (evictor_.settle_digests()) device_.drain();
  }
  [[nodiscard]] bool is_known(BufferId id) {
    const ManagerLock lock(core_.mutex);
    return core_.buffers[id].pieces[0].host_digest.has_value();
  }

  CopyRoutes routes_{core_, streams_, mover_, uses_, digests_};
  BufferLifetimes lifetimes_{core_,      streams_,  pages_,   mover_,
                             evictions_, left_out_, digests_, precleaner_};
  StockRounds stock_rounds_{core_, evictions_, evictor_, completion_, uses_, digests_};
  const StreamHandle stream_ = device_.program_stream();
};

TEST_F(HostDigestsTest, WhatWasLoadedToTheHostAndNotChangedIsNotWrittenBack) {
  const BufferId id = written(1, 7);
  digest_all();
  EXPECT_TRUE(is_known(id));
  visit(id, 7);
  EXPECT_EQ(counters().write_backs, 0U);
  EXPECT_EQ(counters().unchanged, 1U);
}

TEST_F(HostDigestsTest, WhatWasChangedIsWrittenBack) {
  const BufferId id = written(1, 7);
  digest_all();
  visit(id, 8);
  EXPECT_EQ(counters().write_backs, 1U);
  EXPECT_EQ(host_value(id), 8);
}

TEST_F(HostDigestsTest, WithoutOneItIsWrittenBackOnce) {
  const BufferId id = written(1, 7);
  visit(id, 7);
  EXPECT_EQ(counters().write_backs, 1U);
  digest_all();
  visit(id, 7);
  EXPECT_EQ(counters().write_backs, 1U);
}

TEST_F(HostDigestsTest, APieceIsReadInStepsOnceItIsQuiet) {
  const BufferId id = written(kPagesOfSteps, 7);
  const ManagerLock lock(core_.mutex);
  EXPECT_TRUE(digests_.rest().has_value());
  EXPECT_EQ(stock_rounds_.longest_rest(), HostDigests::kQuiet);
  EXPECT_FALSE(core_.stocker.run_once()) << "the program may go on writing";
  device_.let_time_pass(HostDigests::kQuiet);
  for (int step = 0; step < 3; ++step) {
    EXPECT_FALSE(core_.buffers[id].pieces[0].host_digest.has_value());
    EXPECT_TRUE(core_.stocker.run_once());
  }
  const std::vector<std::byte> content(kPagesOfSteps * kGranule.count(), std::byte{7});
  EXPECT_EQ(core_.buffers[id].pieces[0].host_digest,
            core_.digester.part_of_host(content, 0, content.size()));
  EXPECT_FALSE(core_.stocker.run_once());
  EXPECT_FALSE(digests_.rest().has_value());
}

TEST_F(HostDigestsTest, AWriteBetweenStepsVoidsWhatWasRead) {
  const BufferId id = written(kPagesOfSteps, 7);
  {
    const ManagerLock lock(core_.mutex);
    device_.let_time_pass(HostDigests::kQuiet);
    EXPECT_TRUE(core_.stocker.run_once());
  }
  ASSERT_TRUE(write(id, 8));
  digest_all();
  visit(id, 8);
  EXPECT_EQ(counters().write_backs, 0U);
  visit(id, 7);
  EXPECT_EQ(counters().write_backs, 1U) << "what it once was is not what the host has";
}

TEST_F(HostDigestsTest, NobodyWritesToAPieceWhileItIsRead) {
  const BufferId id = written(1, 7);
  device_.on_host_digest = [&] { EXPECT_FALSE(write(id, 8)); };
  digest_all();
  device_.on_host_digest = nullptr;
  {
    const ManagerLock lock(core_.mutex);
    core_.flush_warnings();
  }
  EXPECT_TRUE(told_of_giving_up("for another thread to pin or to read host memory"));
  EXPECT_EQ(host_value(id), 7);
  ASSERT_TRUE(write(id, 8));
  EXPECT_FALSE(is_known(id));
}

TEST_F(HostDigestsTest, APieceThatIsReadIsNotWrittenBackBefore) {
  const BufferId id = written(1, 7);
  bool was_chosen = true;
  device_.on_host_digest = [&] {
    UseToken token;
    ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, token),
              Status::kOk);
    uses_.end_use(token, stream_, true);
    device_.drain();
    const ManagerLock lock(core_.mutex);
    EXPECT_GT(evictions_.request(std::array{id}), Bytes{});
    was_chosen = evictions_.take_next().has_value();
    evictor_.evict({id, 0});
    EXPECT_EQ(core_.buffers[id].pieces[0].state(), PieceState::kIn)
        << "nor where it is taken out at once";
  };
  digest_all();
  device_.on_host_digest = nullptr;
  EXPECT_FALSE(was_chosen);
  EXPECT_EQ(counters().write_backs, 0U);
  EXPECT_FALSE(is_known(id)) << "an eviction has begun meanwhile";
}

TEST_F(HostDigestsTest, WhatIsFetchedWhileItIsReadKeepsItsDigest) {
  const BufferId id = written(1, 7);
  device_.on_host_digest = [&] {
    UseToken token;
    ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, token),
              Status::kOk);
    uses_.end_use(token, stream_, true);
    device_.drain();
  };
  digest_all();
  device_.on_host_digest = nullptr;
  visit(id, 7);
  EXPECT_EQ(counters().write_backs, 0U);
}

TEST_F(HostDigestsTest, ASlabIsGivenBackOnlyWhenItIsNoMoreRead) {
  const BufferId id = written(1, 7);
  const Address base = core_.buffers[id].base;
  const std::byte* const slab = core_.buffers[id].host.slab.data;
  device_.on_host_digest = [&] {
    EXPECT_EQ(lifetimes_.free(base, stream_), Status::kOk);
    core_.host.trim();
    EXPECT_EQ(*slab, std::byte{7}) << "it is still there";
    EXPECT_EQ(core_.host.pinned(), kGranule);
  };
  digest_all();
  device_.on_host_digest = nullptr;
  device_.drain();
  core_.host.trim();
  EXPECT_EQ(core_.host.pinned(), Bytes{});
}

// Others are read first.
TEST_F(HostDigestsTest, AnOperationThatMayStillWriteIsWaitedForWithoutHoldingUpOthers) {
  const BufferId busy = fresh(1);
  const StreamHandle blocked = blocked_stream();
  UseToken token;
  const auto route = routes_.begin(core_.buffers[busy].base, kGranule, blocked, true, token);
  ASSERT_TRUE(route.ok() && route->host != nullptr);
  submit_host_write(blocked, busy, 5);
  routes_.end(token, blocked, true);
  const BufferId quiet = written(1, 7);
  {
    const ManagerLock lock(core_.mutex);
    device_.let_time_pass(HostDigests::kQuiet);
    EXPECT_TRUE(digests_.run());
    EXPECT_FALSE(digests_.run());
    EXPECT_TRUE(digests_.rest().has_value());
  }
  EXPECT_TRUE(is_known(quiet));
  EXPECT_FALSE(is_known(busy));
  unblock();
  digest_all();
  EXPECT_TRUE(is_known(busy));
  visit(busy, 5);
  EXPECT_EQ(counters().write_backs, 0U);
}

TEST_F(HostDigestsTest, ABufferThatIsFreedIsLeftOut) {
  const BufferId id = written(1, 7);
  EXPECT_EQ(lifetimes_.free(core_.buffers[id].base, stream_), Status::kOk);
  bool was_read = false;
  device_.on_host_digest = [&] { was_read = true; };
  digest_all();
  device_.on_host_digest = nullptr;
  EXPECT_FALSE(was_read);
}

// The fetch comes behind the write, which is not noted any more then.
TEST_F(HostDigestsTest, AWriteBehindWhichTheContentIsFetchedIsWaitedFor) {
  const BufferId id = written(1, 5);
  digest_all();
  const StreamHandle blocked = blocked_stream();
  UseToken token;
  const auto route = routes_.begin(core_.buffers[id].base, kGranule, blocked, true, token);
  ASSERT_TRUE(route.ok() && route->host != nullptr);
  submit_host_write(blocked, id, 9);
  routes_.end(token, blocked, true);
  UseToken launch;
  ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, launch),
            Status::kOk);
  uses_.end_use(launch, stream_, true);
  {
    const ManagerLock lock(core_.mutex);
    device_.let_time_pass(HostDigests::kQuiet);
    EXPECT_FALSE(digests_.run());
  }
  unblock();
  EXPECT_EQ(host_value(id), 9);
  digest_all();
  visit(id, 5);  // what the host had before
  EXPECT_EQ(counters().write_backs, 1U);
  EXPECT_EQ(host_value(id), 5);
}

// Without a digest of its own, which would void the other one.
TEST_F(HostDigestsTest, NothingIsReadWhileAnEvictionIsUnderWay) {
  const BufferId id = written(1, 7);
  UseToken token;
  ASSERT_EQ(uses_.begin_launch(KernelId{1}, {{core_.buffers[id].base.load()}}, stream_, token),
            Status::kOk);
  uses_.end_use(token, stream_, true);
  device_.drain();
  const ManagerLock lock(core_.mutex);
  device_.let_time_pass(HostDigests::kQuiet);
  Page idle = make_page(kGranule);
  while (core_.digester.enqueue(idle.window, kGranule).status == Status::kOk) {
  }
  bool was_read = false;
  device_.on_host_digest = [&] { was_read = true; };
  device_.on_call = [&](Call call) {
    if (call != Call::kUnmap) return;
    const ManagerLock inner(core_.mutex);
    EXPECT_FALSE(digests_.run());
  };
  evictor_.evict({id, 0});
  device_.on_call = nullptr;
  EXPECT_FALSE(was_read);
  device_.drain();
  EXPECT_TRUE(digests_.run());
  EXPECT_TRUE(was_read);
  core_.pool->put(std::move(idle));
  device_.on_host_digest = nullptr;
  const std::vector<std::byte> content(kGranule.count(), std::byte{7});
  EXPECT_EQ(core_.buffers[id].pieces[0].host_digest,
            core_.digester.part_of_host(content, 0, content.size()));
}

TEST_F(HostDigestsTest, WhatCannotBeReadIsLookedForLessAndLessOften) {
  const BufferId id = fresh(1);
  const StreamHandle blocked = blocked_stream();
  UseToken token;
  const auto route = routes_.begin(core_.buffers[id].base, kGranule, blocked, true, token);
  ASSERT_TRUE(route.ok() && route->host != nullptr);
  routes_.end(token, blocked, true);
  const ManagerLock lock(core_.mutex);
  for (int look = 1; look <= 16; ++look) {
    device_.let_time_pass(HostDigests::kQuiet);
    EXPECT_FALSE(digests_.run());
    EXPECT_EQ(*digests_.rest(), std::min<std::chrono::nanoseconds>(
                                    HostDigests::kQuiet * (1 << look), HostDigests::kLongestRest));
  }
  unblock();
  EXPECT_TRUE(digests_.run());
  EXPECT_FALSE(digests_.rest().has_value());
}

// Those who wait for it have the mutex after each step.
TEST_F(HostDigestsTest, AWriterThatComesInTheMidstOfAPieceEndsItsReading) {
  const BufferId id = written(kPagesOfSteps, 7);
  int steps = 0;
  device_.on_host_digest = [&] {
    ++steps;
    const ManagerLock lock(core_.mutex);
    ++core_.buffers[id].host.pins;  // as an operation does before it waits
  };
  const ManagerLock lock(core_.mutex);
  device_.let_time_pass(HostDigests::kQuiet);
  EXPECT_TRUE(digests_.run());
  EXPECT_FALSE(core_.buffers[id].pieces[0].is_read_on_host);
  EXPECT_FALSE(digests_.run());
  EXPECT_EQ(steps, 1);
  device_.on_host_digest = nullptr;
  core_.buffers[id].host.pins = 0;
  while (digests_.run()) {
  }
  EXPECT_TRUE(core_.buffers[id].pieces[0].host_digest.has_value());
}

class UndigestedTest : public HostDigestsTest {
 protected:
  UndigestedTest() : HostDigestsTest(options_of(4096)) {}
};

TEST_F(UndigestedTest, WithoutDigestsNothingWaits) {
  (void)written(1, 7);
  const ManagerLock lock(core_.mutex);
  EXPECT_FALSE(digests_.rest().has_value());
}

}  // namespace
}  // namespace superpipe::testing
