// What may happen while the manager's lock is open: other calls, on this thread (from within a call
// of the device) or on another, at exactly the wrong moment.
#include <optional>
#include <thread>
#include <utility>

#include "tests/aside_call.h"
#include "tests/hang_limit.h"
#include "tests/residency/manager_fixture.h"

namespace superpipe::testing {
namespace {

class OpenLockTest : public ManagerTest {
 protected:
  /// Has `what` done once, at the next call of that kind, by whoever makes it.
  void at_next(Call call, std::function<void()> what) {
    device_->on_call = [this, call, what = std::move(what)](Call made) {
      if (made != call) return;
      const auto once = what;
      device_->on_call = nullptr;
      once();
    };
  }
  void after_next_record(std::function<void()> what) {
    device_->after_record = [this, what = std::move(what)] {
      const auto once = what;
      device_->after_record = nullptr;
      once();
    };
  }
  /// Begins an asynchronous copy into the host copy of a buffer that is out.
  void* begin_host_copy(Address address, StreamHandle stream, UseToken& token) {
    const auto route = manager_->begin_copy_in(address, Bytes{kPage}, stream, token);
    EXPECT_TRUE(route.ok() && route->host != nullptr);
    return route.ok() ? route->host : nullptr;
  }
  void submit_fill(StreamHandle stream, void* host, int value) {
    device_->submit(stream, [host, value] { std::memset(host, value, kPage); });
  }
};

TEST_F(OpenLockTest, FetchesBehindTheLaterOfTwoHostCopiesWhoseEventsWereNotedTheOtherWayRound) {
  make(budget_of(2));
  (void)load(2, 1);
  const Address out = load(2, 5);
  const StreamHandle stream = device_->program_stream();
  UseToken first;
  UseToken second;
  void* const host = begin_host_copy(out, stream, first);
  ASSERT_EQ(begin_host_copy(out, stream, second), host);
  submit_fill(stream, host, 6);
  after_next_record([&] {
    device_->submit_blocking_host_function(stream);
    submit_fill(stream, host, 7);
    manager_->end_use(second, stream, true);
  });
  manager_->end_use(first, stream, true);
  UseToken token;
  ASSERT_EQ(announce({out}, stream_, token), Status::kOk);
  manager_->end_use(token, stream_, true);
  device_->drain();  // the second copy has not run
  device_->release_host_functions();
  device_->drain();
  EXPECT_EQ(copy_out(out, kPage), 7);
}

TEST_F(OpenLockTest, NamesBuffersAgainAfterItHasMarkedThePass) {
  make(budget_of(16));
  std::vector<Address> layers;
  for (int i = 0; i < 8; ++i) layers.push_back(load(1, i));
  for (int pass = 0; pass < 4; ++pass) {
    for (const Address layer : layers) ASSERT_EQ(launch({layer}), Status::kOk);
  }
  ASSERT_TRUE(manager_->stats().learned.layers_known);
  // All is resident, so that only a pass's start is marked.
  bool freed = false;
  UseToken token;
  for (std::size_t i = 0; i < layers.size() && !freed; ++i) {
    at_next(Call::kRecord, [&] {
      device_->drain();
      freed = manager_->free(layers[i]) == Status::kOk;
    });
    ASSERT_EQ(announce({layers[i]}, stream_, token), Status::kOk);
    EXPECT_EQ(token.empty(), freed) << "a launch pins a buffer that is gone";
    manager_->end_use(token, stream_, true);
  }
  device_->on_call = nullptr;
  EXPECT_TRUE(freed) << "no pass began";
}

// A fill that the device refused, but has enqueued, must be over before its page serves another.
TEST_F(OpenLockTest, ReusesNoPageUnderAFailedFill) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    options_.zero_fill = true;
    make(budget_of(1), {.seed = seed});
    const Address cached = load(1, 3);
    const Address out = load(1, 5);
    const StreamHandle blocked = device_->program_stream();
    const StreamHandle other = device_->program_stream();
    device_->submit_blocking_host_function(blocked);
    ASSERT_EQ(manager_->free_async(cached, blocked), Status::kOk);
    device_->fail_late(1, Status::kDeviceError);
    ASSERT_EQ(manager_->allocate(Bytes{kPage}, other).status(), Status::kDeviceError);
    device_->release_host_functions();
    ASSERT_EQ(launch({out}), Status::kOk);
    device_->drain();
    ASSERT_EQ(copy_out(out, kPage), 6) << "seed " << seed;
    manager_.reset();
    ASSERT_EQ(device_->violations(), std::vector<std::string>{});
  }
}

