// A residency core without a manager: for tests of one part, with those beneath it where it needs
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "residency/mover_rounds.h"
#include "residency/pieces/page_supply.h"
#include "residency/residency_core.h"
#include "residency/room/admission.h"
#include "residency/room/eviction_queue.h"
#include "residency/room/left_out_buffers.h"
#include "residency/room/precleaner.h"
#include "residency/transfer/content_mover.h"
#include "residency/transfer/evictor.h"
#include "residency/transfer/host_digests.h"
#include "residency/transfer/stream_marker.h"
#include "residency/transfer/use_completion.h"
#include "residency/uses/use_tracker.h"
#include "residency/worker.h"
#include "tests/residency/fake_device.h"

namespace superpipe {

/// GoogleTest prints the states of pieces by their names.
inline void PrintTo(PieceState state, std::ostream* stream) { *stream << facts_of(state).name; }

}  // namespace superpipe

namespace superpipe::testing {

/// The size of one page of these tests: the granule of the fake device.
inline constexpr Bytes kGranule{4096};

/// The worker's rounds, as the test writes them: they stand for the parts that are not under test.
class ScriptedRounds : public WorkerRounds {
 public:
  /// What a round does. @return whether anything was done. Called under the mutex.
  std::function<bool()> round = [] { return false; };
  int rounds = 0;  ///< that were run

  bool run() noexcept override {
    ++rounds;
    return round();
  }
  [[nodiscard]] bool is_pending() const override { return false; }
  [[nodiscard]] bool is_awaited() const override { return false; }
  [[nodiscard]] std::chrono::nanoseconds longest_rest() const override {
    return std::chrono::seconds{1};
  }
};

/// A core over a fake device, without a worker's thread, and buffers in the states that a test
/// needs. Waits run `rounds_` and advance the fake's clock; the wait limit is 400 ms.
class CoreTest : public ::testing::Test {
 protected:
  static ResidencyOptions options_of(std::uint64_t budget_pages) {
    ResidencyOptions options;
    options.policy.kind = PolicyKind::kNaive;
    options.policy.budget = Bytes{budget_pages * kGranule.count()};
    options.arena_size = 64_MiB;
    options.host_limit = 64_MiB;
    options.wait_limit = std::chrono::milliseconds{400};
    options.worker_thread = false;
    // So that a fetch is over with its calls; tests of arrivals say otherwise.
    options.maps_early = true;
    return options;
  }
  /// With these, buffers read as zero until they are written.
  static ResidencyOptions zero_filling_options() {
    ResidencyOptions options = options_of(1024);
    options.zero_fill = true;
    return options;
  }

  explicit CoreTest(ResidencyOptions options = options_of(1024),
                    const FakeDevice::Options& device_options = {})
      : device_(device_options), core_(device_, connected(std::move(options))) {
    core_.worker.attach(rounds_);
    EXPECT_EQ(core_.start(), Status::kOk);
  }

  void TearDown() override {
    device_.release_host_functions();
    device_.drain();
    EXPECT_EQ(core_.transfers.stop(std::chrono::milliseconds{0}), Status::kOk);
    EXPECT_EQ(core_.digester.stop(std::chrono::milliseconds{0}), Status::kOk);
    for (std::uint32_t i = 0; i < core_.buffers.end(); ++i) {
      core_.host.release(std::exchange(core_.buffers[BufferId{i}].host.slab, Slab{}), {});
    }
    core_.host.release_untracked();
    core_.host.trim();
    EXPECT_EQ(device_.violations(), std::vector<std::string>{});
  }

  /// A live buffer of `pages` pages that was never written and is not on the device.
  BufferId make_fresh(std::uint64_t pages) REQUIRES(manager_lock) {
    const Bytes size{pages * kGranule.count()};
    const auto address = core_.arena->take(size);
    const auto id = core_.buffers.create();
    EXPECT_TRUE(address.has_value() && id.has_value());
    Buffer& buffer = core_.buffers[*id];
    buffer.base = *address;
    buffer.size = size.count();
    buffer.cut(size, core_.piece_size_of(size));
    buffer.live = true;
    core_.policy.on_allocate(*id, size, static_cast<std::uint32_t>(buffer.pieces.size()));
    core_.cache.expect(size);
    core_.ledger.begin_life(size, size);
    core_.arena->set_owner(*address, size, index_of(*id));
    buffer.host.backing = HostStore::backing_of(size);
    EXPECT_TRUE(core_.host.reserve(buffer.host.backing));
    return *id;
  }

