// What two processes see of each other in shared memory.
#include "profiler/live_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "profiler/live_process.h"
#include "profiler/process_identity.h"
#include "profiler/shared_folder.h"
#include "tests/hang_limit.h"
#include "tests/temporary_folder.h"

namespace {

int allocation_error = 0;  // what the file system answers who asks for room; 0: as it is

}  // namespace

// In place of the C library's.
extern "C" int posix_fallocate(int file, off_t offset, off_t size) {
  return allocation_error != 0 ? allocation_error : ::posix_fallocate64(file, offset, size);
}

namespace superpipe {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr milliseconds kLong = testing::kHangLimit;

/// A folder that stands for /dev/shm, so that tests see no other process's segments.
class LiveSegmentTest : public ::testing::Test {
 protected:
  LiveSegmentTest() { folder_ = make_temporary_folder("live-segment"); }
  ~LiveSegmentTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LiveSegment> create(BudgetAnswer refusal = BudgetAnswer::kChanged) {
    std::string problem;
    auto segment = LiveSegment::create({PolicyKind::kAuto, 16_GiB, refusal}, problem, folder_);
    EXPECT_THAT(problem, IsEmpty());
    return segment;
  }
  [[nodiscard]] std::string path(int pid = ::getpid()) const {
    return live_segment_path(::geteuid(), pid, folder_);
  }
  [[nodiscard]] std::variant<LiveProcess, LiveProblem> open(int pid = ::getpid()) const {
    return LiveProcess::open(pid, folder_);
  }
  [[nodiscard]] LiveProblem problem_of(int pid = ::getpid()) const {
    const auto opened = open(pid);
    const auto* const problem = std::get_if<LiveProblem>(&opened);
    EXPECT_NE(problem, nullptr) << "it could be opened";
    return problem == nullptr ? LiveProblem::kUnreadable : *problem;
  }
  /// Runs `body` in a child and waits for its end. @return the child's id and exit code.
  static std::pair<int, int> in_child(const std::function<void()>& body) {
    const int pid = ::fork();
    if (pid == 0) {
      body();
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return {pid, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  }
  void write_at(const std::string& file, long offset, std::uint32_t value) {
    std::FILE* const stream = std::fopen(file.c_str(), "r+b");
    ASSERT_NE(stream, nullptr);
    std::fseek(stream, offset, SEEK_SET);
    std::fwrite(&value, sizeof value, 1, stream);
    std::fclose(stream);
  }

  std::string folder_;
};

TEST_F(LiveSegmentTest, IsForItsUserAloneAndGoneAfterItsOwner) {
  auto segment = create();
  ASSERT_NE(segment, nullptr);
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  segment.reset();
  EXPECT_NE(::stat(path().c_str(), &status), 0);
}

TEST_F(LiveSegmentTest, AnotherProcessReadsWhatWasPublished) {
  const auto segment = create(BudgetAnswer::kCountsLayers);
  LiveFigures published{Bytes{1}, Bytes{2}, Bytes{3}, Bytes{4}};
  published.pinned_host = Bytes{5};
  published.launches = 6;
  published.stall_ns = 7;
  published.bound_ns = 8;
  published.k_prime = 9;
  published.layer_percent[0] = 10;
  published.layer_percent[kShownLayers - 1] = 100;
  segment->publish(published);
  const int parent = ::getpid();
  const auto [child, code] = in_child([&] {
    const auto opened = open(parent);
    ASSERT_TRUE(std::holds_alternative<LiveProcess>(opened));
    const auto& process = std::get<LiveProcess>(opened);
    EXPECT_EQ(process.pid(), parent);
    EXPECT_TRUE(process.is_running());
    EXPECT_EQ(process.description().policy, PolicyKind::kAuto);
    EXPECT_EQ(process.description().device_total, 16_GiB);
    EXPECT_EQ(process.description().refusal, BudgetAnswer::kCountsLayers);
    EXPECT_EQ(process.figures(), published);
  });
  EXPECT_EQ(code, 0);
}

TEST_F(LiveSegmentTest, ARequestIsAnsweredAcrossProcesses) {
  const auto segment = create();
  EXPECT_FALSE(segment->next_request().has_value());
  const int parent = ::getpid();
  const int child = ::fork();
  if (child == 0) {
    auto opened = open(parent);
    BudgetAnswer answer = BudgetAnswer::kEnded;
    auto& process = std::get<LiveProcess>(opened);
    const bool right = process.request(3_GiB, kLong, answer) == LiveProcess::Outcome::kAnswered &&
                       answer == BudgetAnswer::kTooSmall && process.figures()->pages == Bytes{7};
    ::_exit(right ? 0 : 1);
  }
  std::optional<LiveSegment::Request> request;
  while (!(request = segment->next_request())) segment->wait_for_request(kLong);
  EXPECT_EQ(request->budget, 3_GiB);
  segment->publish({Bytes{}, Bytes{}, Bytes{7}, Bytes{}});
  segment->answer(*request, BudgetAnswer::kTooSmall);
  EXPECT_FALSE(segment->next_request().has_value());
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(LiveSegmentTest, ARequestForFiguresNamesNoBudget) {
  const auto segment = create();
  auto opened = open();
  BudgetAnswer answer{};
  auto& process = std::get<LiveProcess>(opened);
  EXPECT_EQ(process.request(std::nullopt, milliseconds{1}, answer),
            LiveProcess::Outcome::kTimedOut);
  const auto request = segment->next_request();
  ASSERT_TRUE(request.has_value());
  EXPECT_FALSE(request->budget.has_value());
}

TEST_F(LiveSegmentTest, ARequestForFiguresDoesNotTakeABudgetBack) {
  const auto segment = create();
  auto opened = open();
  BudgetAnswer answer{};
  auto& process = std::get<LiveProcess>(opened);
  EXPECT_EQ(process.request(2_GiB, milliseconds{1}, answer), LiveProcess::Outcome::kTimedOut);
  const auto asked = process.ask();
  ASSERT_TRUE(asked.has_value());
  const auto request = segment->next_request();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->budget, 2_GiB);
  EXPECT_FALSE(process.has_answered(*asked));
  segment->answer(*request, BudgetAnswer::kChanged);
  EXPECT_TRUE(process.has_answered(*asked));
  EXPECT_FALSE(segment->next_request().has_value());
}

TEST_F(LiveSegmentTest, FiguresAreAskedForWhileABudgetIsAwaited) {
  const auto segment = create();
  auto opened = open();
  auto& process = std::get<LiveProcess>(opened);
  ASSERT_EQ(process.ask_budget(1_GiB), LiveProcess::Outcome::kAnswered);
  EXPECT_EQ(process.budget_answer(), std::nullopt);
  auto other = open();
  EXPECT_EQ(std::get<LiveProcess>(other).ask_budget(2_GiB), LiveProcess::Outcome::kBusy);
  const auto asked = std::get<LiveProcess>(other).ask();
  ASSERT_TRUE(asked.has_value());
  const auto request = segment->next_request();
  ASSERT_TRUE(request.has_value());
  segment->answer(*request, BudgetAnswer::kTooSmall);
  EXPECT_TRUE(std::get<LiveProcess>(other).has_answered(*asked));
  EXPECT_EQ(process.budget_answer(), BudgetAnswer::kTooSmall);
  EXPECT_EQ(process.budget_answer(), std::nullopt) << "it was taken";
  EXPECT_EQ(std::get<LiveProcess>(other).ask_budget(2_GiB), LiveProcess::Outcome::kAnswered);
}

TEST_F(LiveSegmentTest, FiguresOfTwoMomentsAreNotMixed) {
  const auto segment = create();
  auto opened = open();
  const auto& process = std::get<LiveProcess>(opened);
  std::atomic<bool> ended{false};
  std::thread publisher([&] {
    LiveFigures figures{};
    while (!ended) {
      figures.budget = Bytes{figures.launches};
      figures.errors = figures.launches++;
      segment->publish(figures);
      ::usleep(20);  // so that there is mostly a whole set to be seen
    }
  });
  for (int seen = 0; seen < 2000;) {
    // A publisher that is interrupted half-way leaves nothing to be seen for as long.
    const auto figures = process.figures();
    if (!figures.has_value()) {
      std::this_thread::yield();
      continue;
    }
    ++seen;
    EXPECT_EQ(figures->budget.count(), figures->errors);
  }
  ended = true;
  publisher.join();
}

TEST_F(LiveSegmentTest, ALateAnswerToAnEarlierRequestIsNotTakenForTheNewOne) {
  const auto segment = create();
  auto opened = open();
  auto& process = std::get<LiveProcess>(opened);
  BudgetAnswer answer{};
  ASSERT_EQ(process.request(1_GiB, milliseconds{1}, answer), LiveProcess::Outcome::kTimedOut);
  const auto first = segment->next_request();
  ASSERT_TRUE(first.has_value());
  ASSERT_EQ(process.request(2_GiB, milliseconds{1}, answer), LiveProcess::Outcome::kTimedOut);
  segment->answer(*first, BudgetAnswer::kChanged);
  const auto second = segment->next_request();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->budget, 2_GiB);
}

TEST_F(LiveSegmentTest, OneRequestAtATime) {
  const auto segment = create();
  std::thread first([this] {
    auto opened = open();
    BudgetAnswer answer{};
    EXPECT_EQ(std::get<LiveProcess>(opened).request(1_GiB, kLong, answer),
              LiveProcess::Outcome::kAnswered);
  });
  std::optional<LiveSegment::Request> request;
  while (!(request = segment->next_request())) segment->wait_for_request(kLong);
  auto opened = open();
  BudgetAnswer answer{};
  EXPECT_EQ(std::get<LiveProcess>(opened).request(2_GiB, milliseconds{5}, answer),
            LiveProcess::Outcome::kBusy);
  segment->answer(*request, BudgetAnswer::kChanged);
  first.join();
}

TEST_F(LiveSegmentTest, AnInterruptEndsAWaitThatIsAboutToBegin) {
  const auto segment = create();
  segment->interrupt();
  segment->wait_for_request(kLong);  // the test's time limit would end it
  EXPECT_TRUE(segment->next_request().has_value());
}

TEST_F(LiveSegmentTest, AForkedChildLeavesItsParentsSegment) {
  auto segment = create();
  const auto [child, code] = in_child([&] { segment.reset(); });
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(std::holds_alternative<LiveProcess>(open()));
  EXPECT_EQ(problem_of(child), LiveProblem::kNoSuchProcess);
}

TEST_F(LiveSegmentTest, WhatAKilledProcessLeavesIsSweptByWhoeverLists) {
  const auto [child, code] = in_child([this] { (void)create().release(); });
  ASSERT_EQ(code, 0);
  ASSERT_TRUE(std::filesystem::exists(path(child)));
  EXPECT_THAT(list_live_processes(folder_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path(child)));
}

TEST_F(LiveSegmentTest, WhatAKilledProcessLeavesIsSweptByWhoeverCreates) {
  const auto [child, code] = in_child([this] { (void)create().release(); });
  ASSERT_TRUE(std::filesystem::exists(path(child)));
  const auto segment = create();
  EXPECT_FALSE(std::filesystem::exists(path(child)));
}

// The id of a dead process may be another process's now.
TEST_F(LiveSegmentTest, ASegmentWithAnotherStartTimeIsStale) {
  (void)create().release();
  write_at(path(), 24, 0);  // the start time
  EXPECT_EQ(problem_of(), LiveProblem::kNotManaged);
  EXPECT_THAT(list_live_processes(folder_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(LiveSegmentTest, ASegmentOfAnotherPidNamespaceIsLeftAlone) {
  const auto [child, code] = in_child([this] { (void)create().release(); });
  write_at(path(child), 32, 1);  // the namespace
  (void)list_live_processes(folder_);
  EXPECT_TRUE(std::filesystem::exists(path(child)));
}

TEST_F(LiveSegmentTest, AZombieIsDead) {
  const int child = ::fork();
  if (child == 0) {
    (void)create().release();
    ::_exit(0);
  }
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(problem_of(child), LiveProblem::kNotManaged);
  ::waitpid(child, nullptr, 0);
}

TEST_F(LiveSegmentTest, ListsWhatRuns) {
  const auto segment = create();
  const auto entries = list_live_processes(folder_);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].pid, ::getpid());
  EXPECT_TRUE(std::holds_alternative<LiveProcess>(entries[0].process));
}

TEST_F(LiveSegmentTest, AnotherVersionIsRefusedAndNotSwept) {
  const auto segment = create();
  write_at(path(), 8, 1);  // the version
  EXPECT_EQ(problem_of(), LiveProblem::kOtherVersion);
  EXPECT_EQ(list_live_processes(folder_).size(), 1U);
}

TEST_F(LiveSegmentTest, WhatIsNoSegmentIsNamedAsSuch) {
  std::ofstream(path()) << "short";
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
  std::ofstream(path()) << std::string(4096, 'x');
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
  EXPECT_EQ(list_live_processes(folder_).size(), 1U);
  ::unlink(path().c_str());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
}

TEST_F(LiveSegmentTest, WhatIsJustBeingMadeIsNotListed) {
  std::ofstream(path()) << "";
  EXPECT_EQ(problem_of(), LiveProblem::kNotManaged);
  std::ofstream(path()) << std::string(4096, '\0');
  EXPECT_EQ(problem_of(), LiveProblem::kNotManaged);
  EXPECT_THAT(list_live_processes(folder_), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(LiveSegmentTest, WhatADeadProcessDidNotFinishIsSwept) {
  const auto [child, code] = in_child([] {});
  std::ofstream(path(child)) << "";
  EXPECT_THAT(list_live_processes(folder_), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path(child)));
}

TEST_F(LiveSegmentTest, ASegmentThatLiesIsNamedAsSuch) {
  auto segment = create();
  write_at(path(), 16, 1);  // the process
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
  segment = create();
  write_at(path(), 40, 77);  // the policy
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
  segment = create();
  auto opened = open();
  ASSERT_TRUE(std::get<LiveProcess>(opened).figures().has_value());
  write_at(path(), 76, 0xFFFFFFFF);  // the upper half of what pages take
  EXPECT_EQ(std::get<LiveProcess>(opened).figures(), std::nullopt);
  segment = create();
  write_at(path(), 300, 101);  // the share of a layer
  EXPECT_EQ(problem_of(), LiveProblem::kDamaged);
}

// An access to a page beyond the end of a file would be a signal that ends the viewer.
TEST_F(LiveSegmentTest, ASegmentThatIsCutShortUnderAViewerEndsNobody) {
  const auto segment = create();
  auto opened = open();
  auto& process = std::get<LiveProcess>(opened);
  BudgetAnswer answer{};
  std::filesystem::resize_file(path(), 0);
  EXPECT_EQ(process.figures(), std::nullopt);
  EXPECT_EQ(process.ask(), std::nullopt);
  EXPECT_EQ(process.ask_budget(1_GiB), LiveProcess::Outcome::kEnded);
  EXPECT_EQ(process.request(1_GiB, kLong, answer), LiveProcess::Outcome::kEnded);
  EXPECT_EQ(process.request(std::nullopt, kLong, answer), LiveProcess::Outcome::kEnded);
  EXPECT_FALSE(process.has_answered(0));
  process.wait_for_answer(0, kLong);
}

// An access to a page beyond the end of a file would be a signal that ends the program.
TEST_F(LiveSegmentTest, ASegmentThatIsCutShortIsWrittenAnew) {
  LiveFigures figures{Bytes{1}, Bytes{2}, Bytes{3}, Bytes{4}};
  figures.launches = 5;
  const auto segment = create(BudgetAnswer::kCountsLayers);
  segment->publish(figures);
  const std::function<void()> calls[] = {
      [&] { segment->publish(figures); },
      [&] { EXPECT_FALSE(segment->next_request().has_value()); },
      [&] { segment->wait_for_request(milliseconds{1}); },
  };
  for (const std::uintmax_t size : {0, 100, 4095}) {
    for (const auto& call : calls) {
      std::filesystem::resize_file(path(), size);
      EXPECT_EQ(problem_of(), size == 0 ? LiveProblem::kNotManaged : LiveProblem::kDamaged);
      call();
      auto opened = open();
      ASSERT_TRUE(std::holds_alternative<LiveProcess>(opened)) << size;
      auto& process = std::get<LiveProcess>(opened);
      EXPECT_EQ(process.description().refusal, BudgetAnswer::kCountsLayers);
      EXPECT_EQ(process.figures(), figures);
      // It can be asked again.
      EXPECT_EQ(process.ask_budget(2_GiB), LiveProcess::Outcome::kAnswered);
      const auto request = segment->next_request();
      ASSERT_TRUE(request.has_value());
      EXPECT_EQ(request->budget, 2_GiB);
      segment->answer(*request, BudgetAnswer::kTooSmall);
      EXPECT_EQ(process.budget_answer(), BudgetAnswer::kTooSmall);
      EXPECT_FALSE(segment->next_request().has_value());
    }
  }
}

TEST_F(LiveSegmentTest, AnAnswerIsReadInASegmentThatWasCutShortMeanwhile) {
  const auto segment = create();
  auto opened = open();
  auto& process = std::get<LiveProcess>(opened);
  ASSERT_EQ(process.ask_budget(2_GiB), LiveProcess::Outcome::kAnswered);
  const auto request = segment->next_request();
  ASSERT_TRUE(request.has_value());
  std::filesystem::resize_file(path(), 0);
  segment->answer(*request, BudgetAnswer::kTooSmall);
  EXPECT_EQ(process.budget_answer(), BudgetAnswer::kTooSmall);
  EXPECT_FALSE(segment->next_request().has_value());
}

TEST_F(LiveSegmentTest, ASegmentThatIsCutShortIsLeftAsQuietlyAsAnother) {
  auto segment = create();
  std::filesystem::resize_file(path(), 0);
  segment->interrupt();
  segment->remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
  segment.reset();
}

// A file of holes has no number by which it is known to be a segment.
TEST_F(LiveSegmentTest, ASegmentThatIsWrittenOverIsWrittenAnew) {
  const auto segment = create();
  for (const char byte : {'\0', 'x'}) {
    std::ofstream(path()) << std::string(4096, byte);
    segment->publish({});
    EXPECT_FALSE(segment->next_request().has_value());
    EXPECT_TRUE(std::holds_alternative<LiveProcess>(open()));
  }
}

TEST_F(LiveSegmentTest, AnotherFileInItsPlaceIsLeftAlone) {
  auto segment = create();
  std::filesystem::remove(path());
  segment->publish({});
  EXPECT_FALSE(segment->next_request().has_value());
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::ofstream(path()) << "short";
  segment->publish({});
  segment->answer({1, 1, 1_GiB}, BudgetAnswer::kChanged);
  EXPECT_FALSE(segment->next_request().has_value());
  segment->wait_for_request(milliseconds{1});
  segment->interrupt();
  segment->wait_for_request(kLong);  // the interrupt ends it
  segment.reset();
  EXPECT_EQ(std::filesystem::file_size(path()), 5);
}

// A program that closes all its descriptors opens files of its own under their numbers.
TEST_F(LiveSegmentTest, HoldsNoDescriptorThatTheProgramCouldClose) {
  const auto count = [] {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = count();
  const auto segment = create();
  EXPECT_EQ(count(), before);
}

// Whoever writes into the segment can only be shown wrong figures, or be named.
TEST_F(LiveSegmentTest, NoBytesInASegmentHarmWhoLooksAtIt) {
  std::mt19937 random(1);
  int opened_at_all = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const auto segment = create();
    for (std::uint32_t change = random() % 4 + 1; change > 0; --change) {
      // Most other values of the first fields keep it from being opened.
      const bool is_first = random() % 8 == 0;
      const auto offset = static_cast<long>(is_first ? random() % 88 : 88 + random() % 512);
      const std::uint32_t kinds[] = {static_cast<std::uint32_t>(random()), 0, 1, 99, 0xFFFFFFFF};
      write_at(path(), offset, kinds[random() % std::size(kinds)]);
    }
    auto opened = open();
    if (auto* const process = std::get_if<LiveProcess>(&opened)) {
      ++opened_at_all;
      if (const auto figures = process->figures()) {
        EXPECT_LE(figures->pages, Bytes{std::uint64_t{1} << 56});
        EXPECT_LE(std::ranges::max(figures->layer_percent), 100);
      }
      const auto asked = process->ask();
      ASSERT_TRUE(asked.has_value());
      process->wait_for_answer(*asked, milliseconds{0});
      (void)process->has_answered(*asked);
      (void)process->is_running();
      if (process->ask_budget(1_GiB) == LiveProcess::Outcome::kAnswered) {
        (void)process->budget_answer();
        process->forget_budget();
      }
    }
    // It may be swept as one of a process that was here before.
    for (const LiveEntry& entry : list_live_processes(folder_)) EXPECT_EQ(entry.pid, ::getpid());
  }
  EXPECT_GT(opened_at_all, kRounds / 4) << "the bytes were too wild to get anywhere";
}

TEST_F(LiveSegmentTest, AnotherNamespacesProcessIsNotTakenForOneOfOurs) {
  const auto segment = create();
  write_at(path(), 32, 1);  // the namespace
  EXPECT_EQ(problem_of(), LiveProblem::kOtherNamespace);
}

// A folder that hosts share, such as a home folder: their first pid namespaces have one inode.
TEST_F(LiveSegmentTest, WhatIsOfAnotherHostIsNeitherShownNorSwept) {
  const std::string boot = boot_in("/proc/sys/kernel/random/boot_id");
  std::string name = path(1 << 30);  // no system has such an id
  const std::size_t at = name.rfind("-" + boot + "-");
  ASSERT_NE(at, std::string::npos) << name;
  std::ofstream(name) << "its process is gone";
  name.replace(at + 1, boot.size(), boot == "01234567" ? "76543210" : "01234567");
  std::ofstream(name) << "a segment";
  const auto segment = create();
  EXPECT_EQ(list_live_processes(folder_).size(), 1);
  EXPECT_TRUE(std::filesystem::exists(name));
  EXPECT_FALSE(std::filesystem::exists(path(1 << 30)));
}

TEST_F(LiveSegmentTest, AProcessWithoutASegmentIsNotManaged) {
  EXPECT_EQ(problem_of(), LiveProblem::kNotManaged);
}

TEST_F(LiveSegmentTest, ANewSegmentTakesThePlaceOfOneBeforeAnExec) {
  (void)create().release();
  EXPECT_NE(create(), nullptr);
}

TEST_F(LiveSegmentTest, WhatAProcessShowedBeforeAnExecCanBeRemoved) {
  (void)create().release();
  LiveSegment::remove_former(folder_);
  EXPECT_EQ(problem_of(), LiveProblem::kNotManaged);
  LiveSegment::remove_former(folder_);
}

TEST_F(LiveSegmentTest, AnOlderSegmentDoesNotRemoveTheOneThatTookItsName) {
  auto older = create();
  const auto newer = create();
  older.reset();
  EXPECT_TRUE(std::holds_alternative<LiveProcess>(open()));
}

TEST_F(LiveSegmentTest, SaysWhyThereCanBeNone) {
  std::string problem;
  EXPECT_EQ(LiveSegment::create({}, problem, folder_ + "/no-such-folder"), nullptr);
  EXPECT_THAT(problem, HasSubstr("no-such-folder"));
}

// A process that touches a page for which the file system has no room gets a signal (SIGBUS).
TEST_F(LiveSegmentTest, IsNotTouchedWhereTheFileSystemHasNoRoomForIt) {
  allocation_error = ENOSPC;
  std::string problem;
  EXPECT_EQ(LiveSegment::create({}, problem, folder_), nullptr);
  allocation_error = 0;
  EXPECT_EQ(problem, path() + ": No space left on device" + advice_on_shared_folder());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// A process that writes beyond the limit gets a signal (SIGXFSZ), which ends it.
TEST_F(LiveSegmentTest, IsNotMadeWhereTheProcessMayNotWriteSoLargeAFile) {
  const auto [child, code] = in_child([&] {
    const rlimit small{4095, 4095};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::string problem;
    EXPECT_EQ(LiveSegment::create({}, problem, folder_), nullptr);
    EXPECT_THAT(problem, StartsWith(path() + ": File too large; "));
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  });
  EXPECT_EQ(code, 0);
}

TEST_F(LiveSegmentTest, IsLeftAsItIsWhereTheProcessMayNoLongerWriteSoLargeAFile) {
  const auto [child, code] = in_child([&] {
    const auto segment = create();
    const rlimit small{100, 100};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    segment->publish({Bytes{1}, Bytes{}, Bytes{}, Bytes{}});
    auto opened = open();
    EXPECT_EQ(std::get<LiveProcess>(opened).figures(), LiveFigures{});
  });
  EXPECT_EQ(code, 0);
}

TEST_F(LiveSegmentTest, AProcessThatEndsIsNotWaitedForLong) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const int child = ::fork();
  if (child == 0) {
    (void)create().release();
    (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto opened = open(child);
  ASSERT_TRUE(std::holds_alternative<LiveProcess>(opened));
  ::kill(child, SIGKILL);
  BudgetAnswer answer{};
  EXPECT_EQ(std::get<LiveProcess>(opened).request(1_GiB, kLong, answer),
            LiveProcess::Outcome::kEnded);
  ::waitpid(child, nullptr, 0);
}

TEST(BootIn, IsTheBeginningOfWhatLinuxSays) {
  const std::string folder = make_temporary_folder("process_identity_test");
  const std::string file = folder + "/boot_id";
  EXPECT_EQ(boot_in(file), "0");
  for (const std::string text : {"", "89ab", "no/such/thing", "0123456/", "        "}) {
    std::ofstream(file) << text;
    EXPECT_EQ(boot_in(file), "0") << text;
  }
  std::ofstream(file) << "89abcdef-0123-4567-89ab-cdef01234567\n";
  EXPECT_EQ(boot_in(file), "89abcdef");
  std::filesystem::remove_all(folder);
}

TEST(OwnProcesses, NamesTheBootAndTheNamespace) {
  EXPECT_EQ(own_processes(),
            boot_in("/proc/sys/kernel/random/boot_id") + "-" + std::to_string(own_pid_namespace()));
}

}  // namespace
}  // namespace superpipe
