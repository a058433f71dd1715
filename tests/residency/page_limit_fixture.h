// The components that decide how much pages may take, without a core.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "policy/policy_engine.h"
#include "residency/host/host_store.h"
#include "residency/manager_waits.h"
#include "residency/pieces/buffer_table.h"
#include "residency/residency_options.h"
#include "residency/room/device_ledger.h"
#include "residency/room/host_backing.h"
#include "residency/room/page_limit.h"
#include "residency/room/passthrough_ledger.h"
#include "residency/streams/event_pool.h"
#include "residency/warning_queue.h"
#include "tests/residency/fake_device.h"

namespace superpipe::testing {

inline constexpr Bytes kPageLimitPage{4096};
constexpr Bytes limit_pages(std::uint64_t count) { return kPageLimitPage * count; }

/// A budget of sixteen pages, of which two are headroom, and host memory for eight.
class PageLimitFixture : public ::testing::Test {
 protected:
  explicit PageLimitFixture(std::chrono::milliseconds wait_limit = std::chrono::milliseconds{400})
      : options_(options_of(wait_limit)) {
    passthrough_.start(Bytes{});
    const ManagerLock lock(mutex_);
    limit_.refresh();
  }

  /// A live buffer of so many pages, all of them on the device.
  void make_live(std::uint64_t count) REQUIRES(manager_lock) {
    const BufferId id = *buffers_.create();
    Buffer& buffer = buffers_[id];
    buffer.size = limit_pages(count).count();
    buffer.cut(limit_pages(count), limit_pages(count));
    buffer.live = true;
    ledger_.begin_life(limit_pages(count), limit_pages(count));
    ledger_.begin_creation(limit_pages(count));
    ledger_.end_creation(limit_pages(count), true);
  }

  FakeDevice device_{FakeDevice::Options{}};
  const ResidencyOptions options_;
  EventPool events_{device_};
  HostStore host_{device_, events_, {limit_pages(8)}, std::chrono::milliseconds{100}};
  BufferTable buffers_;
  ManagerMutex mutex_;
  ManagerWaits waits_{mutex_};
  PassthroughLedger passthrough_{limit_pages(16), limit_pages(2), kPageLimitPage};
  DeviceLedger ledger_;
  WarningQueue warnings_;
  PolicyEngine policy_{options_.policy};
  HostBacking backing_{buffers_, host_, kPageLimitPage};
  PageLimit limit_{
      options_, true, kPageLimitPage, {passthrough_, ledger_, policy_, backing_, warnings_}};

 private:
  ResidencyOptions options_of(std::chrono::milliseconds wait_limit) {
    ResidencyOptions options;
    options.policy.kind = PolicyKind::kAuto;
    options.policy.budget = limit_pages(16);
    options.headroom = limit_pages(2);
    options.wait_limit = options.sample_limit = wait_limit;
    options.now = [this] { return device_.now(); };
    return options;
  }
};

}  // namespace superpipe::testing