  /// A live buffer that is out; each byte of its host copy is `value`.
  BufferId make_out(std::uint64_t pages, int value = 0) REQUIRES(manager_lock) {
    const BufferId id = make_fresh(pages);
    Buffer& buffer = core_.buffers[id];
    const auto slab = core_.host.acquire(buffer.host.backing, true);
    EXPECT_TRUE(slab.ok());
    buffer.host.slab = *slab;
    std::memset(slab->data, value, slab->size.count());
    buffer.fresh = false;
    return id;
  }

  /// A live buffer that is on the device and has never been out; each byte is `value`.
  BufferId make_dirty(std::uint64_t pages, int value = 0) REQUIRES(manager_lock) {
    const BufferId id = make_fresh(pages);
    put_in(id, value);
    core_.buffers[id].note_write();
    return id;
  }

  /// A live buffer that is on the device, with the same content in its host copy.
  BufferId make_clean(std::uint64_t pages, int value = 0) REQUIRES(manager_lock) {
    const BufferId id = make_out(pages, value);
    put_in(id, value);
    return id;
  }

  /// A freed buffer that keeps its page, as the cache holds it; `freed` has to complete first.
  BufferId make_cached(std::uint64_t pages, EventRef freed = nullptr) REQUIRES(manager_lock) {
    const BufferId id = make_dirty(pages);
    Buffer& buffer = core_.buffers[id];
    core_.arena->set_owner(buffer.base, buffer.footprint, Arena::kNobody);
    core_.policy.on_free(id);
    core_.ledger.end_life(buffer.footprint, buffer.footprint);
    core_.host.unreserve(buffer.host.backing);
    buffer.live = false;
    buffer.freed = std::move(freed);
    core_.cache.insert(id, buffer.footprint, buffer.bytes_in_place());
    return id;
  }

  /// An idle page that waits for `after`, if that is given.
  void make_idle_page(std::uint64_t pages, const EventRef& after = nullptr) REQUIRES(manager_lock) {
    Page page = make_page(Bytes{pages * kGranule.count()});
    if (after != nullptr) page.after.push_back(after);
    core_.pool->put(std::move(page));
  }

  /// A page that nobody holds yet, counted.
  Page make_page(Bytes size) REQUIRES(manager_lock) {
    core_.ledger.begin_creation(size);
    auto page = core_.pool->create(size);
    EXPECT_TRUE(page.ok());
    core_.ledger.end_creation(size, page.ok());
    return page.ok() ? std::move(*page) : Page{};
  }

  /// Notes that work which was just submitted to `stream` uses the buffer.
  void use(BufferId id, StreamHandle stream) REQUIRES(manager_lock) {
    const Slot slot = core_.streams.slot_of(stream);
    Buffer& buffer = core_.buffers[id];
    buffer.uses |= std::uint64_t{1} << slot;
    buffer.last_use = ++core_.seq;
    core_.streams.note_use(slot, stream, core_.seq, nullptr);
  }

  /// A stream of the program whose work does not end before the test releases it.
  StreamHandle blocked_stream() {
    const StreamHandle stream = device_.program_stream();
    device_.submit_blocking_host_function(stream);
    return stream;
  }
  /// An event behind all that was submitted to `stream`.
  EventRef end_of(StreamHandle stream) {
    auto event = core_.events.record(stream, 0);
    EXPECT_TRUE(event.ok());
    return event.ok() ? *event : nullptr;
  }
  /// An event that does not complete before unblock().
  EventRef blocked_event() { return end_of(blocked_stream()); }
  bool is_complete(const EventRef& event) {
    const auto complete = core_.events.is_complete(event);
    return complete.ok() && *complete;
  }
  /// Lets all that was submitted so far come to its end.
  void unblock() {
    device_.release_host_functions();
    device_.drain();
  }

  /// Has `change` done in the round of that number, as another thread would do it meanwhile.
  void in_round(int number, std::function<void()> change) {
    rounds_.round = [this, number, change = std::move(change), rest = rounds_.round] {
      if (rounds_.rounds == number) change();
      return rest();
    };
  }

  /// Whether the user was told that a wait was given up, and for what.
  [[nodiscard]] bool told_of_giving_up(const std::string& awaited) const {
    return std::any_of(told_.begin(), told_.end(), [&awaited](const std::string& warning) {
      return warning.find("gave up waiting after 400 ms " + awaited) != std::string::npos;
    });
  }

  /// Advances the clock by at least `time`.
  void pass(std::chrono::milliseconds time) {
    const auto end = core_.now() + time;
    while (core_.now() < end) {
    }
  }