TEST_F(OpenLockTest, ReusesNoPageUnderAFetchThatCouldNotBeMapped) {
  make(budget_of(1));
  const Address first = load(1, 1);
  const Address out = load(1, 5);
  const StreamHandle blocked = device_->program_stream();
  UseToken token;
  void* const host = begin_host_copy(out, blocked, token);
  device_->submit_blocking_host_function(blocked);
  submit_fill(blocked, host, 6);
  manager_->end_use(token, blocked, true);
  ASSERT_EQ(manager_->free(first), Status::kOk);
  // The fetch is enqueued behind the copy that is blocked; then the page cannot be mapped.
  device_->fail(Call::kMap, 1, Status::kDeviceError);
  ASSERT_EQ(announce({out}, stream_, token), Status::kDeviceError);
  const Address next = allocate(1);
  ASSERT_EQ(announce({next}, stream_, token), Status::kOk);
  const std::vector<std::byte> bytes(kPage, std::byte{9});
  device_->submit(stream_, [&] { device_->write(next, kPage, bytes.data()); });
  manager_->end_use(token, stream_, true);
  device_->release_host_functions();
  device_->drain();
  EXPECT_EQ(copy_out(next, kPage), 9) << "the failed fetch came after it";
  EXPECT_EQ(copy_out(out, kPage), 6);
}

TEST_F(OpenLockTest, UnpinsNoHostMemoryThatAFailedFetchStillReads) {
  options_.maps_early = true;  // else the copy has ended by the time that mapping fails
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    make(budget_of(1), {.seed = seed});
    const Address first = load(1, 1);
    const Address out = load(1, 5);
    ASSERT_EQ(manager_->free(first), Status::kOk);
    device_->fail(Call::kMap, 1, Status::kDeviceError);
    UseToken token;
    ASSERT_EQ(announce({out}, stream_, token), Status::kDeviceError);
    // Work of others, so that the fetch is not the next thing that the device does.
    for (int i = 0; i < 20; ++i) device_->submit(stream_, [] {});
    ASSERT_EQ(manager_->free(out), Status::kOk);
    manager_->trim();
    device_->drain();
    manager_.reset();
    ASSERT_EQ(device_->violations(), std::vector<std::string>{}) << "seed " << seed;
  }
}

TEST_F(OpenLockTest, OrdersALaunchBehindAnArrivalWhileAnotherWaitsForRoom) {
  make(budget_of(3));
  const Address filler = load(1, 0);
  (void)load(2, 0);
  const Address arriving = load(1, 5);
  const Address wanted = load(1, 7);
  const StreamHandle blocked = device_->program_stream();
  const StreamHandle other = device_->program_stream();
  UseToken token;
  void* const host = begin_host_copy(arriving, blocked, token);
  device_->submit_blocking_host_function(blocked);
  submit_fill(blocked, host, 6);
  manager_->end_use(token, blocked, true);
  ASSERT_EQ(manager_->free(filler), Status::kOk);
  const StreamHandle waiting = device_->program_stream();
  // Mapped; its content waits for the blocked copy.
  ASSERT_EQ(launch({arriving}, waiting), Status::kOk);
  Status status = Status::kInvalidValue;
  at_next(Call::kUnmap, [&] { status = launch({arriving}, other); });
  EXPECT_EQ(launch({wanted}), Status::kOk);
  EXPECT_EQ(status, Status::kOk) << "it needed no room, but waited for its turn to have some";
  device_->order_after(other, waiting);
  device_->release_host_functions();
  device_->drain();
  EXPECT_NE(copy_out(arriving, kPage), -1);
  EXPECT_EQ(copy_out(wanted, kPage), 8);
}

TEST_F(OpenLockTest, MarksNothingOnTheLegacyStreamWhileThatWouldBreakACapture) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address b = load(2, 2);
  ASSERT_EQ(launch({a}, kLegacyStream), Status::kOk);
  device_->set_capturing(kLegacyStream, true);
  EXPECT_NE(launch({b}), Status::kOk) << "the only victim's last use cannot be marked";
  EXPECT_EQ(device_->violations(), std::vector<std::string>{});
  device_->set_capturing(kLegacyStream, false);
  EXPECT_EQ(launch({b}), Status::kOk);
  EXPECT_EQ(copy_out(a, kPage), 2);
}

