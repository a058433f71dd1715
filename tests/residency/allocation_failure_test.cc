// Host memory runs out at every allocation that the manager makes, one after the other: the call
// fails or does without, no content is lost, and nothing stays behind.
#include <gtest/gtest.h>

#include <atomic>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "residency/streams/event_pool.h"
#include "tests/random_length.h"
#include "tests/residency/allocation_faults.h"
#include "tests/residency/fake_device.h"
#include "tests/residency/manager_fixture.h"
#include "tests/residency/random_program.h"

namespace superpipe::testing {
namespace {

struct Setting {
  std::string name;
  ProgramOptions program;

  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

ProgramOptions program_of(const PolicyConfig& policy, std::uint64_t seed) {
  ProgramOptions options;
  options.seed = seed;
  options.steps = 90;
  options.policy = policy;
  return options;
}

std::vector<Setting> settings() {
  PolicyConfig by_k;
  by_k.kind = PolicyKind::kSuperpipeline;
  by_k.k = 3;
  by_k.k_prime = 1;
  std::vector<Setting> all{
      {"resident", program_of(PolicyConfig{}, 1)},
      {"budget", program_of(budget_of(8), 2)},
      {"zero_fill_with_a_timeline", program_of(budget_of(10), 3)},
      {"naive", program_of(budget_of(8, PolicyKind::kNaive), 4)},
      {"layers", program_of(budget_of(8), 5)},
      {"layers_by_k", program_of(by_k, 6)},
      {"more_streams_than_slots", program_of(budget_of(8), 7)},
      {"a_small_device", program_of(budget_of(20), 8)},
      {"auto", program_of(budget_of(8, PolicyKind::kAuto), 9)},
      {"auto_with_layers", program_of(budget_of(8, PolicyKind::kAuto), 10)},
      {"auto_in_pieces", program_of(budget_of(8, PolicyKind::kAuto), 11)},
      {"digests", program_of(budget_of(8, PolicyKind::kAuto), 12)},
      {"digests_of_layers", program_of(budget_of(8), 13)},
      {"a_stream_that_ends_first", program_of(budget_of(8), 391)},
  };
  all[2].program.zero_fill = all[2].program.record_timeline = true;
  all[4].program.layered = all[5].program.layered = true;
  all[4].program.record_timeline = true;
  all[6].program.streams = 90;
  all[10].program.piece_size = Bytes{4096};
  all[6].program.steps = 150;
  all[7].program.device_capacity = Bytes{10 * kPage};
  all[9].program.layered = all[12].program.layered = true;
  all[11].program.piece_size = Bytes{4096};
  all[11].program.compares_digests = all[12].program.compares_digests = true;
  return all;
}

class AllocationFailure : public ::testing::TestWithParam<Setting> {
 protected:
  /// Has `how_many` allocations fail, beginning with each, or with about `most` of them.
  static void run_with_failures(std::uint64_t how_many, std::uint64_t most) {
    ProgramOptions options = GetParam().program;
    const ProgramOutcome undisturbed = run_random_program(options);
    ASSERT_EQ(undisturbed.mistakes, std::vector<std::string>{});
    ASSERT_GT(undisturbed.allocations, 50U) << "the test shows nothing";
    const std::uint64_t stride = 1 + undisturbed.allocations / most;
    options.allocation_faults = how_many;
    for (std::uint64_t n = 1; n <= undisturbed.allocations; n += stride) {
      options.allocation_fault_at = n;
      const ProgramOutcome outcome = run_random_program(options);
      ASSERT_EQ(outcome.mistakes, std::vector<std::string>{})
          << "allocation " << n << " of " << undisturbed.allocations;
    }
  }
};

TEST_P(AllocationFailure, LosesNothingWhicheverAllocationFails) {
  run_with_failures(1, 120 * random_length());
}

TEST_P(AllocationFailure, LosesNothingWhenMemoryStaysAwayForAWhile) {
  run_with_failures(3, 40 * random_length());
  run_with_failures(100, 40 * random_length());
}

INSTANTIATE_TEST_SUITE_P(Programs, AllocationFailure, ::testing::ValuesIn(settings()),
                         [](const auto& setting) { return setting.param.name; });

// What a stream did whose end is lost is never known to be over, so that its buffers stay for good.
TEST(EventPoolAllocationFailure, EndsThatCannotBeMarkedLaterHaveMemorySetAside) {
  FakeDevice device({});
  const StreamHandle stream = device.program_stream();
  EventPool pool(device);
  std::vector<EventRef> ends;
  ends.reserve(64);
  // Those that were marked while there was memory have taken nothing of it.
  for (int i = 0; i < 32; ++i) ends.push_back(*pool.record_now(stream, 1));
  AllocationFaults::mine() = {0, 1, 1000, 0};
  {
    const Arming armed(1);
    EXPECT_EQ(pool.record(stream, 1).status(), Status::kOutOfHostMemory);
    for (int i = 0; i < 32; ++i) {
      auto end = pool.record_now(stream, 1);
      const Arming unarmed(-1000);
      ASSERT_TRUE(end.ok()) << i;
      ends.push_back(std::move(*end));
    }
    EXPECT_EQ(pool.record_now(stream, 1).status(), Status::kOutOfHostMemory);
  }
  AllocationFaults::mine() = {};
  device.drain();
  for (const EventRef& end : ends) EXPECT_TRUE(*pool.is_complete(end));
  EXPECT_TRUE(pool.record(stream, 2).ok()) << "memory is back";
  ends.clear();
  pool.clear();
  EXPECT_EQ(device.live_events(), 0U);
}

using FreeAllocationFailure = ManagerTest;

// The driver documents no such error of a free, and a program could do nothing about it.
TEST_F(FreeAllocationFailure, AFreeNeedsNoHostMemory) {
  make(budget_of(2));
  const Address kept = load(2, 5);
  for (int i = 0; i < 40; ++i) ASSERT_EQ(manager_->free_async(load(1, i), stream_), Status::kOk);
  for (std::uint64_t first = 1; first <= 8; ++first) {
    const Address out = load(1, 1);
    AllocationFaults::mine() = {0, first, 1000, 1};
    const Status status = manager_->free_async(out, stream_);
    AllocationFaults::mine() = {};
    EXPECT_EQ(status, Status::kOk) << "allocation " << first;
  }
  device_->drain();
  EXPECT_EQ(copy_out(kept, 2 * kPage), 5);
}

using WorkerAllocationFailure = ManagerTest;

TEST_F(WorkerAllocationFailure, IsSurvivedByTheWorkersThread) {
  make(budget_of(4));  // for the device and the stream
  manager_.reset();
  options_.worker_thread = true;
  options_.record_timeline = true;
  auto created = ResidencyManager::create(*device_, options_);
  ASSERT_TRUE(created.ok());
  manager_ = std::move(*created);
  std::vector<Address> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(load(1, i));
  std::atomic<std::uint64_t> calls{0};
  device_->on_call = [&, program = std::this_thread::get_id()](Call) {
    if (std::this_thread::get_id() == program) return;
    const std::uint64_t call = ++calls;
    if (call % 5 == 0) AllocationFaults::mine() = {0, 1 + call % 3, 1 + call % 2, 1};
  };
  std::vector<int> expected;
  for (int i = 0; i < 10; ++i) expected.push_back(i);
  for (int pass = 0; pass < 20; ++pass) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      expected[i] += launch({buffers[i]}) == Status::kOk ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(copy_out(buffers[i], kPage), expected[i]);
  }
  EXPECT_GT(manager_->stats().write_backs, 20U);
  EXPECT_GT(calls, 100U);
  manager_.reset();  // its worker uses what is on this stack
}

}  // namespace
}  // namespace superpipe::testing
