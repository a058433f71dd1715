// What processes of one user reserve together.
#include "residency/host/host_ledger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "profiler/process_identity.h"
#include "tests/residency/host_ledger_fixture.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HostLedgerTest, AdmitsUpToTheCapAndNoFurther) {
  const auto ledger = join(cap(16_MiB));
  EXPECT_TRUE(ledger->take(10_MiB));
  EXPECT_FALSE(ledger->take(7_MiB));
  EXPECT_TRUE(ledger->take(6_MiB));
  EXPECT_FALSE(ledger->take(Bytes{1}));
  ledger->give_back(10_MiB);
  EXPECT_TRUE(ledger->take(9_MiB));
  EXPECT_FALSE(ledger->take(Bytes{~std::uint64_t{0}}));
}

TEST_F(HostLedgerTest, IsForItsUserAloneAndGoneWithTheLastProcess) {
  const ::mode_t before = ::umask(0);
  auto ledger = join(cap(16_MiB));
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  auto process = other(cap(16_MiB), 1_MiB);
  ledger.reset();
  EXPECT_TRUE(has_file()) << "another one is there";
  process->kill();
  ledger = join(cap(16_MiB));
  ledger.reset();
  EXPECT_FALSE(has_file());
}

TEST_F(HostLedgerTest, ProcessesShareTheFirstOnesCap) {
  const auto process = other(cap(16_MiB), 10_MiB);
  const auto ledger = join(cap(1_GiB));
  EXPECT_EQ(ledger->room(), 6_MiB);
  EXPECT_FALSE(ledger->take(7_MiB));
  ASSERT_TRUE(ledger->last_refusal().has_value());
  EXPECT_EQ(ledger->last_refusal()->others, 10_MiB);
  EXPECT_EQ(ledger->last_refusal()->cap, 16_MiB);
  EXPECT_TRUE(ledger->take(6_MiB));
  EXPECT_EQ(ledger->room(), Bytes{});
}

TEST_F(HostLedgerTest, TheFirstAfterAllOthersSetsTheCapAnew) {
  auto process = other(cap(16_MiB), 10_MiB);
  process->kill();
  const auto ledger = join(cap(32_MiB));
  EXPECT_TRUE(ledger->take(32_MiB));
}

TEST_F(HostLedgerTest, WhatADeadProcessHadIsFreeWhenItIsNeeded) {
  auto process = other(cap(16_MiB), 10_MiB);
  const auto ledger = join(cap(16_MiB));
  EXPECT_FALSE(ledger->take(7_MiB));
  process->kill();
  EXPECT_EQ(ledger->room(), 16_MiB);
  EXPECT_TRUE(ledger->take(16_MiB));
}