TEST_F(OpenLockTest, MarksNoDestroyedStream) {
  make(budget_of(2));
  const Address a = load(2, 1);
  const Address out = load(2, 5);
  const StreamHandle capturing = device_->program_stream();
  ASSERT_EQ(launch({a}, capturing), Status::kOk);
  device_->synchronize(capturing);
  device_->set_capturing(capturing, true);
  manager_->on_stream_destroy(capturing);
  EXPECT_EQ(device_->violations(), std::vector<std::string>{}) << "marked while it was captured";
  // A copy whose end could not be marked: the stream's end does for it.
  const StreamHandle gone = device_->program_stream();
  UseToken token;
  void* const host = begin_host_copy(out, gone, token);
  submit_fill(gone, host, 6);
  device_->fail(Call::kRecord, 1, Status::kDeviceError);
  manager_->end_use(token, gone, true);
  manager_->on_stream_destroy(gone);
  device_->synchronize(gone);
  ASSERT_EQ(device_->destroy_stream(gone), Status::kOk);
  EXPECT_EQ(copy_out(out, kPage), 6);
}

TEST_F(OpenLockTest, MarksNoDestroyedStreamOfThoseThatShareASlot) {
  make(budget_of(2));
  (void)load(2, 1);
  const Address out = load(2, 5);
  std::vector<StreamHandle> streams;
  for (int i = 0; i < 70; ++i) streams.push_back(device_->program_stream());
  UseToken token;
  void* host = nullptr;
  for (const StreamHandle stream : streams) {
    host = begin_host_copy(out, stream, token);
    manager_->end_use(token, stream, true);
  }
  const StreamHandle gone = streams.back();
  host = begin_host_copy(out, gone, token);
  submit_fill(gone, host, 6);
  device_->fail(Call::kRecord, 1, Status::kDeviceError);
  manager_->end_use(token, gone, true);
  manager_->on_stream_destroy(gone);
  device_->synchronize(gone);
  ASSERT_EQ(device_->destroy_stream(gone), Status::kOk);
  EXPECT_EQ(copy_out(out, kPage), 6);
}

// The managed context goes while a thread of another one makes room for an allocation of its own.
class ShutDownTest : public OpenLockTest {
 protected:
  // It gives up after the limit, which therefore must not pass in the midst of a test.
  ShutDownTest() { options_.wait_limit = kHangLimit; }

  /// Has another thread shut the manager down while this one is inside the next call of that kind.
  void shut_down_during(Call call) {
    at_next(call, [this] {
      shut_down_.emplace([this] { manager_->shut_down(); });
      // Until it has begun: from then on nothing can be allocated.
      while (manager_->allocate(Bytes{kPage}, std::nullopt).status() != Status::kDeviceError) {
        std::this_thread::yield();
      }
      returned_during_call_ = !shut_down_->waits();
    });
  }
  void expect_all_given_back() {
    ASSERT_TRUE(shut_down_.has_value()) << "there was no such call";
    shut_down_->get();
    EXPECT_FALSE(returned_during_call_);
    EXPECT_EQ(device_->mapped_ranges(), 0U);
    EXPECT_EQ(device_->pinned_ranges(), 0U);
  }

  std::optional<AsideCall<void>> shut_down_;
  bool returned_during_call_ = false;
};

TEST_F(ShutDownTest, WaitsForATrimThatUnmapsAFreedBuffer) {
  make(budget_of(8));
  const Address a = load(2, 1);
  ASSERT_EQ(manager_->free(a), Status::kOk);
  shut_down_during(Call::kUnmap);
  manager_->trim();
  expect_all_given_back();
}

TEST_F(ShutDownTest, WaitsForATrimThatDestroysAPage) {
  make(budget_of(8));
  const Address a = load(2, 1);
  ASSERT_EQ(manager_->free(a), Status::kOk);
  shut_down_during(Call::kDestroyPages);
  manager_->trim();
  expect_all_given_back();
}

TEST_F(ShutDownTest, WaitsForWhoMakesRoomForThePassThrough) {
  make(budget_of(4));
  const Address a = load(2, 1);
  (void)load(2, 2);
  ASSERT_EQ(manager_->free(a), Status::kOk);
  shut_down_during(Call::kUnmap);
  (void)manager_->make_room(Bytes{3 * kPage});
  expect_all_given_back();
}

TEST_F(ShutDownTest, WaitsForAnAllocation) {
  make(budget_of(8));
  shut_down_during(Call::kMap);
  (void)manager_->allocate(Bytes{2 * kPage}, std::nullopt);
  expect_all_given_back();
}

}  // namespace
}  // namespace superpipe::testing
