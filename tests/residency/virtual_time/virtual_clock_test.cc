// When the program's thread and the worker do what, in virtual time.
#include "residency/virtual_time/virtual_clock.h"

#include <gtest/gtest.h>

#include <vector>

namespace superpipe::virtual_time {
namespace {

constexpr ThreadCosts kCosts{Time{1}, Time{5}, Time{1000}};

/// A round of the worker that takes `length` besides its fixed cost, and then rests.
void run_round(VirtualClock& clock, Time length, Time rest) {
  clock.begin_round();
  clock.charge(length);
  clock.end_round(rest);
}

TEST(VirtualClock, NoRoundBeginsBeforeTheWorkerIsWoken) {
  VirtualClock clock(kCosts);
  int rounds = 0;
  clock.run_rounds(Time{1'000'000}, [&] { ++rounds; });
  EXPECT_EQ(rounds, 0);
}

TEST(VirtualClock, ARoundCostsTheWorkerAndNotTheProgram) {
  VirtualClock clock(kCosts);
  clock.charge(Time{100});
  clock.wake();
  EXPECT_EQ(clock.next_round(), Time{105});
  clock.advance_to(Time{110});
  clock.run_rounds(Time{110}, [&] { run_round(clock, Time{50}, Time{20}); });
  EXPECT_EQ(clock.time(Thread::kProgram), Time{110});
  EXPECT_EQ(clock.time(Thread::kWorker), Time{156});
  EXPECT_EQ(clock.next_round(), Time{176});
}

TEST(VirtualClock, RunsEveryRoundThatIsDueAtItsTime) {
  VirtualClock clock(kCosts);
  clock.wake();
  std::vector<Time> begins;
  clock.run_rounds(Time{100}, [&] {
    clock.begin_round();
    begins.push_back(clock.now());
    clock.end_round(Time{40});
  });
  EXPECT_EQ(begins, (std::vector<Time>{Time{6}, Time{47}, Time{88}}));
}

TEST(VirtualClock, AWaitWakesTheWorkerAndLastsAsLongAsItsRound) {
  VirtualClock clock(kCosts);
  clock.charge(Time{100});
  clock.begin_call();
  run_round(clock, Time{50}, Time{0});
  EXPECT_TRUE(clock.waited_in_call());
  EXPECT_EQ(clock.time(Thread::kProgram), Time{156});
  // The worker goes on at once.
  run_round(clock, Time{50}, Time{0});
  EXPECT_EQ(clock.time(Thread::kProgram), Time{207});
}

TEST(VirtualClock, AWaitBehindABusyWorkerWaitsForItFirst) {
  VirtualClock clock(kCosts);
  clock.wake();
  clock.advance_to(Time{10});
  clock.run_rounds(Time{10}, [&] { run_round(clock, Time{500}, Time{0}); });
  clock.begin_call();
  run_round(clock, Time{50}, Time{0});
  EXPECT_EQ(clock.time(Thread::kProgram), Time{6 + 500 + 51});
}

TEST(VirtualClock, AWaitThatARoundDidNotEndSleepsThroughTheWorkersRest) {
  VirtualClock clock(kCosts);
  clock.begin_call();
  run_round(clock, Time{0}, Time{200});
  run_round(clock, Time{0}, Time{0});
  EXPECT_EQ(clock.time(Thread::kProgram), Time{6 + 200 + 1});
}

TEST(VirtualClock, AWaitSleepsNoLongerThanItsSlice) {
  VirtualClock clock(kCosts);
  clock.begin_call();
  run_round(clock, Time{0}, Time{1'000'000});
  run_round(clock, Time{0}, Time{0});
  EXPECT_EQ(clock.time(Thread::kProgram), Time{6 + 1000 + 1});
}

TEST(VirtualClock, NeverRunsBackwards) {
  VirtualClock clock(kCosts);
  clock.charge(Time{100});
  clock.advance_to(Time{50});
  EXPECT_EQ(clock.now(), Time{100});
  const auto before = clock.time_point();
  clock.begin_call();
  run_round(clock, Time{10}, Time{0});
  clock.wake();
  EXPECT_GE(clock.next_round(), clock.time(Thread::kWorker));
  EXPECT_GT(clock.time_point(), before);
}

TEST(VirtualClock, TheStockerHasATimeOfItsOwn) {
  VirtualClock clock(kCosts);
  VirtualClock::Stocker& stocker = clock.stocker();
  clock.charge(Time{100});
  clock.wake();
  clock.advance_to(Time{300});
  std::vector<Time> stocked;
  const auto worker_round = [&] {
    clock.begin_round();
    clock.charge(Time{50});
    if (stocked.empty()) stocker.wake();
    clock.end_round(Time{1000});
  };
  const auto stocker_round = [&] {
    stocker.begin_round();
    stocked.push_back(clock.now());
    clock.charge(Time{400});
    stocker.end_round(Time{1000});
  };
  clock.run_rounds(Time{300}, worker_round, stocker_round);
  EXPECT_EQ(stocked, std::vector<Time>{Time{162}}) << "105 + 1 + 50, woken after 5, and 1";
  EXPECT_EQ(clock.time(Thread::kWorker), Time{156});
  EXPECT_EQ(clock.time(Thread::kStocker), Time{562});
  EXPECT_EQ(clock.time(Thread::kProgram), Time{300});
  EXPECT_EQ(stocker.next_round(), Time{1562});
}

}  // namespace
}  // namespace superpipe::virtual_time
