// What processes of one user reserve together.
#include "residency/host_ledger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/process_identity.h"

namespace superpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Offsets in the file: its layout must stay what other processes read.
constexpr long kVersionAt = 8;
constexpr long kCapAt = 16;
constexpr long kEntriesAt = 64;
constexpr long kEntryBytes = 40;

/// Another process, which lives until it is told to end or is killed.
class Other {
 public:
  /// Runs `body` in a child, which then says so, and waits.
  explicit Other(const std::function<void()>& body) {
    int said[2];
    int told[2];
    if (::pipe(said) != 0 || ::pipe(told) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      body();
      const char has_failed = ::testing::Test::HasFailure() ? 1 : 0;
      (void)!::write(said[1], &has_failed, 1);
      ::close(told[1]);
      char byte = 0;
      (void)!::read(told[0], &byte, 1);
      ::_exit(0);
    }
    ::close(said[1]);
    ::close(told[0]);
    tell_ = told[1];
    char has_failed = 1;
    EXPECT_EQ(::read(said[0], &has_failed, 1), 1);
    EXPECT_EQ(has_failed, 0) << "in the other process";
    ::close(said[0]);
  }
  ~Other() { end(SIGKILL); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void kill() { end(SIGKILL); }
  /// Kills it and does not wait for it, so that it is a zombie.
  void leave_a_zombie() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    ::close(tell_);
    pid_ = 0;
  }

  int pid_ = 0;
  int tell_ = -1;
};

class HostLedgerTest : public ::testing::Test {
 protected:
  HostLedgerTest() {
    char name[] = "/tmp/host-ledger-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~HostLedgerTest() override { std::filesystem::remove_all(folder_); }

  static HostCaps cap(Bytes host) { return {.host = host}; }
  [[nodiscard]] std::string path() const { return host_ledger_path(::geteuid(), folder_); }
  std::unique_ptr<HostLedger> join(const HostCaps& caps) {
    problem_.clear();
    auto ledger = HostLedger::join(caps, folder_, problem_);
    EXPECT_EQ(ledger == nullptr, !problem_.empty()) << problem_;
    return ledger;
  }
  /// Another process that has joined and taken `bytes`.
  std::unique_ptr<Other> other(const HostCaps& caps, Bytes bytes) {
    return std::make_unique<Other>([&] {
      std::string problem;
      auto ledger = HostLedger::join(caps, folder_, problem);
      ASSERT_NE(ledger, nullptr) << problem;
      EXPECT_TRUE(ledger->take(bytes));
      (void)ledger.release();
    });
  }
  void write_at(long offset, std::uint64_t value) const {
    const int file = ::open(path().c_str(), O_RDWR);
    ASSERT_EQ(::pwrite(file, &value, sizeof value, offset), 8);
    ::close(file);
  }
  [[nodiscard]] std::uint64_t read_at(long offset) const {
    std::uint64_t value = 0;
    const int file = ::open(path().c_str(), O_RDONLY);
    (void)!::pread(file, &value, sizeof value, offset);
    ::close(file);
    return value;
  }
  [[nodiscard]] bool has_file() const { return ::access(path().c_str(), F_OK) == 0; }

  std::string folder_;
  std::string problem_;
};

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
  const Other child([&] {
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
  auto ledger = join(cap(16_MiB));
  ASSERT_TRUE(ledger->take(1_MiB));
  auto process = std::make_unique<Other>([&] {
    const int file = ::open(path().c_str(), O_RDWR);
    ASSERT_EQ(::flock(file, LOCK_EX), 0);
  });
  process->stop();
  // Admitted without the table, all in much less than a second though each call would wait 0.1 s.
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(ledger->take(100_KiB));
  const auto joined = join(cap(16_MiB));
  EXPECT_NE(joined, nullptr) << problem_;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{10});
  process->kill();
  std::this_thread::sleep_for(HostLedger::kPause);
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

/// What stands where the ledger should be, before anybody joins.
class BadHostLedgerTest : public HostLedgerTest {
 protected:
  void write_file(const std::string& content) const {
    std::ofstream(path(), std::ios::binary) << content;
    ::chmod(path().c_str(), 0600);
  }
  void expect_refused(const std::string& why) {
    EXPECT_EQ(join(cap(16_MiB)), nullptr);
    EXPECT_THAT(problem_, HasSubstr(path() + ": " + why));
  }
};

TEST_F(BadHostLedgerTest, IsRefusedWhereOthersMayOpenIt) {
  write_file("");
  ::chmod(path().c_str(), 0644);
  expect_refused("other users may open it");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsAnotherUsers) {
  write_file("");
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(why_not_alone(status, ::geteuid()), "");
  EXPECT_EQ(why_not_alone(status, ::geteuid() + 1), "it belongs to another user");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsALink) {
  const std::string target = folder_ + "/target";
  std::ofstream(target) << "";
  ::chmod(target.c_str(), 0600);
  std::filesystem::create_symlink(target, path());
  expect_refused("it is a link");
  EXPECT_EQ(std::filesystem::file_size(target), 0U);
  std::filesystem::remove(path());
  std::filesystem::create_hard_link(target, path());
  expect_refused("it has a second name");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsNoFile) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_refused("it is no regular file");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_refused("");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereItIsNoLedger) {
  write_file("short");
  expect_refused("it is no ledger");
  write_file(std::string(4096, 'x'));
  expect_refused("it is no ledger");
}

TEST_F(BadHostLedgerTest, IsRefusedWhereThereIsNoFolder) {
  std::filesystem::remove_all(folder_);
  expect_refused("No such file");
}

TEST_F(BadHostLedgerTest, AnEmptyOneIsAsGoodAsNone) {
  write_file("");
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(BadHostLedgerTest, AnotherVersionsIsUsedOnlyWhenNobodyElseDoes) {
  auto process = other(cap(16_MiB), 1_MiB);
  write_at(kVersionAt, read_at(kVersionAt) + 1);
  expect_refused("processes of another version");
  process->kill();
  EXPECT_TRUE(join(cap(32_MiB))->take(32_MiB));
}

TEST_F(BadHostLedgerTest, AnEntryOfMoreBytesThanThereAreIsNone) {
  const auto process = other(cap(16_MiB), 10_MiB);
  write_at(kEntriesAt + 32, ~std::uint64_t{0});
  EXPECT_TRUE(join(cap(16_MiB))->take(16_MiB));
}

TEST_F(BadHostLedgerTest, ACapOfMoreBytesThanThereAreIsNone) {
  const auto process = other(cap(16_MiB), 10_MiB);
  write_at(kCapAt, ~std::uint64_t{0});
  write_at(kEntriesAt + 24, ~std::uint64_t{0});
  const auto ledger = join(cap(16_MiB));
  EXPECT_TRUE(ledger->take(1_GiB));
  EXPECT_FALSE(ledger->take(HostCaps::kNone));
}

TEST_F(BadHostLedgerTest, AFileThatIsBrokenLaterIsDoneWithout) {
  const auto ledger = join(cap(16_MiB));
  write_file("short");
  EXPECT_TRUE(ledger->take(32_MiB));
  EXPECT_EQ(ledger->room(), std::nullopt);
  ledger->give_back(32_MiB);
}

TEST_F(BadHostLedgerTest, NoBytesCrashIt) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const auto process = join(cap(16_MiB));
    for (int j = 0; j < 20; ++j) {
      write_at(static_cast<long>(random() % 511) * 8, random() >> (random() % 64));
    }
    const auto ledger = join(cap(16_MiB));
    for (HostLedger* const one : {process.get(), ledger.get()}) {
      if (one == nullptr) continue;
      (void)one->take(Bytes{random() >> (random() % 64)});
      (void)one->room();
      one->give_back(Bytes{random() >> (random() % 64)});
      (void)one->last_refusal();
    }
    std::filesystem::remove(path());
  }
}