TEST_F(HostLedgerTest, AZombieHasNothing) {
  auto process = other(cap(16_MiB), 10_MiB);
  process->leave_a_zombie();
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(HostLedgerTest, AProcessOfTheSameIdIsAnotherOne) {
  const auto process = other(cap(16_MiB), 10_MiB);
  write_at(kEntriesAt + 8, read_at(kEntriesAt + 8) + 1);  // its start time
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(HostLedgerTest, EachControlGroupHasACapBelowThatOfTheHost) {
  const auto in_seven = other({.host = 32_MiB, .group = 7, .in_group = 8_MiB}, 5_MiB);
  const auto in_eight = other({.host = 32_MiB, .group = 8, .in_group = 16_MiB}, 16_MiB);
  {
    const auto ledger = join({.host = 32_MiB, .group = 7, .in_group = 32_MiB});
    EXPECT_EQ(ledger->room(), 3_MiB) << "the cap of its group's first process";
    EXPECT_FALSE(ledger->take(4_MiB));
    EXPECT_EQ(ledger->last_refusal()->others, 5_MiB);
    EXPECT_EQ(ledger->last_refusal()->cap, 8_MiB);
    EXPECT_TRUE(ledger->take(3_MiB));
  }
  const auto ledger = join(cap(1_GiB));
  EXPECT_EQ(ledger->room(), 11_MiB) << "what the host has left";
  EXPECT_FALSE(ledger->take(12_MiB));
  EXPECT_EQ(ledger->last_refusal()->others, 21_MiB);
  EXPECT_EQ(ledger->last_refusal()->cap, 32_MiB);
}

TEST_F(HostLedgerTest, CapsRiseWhereTheHostHasMoreByNow) {
  const auto ledger = join(cap(16_MiB));
  ASSERT_TRUE(ledger->take(16_MiB));
  EXPECT_FALSE(ledger->take(4_MiB, cap(16_MiB)));
  EXPECT_TRUE(ledger->take(4_MiB, cap(60_MiB)));
  EXPECT_EQ(ledger->room(), 40_MiB);
  EXPECT_FALSE(ledger->take(44_MiB, cap(Bytes{}))) << "and never fall";
  EXPECT_EQ(ledger->last_refusal()->cap, 60_MiB);
  EXPECT_TRUE(ledger->take(40_MiB));
}

TEST_F(HostLedgerTest, CapsRiseWhereThatHelpsAlone) {
  const auto ledger = join({.host = 32_MiB, .group = 7, .in_group = 16_MiB});
  const auto elsewhere = join(cap(1_GiB));
  EXPECT_FALSE(ledger->take(2_GiB, HostCaps{1_GiB, 7, 1_GiB}));
  EXPECT_FALSE(ledger->take(40_MiB, HostCaps{1_GiB, 7, 20_MiB})) << "the group has no more";
  EXPECT_EQ(ledger->room(), 16_MiB);
  EXPECT_EQ(elsewhere->room(), 32_MiB);
  EXPECT_TRUE(ledger->take(20_MiB, HostCaps{1_GiB, 7, 20_MiB}));
  EXPECT_EQ(elsewhere->room(), 12_MiB) << "the host's cap was not in the way";
}

TEST_F(HostLedgerTest, ProcessesShareTheCapThatOneOfThemHasRaised) {
  const auto process = other(cap(16_MiB), 10_MiB);
  const auto ledger = join(cap(16_MiB));
  EXPECT_FALSE(ledger->take(24_MiB, cap(30_MiB))) << "the other one has 10";
  EXPECT_TRUE(ledger->take(16_MiB, cap(30_MiB)));
  const auto later = join(cap(16_MiB));
  EXPECT_TRUE(later->take(3_MiB));
  EXPECT_FALSE(later->take(2_MiB));
}

TEST_F(HostLedgerTest, AControlGroupsCapRisesForAllOfIt) {
  const HostCaps seven{1_GiB, 7, 16_MiB};
  const HostCaps eight{1_GiB, 8, 16_MiB};
  const auto in_seven = other(seven, 10_MiB);
  const auto in_eight = other(eight, 10_MiB);
  const auto ledger = join(seven);
  EXPECT_FALSE(ledger->take(24_MiB, HostCaps{1_GiB, 7, 30_MiB}));
  EXPECT_FALSE(ledger->take(16_MiB, HostCaps{1_GiB, 8, 30_MiB})) << "it is in another one now";
  EXPECT_TRUE(ledger->take(16_MiB, HostCaps{1_GiB, 7, 30_MiB}));
  const auto same = join(seven);
  EXPECT_TRUE(same->take(3_MiB));
  EXPECT_FALSE(same->take(2_MiB));
  const auto other_group = join(eight);
  EXPECT_TRUE(other_group->take(5_MiB));
  EXPECT_FALSE(other_group->take(2_MiB));
}

TEST_F(HostLedgerTest, LeavingGivesBackAndIsTheEnd) {
  const auto first = join(cap(16_MiB));
  ASSERT_TRUE(first->take(16_MiB));
  const auto process = other(cap(16_MiB), Bytes{});
  first->leave();
  EXPECT_FALSE(first->take(Bytes{1}));
  first->give_back(16_MiB);
  const auto second = join(cap(16_MiB));
  EXPECT_EQ(second->room(), 16_MiB);
}

TEST_F(HostLedgerTest, AForkedChildNeitherCountsNorRemovesItsParent) {
  auto ledger = join(cap(16_MiB));
  ASSERT_TRUE(ledger->take(10_MiB));
  const OtherProcess child([&] {
    EXPECT_FALSE(ledger->take(Bytes{1}));
    ledger->give_back(10_MiB);
    ledger->leave();
    ledger.reset();
  });
  EXPECT_EQ(ledger->room(), 6_MiB);
  const auto process = other(cap(16_MiB), 6_MiB);
  EXPECT_FALSE(ledger->take(Bytes{1}));
}

TEST_F(HostLedgerTest, WhatAProcessWasBeforeAnExecIsRemoved) {
  HostLedger::remove_former(folder_);
  EXPECT_FALSE(has_file());
  auto former = join(cap(16_MiB));
  ASSERT_TRUE(former->take(10_MiB));
  const auto process = other(cap(16_MiB), 1_MiB);
  HostLedger::remove_former(folder_);
  const auto next = other(cap(16_MiB), 15_MiB);
}

// A process that writes beyond the limit gets a signal (SIGXFSZ), which ends it.
TEST_F(HostLedgerTest, LeavesNothingWhereTheProcessMayNotWriteSoLargeAFile) {
  const OtherProcess limited([&] {
    for (const rlim_t room : {rlim_t{0}, rlim_t{1000}}) {
      rlimit small{};
      ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &small), 0);
      small.rlim_cur = room;
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
      std::string problem;
      EXPECT_EQ(HostLedger::join(cap(16_MiB), folder_, problem), nullptr);
      EXPECT_THAT(problem, StartsWith(path() + ": File too large; "));
      EXPECT_FALSE(has_file());
    }
  });
  EXPECT_NE(join(cap(16_MiB)), nullptr);
}