  /// Has the program write `value` to the host copy of a buffer, in the order of `stream`.
  void submit_host_write(StreamHandle stream, BufferId id, int value) {
    const Slab slab = core_.buffers[id].host.slab;
    ASSERT_TRUE(slab);
    device_.submit(stream, [slab, value] { std::memset(slab.data, value, slab.size.count()); });
  }

  /// The value of each byte of a buffer that is on the device; -1 if they differ.
  int device_value(BufferId id) {
    const Buffer& buffer = core_.buffers[id];
    std::vector<std::byte> bytes(buffer.footprint.count());
    if (!device_.read(buffer.base, bytes.size(), bytes.data())) return -1;
    return value_of(bytes.data(), bytes.size());
  }
  /// The same of its host copy.
  int host_value(BufferId id) {
    const Slab& slab = core_.buffers[id].host.slab;
    return slab ? value_of(slab.data, slab.size.count()) : -1;
  }

  FakeDevice device_;
  ScriptedRounds rounds_;
  std::vector<std::string> told_;  ///< the warnings that the user got
  ResidencyCore core_;

 private:
  ResidencyOptions connected(ResidencyOptions options) {
    options.now = [this] { return device_.now(); };
    options.warn = [this](const std::string& warning) { told_.push_back(warning); };
    return options;
  }

  static int value_of(const std::byte* bytes, std::size_t size) {
    for (std::size_t i = 1; i < size; ++i) {
      if (bytes[i] != bytes[0]) return -1;
    }
    return static_cast<int>(bytes[0]);
  }

  void put_in(BufferId id, int value) REQUIRES(manager_lock) {
    Buffer& buffer = core_.buffers[id];
    core_.pieces.enter({id, 0}, PieceState::kFetching);
    Page page = make_page(buffer.footprint);
    EXPECT_EQ(device_.map(buffer.base, buffer.footprint, page.handle), Status::kOk);
    const std::vector<std::byte> bytes(buffer.footprint.count(), static_cast<std::byte>(value));
    EXPECT_TRUE(device_.write(buffer.base, bytes.size(), bytes.data()));
    core_.pieces.enter({id, 0}, PieceState::kIn, std::move(page));
    buffer.fresh = false;
    core_.tell_whereabouts(id);
  }
};

/// A core with the parts that move content. Waits run the rounds of MoverRounds.
class MovingCoreTest : public CoreTest {
 protected:
  explicit MovingCoreTest(ResidencyOptions options = options_of(1024),
                          const FakeDevice::Options& device_options = {})
      : CoreTest(std::move(options), device_options) {
    rounds_.round = [this]() NO_THREAD_SAFETY_ANALYSIS { return mover_rounds_.run(); };
  }

  /// Runs rounds until there is nothing to do that could be done now.
  void run_rounds() REQUIRES(manager_lock) {
    do {
      device_.drain();
    } while (mover_rounds_.run());
  }

  StreamMarker streams_{core_};
  PageSupply pages_{core_};
  UseCompletion completion_{core_, streams_};
  PageMover page_mover_{core_.device, core_.events, core_.transfers, core_.digester};
  ContentMover mover_{core_, streams_, pages_, page_mover_};
  EvictionQueue evictions_{core_, streams_, mover_, completion_};
  Evictor evictor_{core_, streams_, mover_, page_mover_};
  HostDigests digests_{core_};
  LeftOutBuffers left_out_{core_};
  Precleaner precleaner_{core_, evictor_, evictions_, completion_};
  MoverRounds mover_rounds_{core_,       pages_,     mover_,    evictor_,
                            completion_, evictions_, left_out_, precleaner_};
};

/// A core with all that an operation of the program needs. The part under test takes the mutex
/// itself, so that the test does not hold it.
class UsingCoreTest : public MovingCoreTest {
 protected:
  using MovingCoreTest::MovingCoreTest;

  BufferId fresh(std::uint64_t pages) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_fresh(pages);
  }
  BufferId out(std::uint64_t pages, int value = 0) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_out(pages, value);
  }
  BufferId clean(std::uint64_t pages, int value = 0) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_clean(pages, value);
  }
  BufferId dirty(std::uint64_t pages, int value = 0) EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return make_dirty(pages, value);
  }
  [[nodiscard]] ResidencyCounters counters() EXCLUDES(manager_lock) {
    const ManagerLock lock(core_.mutex);
    return core_.counters;
  }
  Admission admission_{core_, pages_, evictions_};
  UseTracker uses_{core_, streams_, evictions_, completion_, admission_, left_out_};
};

}  // namespace superpipe::testing