/// Several processes at the same time, none of which is impatient: on a busy machine a holder of
/// the lock may be interrupted for long.
class CrowdedHostLedgerTest : public HostLedgerTest {
 protected:
  static constexpr std::chrono::seconds kPatient{60};

  std::unique_ptr<HostLedger> join_patiently() {
    return HostLedger::join(cap(16_MiB), folder_, problem_, kPatient);
  }
  /// Runs `body` in four processes; each must return 0.
  static void run(const std::function<int(std::mt19937_64& random)>& body) {
    std::vector<int> children;
    for (unsigned i = 0; i < 4; ++i) {
      const int pid = ::fork();
      if (pid == 0) {
        std::mt19937_64 random(i);
        ::_exit(body(random));
      }
      children.push_back(pid);
    }
    for (const int pid : children) {
      int status = -1;
      ::waitpid(pid, &status, 0);
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
  }
  /// What all entries say together at one moment.
  [[nodiscard]] std::uint64_t sum() const {
    const int file = ::open(path().c_str(), O_RDONLY);
    char table[4096] = {};
    ::flock(file, LOCK_EX);
    (void)!::pread(file, table, sizeof table, 0);
    ::close(file);
    std::uint64_t sum = 0;
    for (std::size_t slot = 0; slot < HostLedger::kSlots; ++slot) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, table + kEntriesAt + slot * kEntryBytes + 32, sizeof bytes);
      sum += bytes;
    }
    return sum;
  }
};

TEST_F(CrowdedHostLedgerTest, ProcessesSideBySideNeverExceedTheCap) {
  const auto keeper = other(cap(16_MiB), Bytes{});
  run([&](std::mt19937_64& random) {
    const auto ledger = join_patiently();
    Bytes mine;
    bool was_refused = false;
    for (int step = 0; step < 2000; ++step) {
      const Bytes size{(random() % 1024) << 10};
      if (ledger->take(size)) {
        mine += size;
      } else {
        was_refused = true;
        ledger->give_back(std::exchange(mine, Bytes{}));
      }
      if (sum() > (16_MiB).count()) return 1;
    }
    return was_refused ? 0 : 2;
  });
}

TEST_F(CrowdedHostLedgerTest, WhoWaitsForAFileThatIsRemovedMeanwhileJoinsTheNextOne) {
  const auto ledger = join(cap(16_MiB));
  const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  const int pid = ::fork();
  if (pid == 0) {
    const auto joined = join_patiently();
    ::_exit(joined != nullptr && has_file() ? 0 : 1);
  }
  const auto has_opened_it = [&] {
    std::error_code gone;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      const int descriptor = std::stoi(entry.path().filename().string());
      if (descriptor != file && std::filesystem::read_symlink(entry, gone) == path()) return true;
    }
    return false;
  };
  while (!has_opened_it()) std::this_thread::yield();
  std::filesystem::remove(path());
  ::flock(file, LOCK_UN);
  ::close(file);
  int status = -1;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(CrowdedHostLedgerTest, ProcessesThatComeAndGoNeverExceedTheCap) {
  void* const shared = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& holders = *new (shared) std::atomic<int>{0};
  run([&](std::mt19937_64& /*random*/) {
    for (int step = 0; step < 1000; ++step) {
      const auto ledger = join_patiently();
      if (ledger == nullptr) return 1;
      if (!ledger->take(10_MiB)) continue;
      if (holders.fetch_add(1) != 0) return 2;
      holders.fetch_sub(1);
    }
    return 0;
  });
  ::munmap(shared, sizeof(std::atomic<int>));
  EXPECT_FALSE(has_file());
}

}  // namespace
}  // namespace superpipe