// A folder that hosts share, such as a home folder: their first pid namespaces have one inode.
TEST_F(HostLedgerTest, IsOfThisStartOfThisMachine) {
  EXPECT_EQ(path(), folder_ + "/superpipe-host-" + std::to_string(::geteuid()) + "-" +
                        boot_in("/proc/sys/kernel/random/boot_id") + "-" +
                        std::to_string(own_pid_namespace()));
}

TEST_F(HostLedgerTest, MostCallsTouchNoFile) {
  const auto ledger = join(cap(1_GiB));  // steps of 1 MiB
  ASSERT_TRUE(ledger->take(4_KiB));
  EXPECT_EQ(read_at(kEntriesAt + 32), (1_MiB).count());
  const auto written = std::filesystem::last_write_time(path());
  for (int i = 0; i < 255; ++i) ASSERT_TRUE(ledger->take(4_KiB));
  EXPECT_EQ(std::filesystem::last_write_time(path()), written);
  ASSERT_TRUE(ledger->take(4_KiB));
  EXPECT_EQ(read_at(kEntriesAt + 32), (2_MiB).count());
  ASSERT_TRUE(ledger->take(8_MiB));
  ledger->give_back(9_MiB);
  EXPECT_EQ(read_at(kEntriesAt + 32), (1_MiB).count());
}

TEST_F(HostLedgerTest, AnEntryThatIsLostWithTheFileIsWrittenAnew) {
  const auto ledger = join(cap(16_MiB));
  ASSERT_TRUE(ledger->take(10_MiB));
  std::filesystem::remove(path());
  const auto process = other(cap(16_MiB), 2_MiB);
  EXPECT_FALSE(ledger->take(5_MiB));
  EXPECT_EQ(join(cap(16_MiB))->room(), 4_MiB);
}

TEST_F(HostLedgerTest, AStoppedProcessThatHoldsTheLockHangsNobodyAndCountsLater) {
  // Each look at the clock takes a millisecond of it.
  HostLedger::Clock::time_point time;
  std::string problem;
  const auto tick = [&time] { return time += std::chrono::milliseconds{1}; };
  const auto ledger = HostLedger::join(cap(16_MiB), folder_, problem, HostLedger::kPatience, tick);
  ASSERT_NE(ledger, nullptr) << problem;
  ASSERT_TRUE(ledger->take(1_MiB));
  auto process = std::make_unique<OtherProcess>([&] {
    const int file = ::open(path().c_str(), O_RDWR);
    ASSERT_EQ(::flock(file, LOCK_EX), 0);
  });
  process->stop();
  // Admitted without the table. Each call would wait 0.1 s, were the file not left alone.
  const auto begun = time;
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(ledger->take(100_KiB));
  EXPECT_LT(time - begun, std::chrono::seconds{1});
  const auto joined = join(cap(16_MiB));
  EXPECT_NE(joined, nullptr) << problem_;
  process->kill();
  time += HostLedger::kPause;
  EXPECT_FALSE(ledger->take(1_MiB));
  EXPECT_GE(read_at(kEntriesAt + 32), (1_MiB + 200 * 100_KiB).count());
}

TEST_F(HostLedgerTest, AFullTableHasRoomAgainWhenAProcessHasDied) {
  const auto process = other(cap(16_MiB), Bytes{});
  const auto start = start_time_of(process->pid());
  for (std::size_t i = 1; i < HostLedger::kSlots; ++i) {
    const long at = kEntriesAt + static_cast<long>(i) * kEntryBytes;
    write_at(at, static_cast<std::uint64_t>(process->pid()));
    write_at(at + 8, *start);
  }
  EXPECT_EQ(join(cap(16_MiB)), nullptr);
  EXPECT_THAT(problem_, HasSubstr("100 processes"));
  write_at(kEntriesAt + 99 * kEntryBytes + 8, 1);
  EXPECT_NE(join(cap(16_MiB)), nullptr);
}

}  // namespace
}  // namespace superpipe
