// The line that tells how far a run is, on a pseudo terminal.
#include "interposer/reports/run_progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string>

#include "interposer/reports/terminal_line.h"

namespace superpipe {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Time = TerminalLine::Clock::time_point;

constexpr const char* kAbove = "\033[A\r\033[K";
// The terminal itself writes a carriage return before a line feed.
constexpr const char* kLineEnd = "\r\r\n";

constexpr std::size_t kWide = 200;

TEST(ProgressText, TellsWhatIsLoadedWhatWasLearnedAndWhatMoved) {
  LiveFigures figures;
  figures.live = 3_GiB;
  figures.pages = 2_GiB;
  EXPECT_EQ(progress_text(figures, true, kWide),
            "superpipe[" + std::to_string(::getpid()) + "]: loading; 2 GiB of 3 GiB on device");
  figures.launches = 120;
  figures.h2d = 512_MiB;
  EXPECT_THAT(progress_text(figures, false, kWide),
              AllOf(HasSubstr("first pass, 120 launches"), HasSubstr("; 512 MiB in, 0 ")));
  figures.passes = 2;
  figures.pass_ns = 12'340'000;
  figures.bound_ns = 11'000'000;
  figures.layers = 12;
  EXPECT_THAT(progress_text(figures, false, kWide),
              AllOf(HasSubstr("pass 2 12.3 ms (bound 11.0 ms); "), HasSubstr("; 12 layers")));
}

TEST(ProgressText, LeavesOutWholeFieldsWhereThereIsNoRoom) {
  LiveFigures figures;
  figures.live = figures.pages = 16_MiB;
  figures.launches = 120;
  figures.passes = 2;
  figures.pass_ns = 12'340'000;
  figures.bound_ns = 11'000'000;
  figures.h2d = 12_MiB;
  figures.layers = 12;
  const std::string stage = "superpipe[" + std::to_string(::getpid()) + "]: pass 2 12.3 ms";
  const std::string bound = stage + " (bound 11.0 ms)";
  const std::string loaded = bound + "; 16 MiB of 16 MiB on device; 12 MiB in, 0 B out";
  const auto at = [&](std::size_t columns) { return progress_text(figures, false, columns); };
  EXPECT_EQ(at(kWide), loaded + "; 12 layers");
  EXPECT_EQ(at(loaded.size() + 10), loaded);
  EXPECT_EQ(at(loaded.size()), loaded);
  EXPECT_EQ(at(loaded.size() - 1), bound + "; 12 MiB in, 0 B out");
  EXPECT_EQ(at(bound.size() + 19), stage + "; 12 MiB in, 0 B out");
  EXPECT_EQ(at(stage.size()), stage);
  EXPECT_EQ(at(5), stage);
}

TEST(ProgressText, CountsNoPagesThatAreKeptForBuffersToCome) {
  LiveFigures figures;
  figures.live = 3_GiB;
  figures.pages = 4_GiB;
  EXPECT_THAT(progress_text(figures, false, kWide), HasSubstr("; 3 GiB of 3 GiB on device"));
}

/// A terminal of 40 columns. Writing to it is allowed to its foreground process group alone, so the
/// line is written by a child whose terminal it is; each test body runs there.
class TerminalLineTest : public ::testing::Test {
 protected:
  TerminalLineTest() {
    winsize size{24, 40, 0, 0};
    EXPECT_EQ(::openpty(&master_, &slave_, nullptr, nullptr, &size), 0);
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
    ::setenv("TERM", "xterm", 1);
  }
  ~TerminalLineTest() override {
    ::close(master_);
    ::close(slave_);
  }

  /// Runs `body` in a session of its own on the terminal; whether all it expected held.
  template <typename Body>
  void on_the_terminal(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      if (::ioctl(slave_, TIOCSCTTY, 0) != 0) ::_exit(2);
      body();
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::unique_ptr<TerminalLine> open() { return TerminalLine::open(slave_, start_); }
  [[nodiscard]] Time after(milliseconds time) const { return start_ + time; }
  void program_writes(const std::string& text) const {
    EXPECT_EQ(::write(slave_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// What came on the terminal since the last call. What was written is there at once.
  [[nodiscard]] std::string seen() const {
    std::string text;
    std::array<char, 4096> part{};
    pollfd ready{master_, POLLIN, 0};
    while (::poll(&ready, 1, 20) == 1) {
      const ssize_t size = ::read(master_, part.data(), part.size());
      if (size <= 0) break;
      text.append(part.data(), static_cast<std::size_t>(size));
    }
    return text;
  }
  /// What begins a line on a terminal of 40 columns, wherever its cursor is.
  static std::string begin() { return std::string(39, ' ') + "\r\033[K"; }

  int master_ = -1, slave_ = -1;
  const Time start_ = TerminalLine::Clock::now();
};

TEST_F(TerminalLineTest, IsReplacedInPlaceWhileNobodyElseWrites) {
  on_the_terminal([this] {
    const auto line = open();
    ASSERT_NE(line, nullptr);
    line->show("one", after(milliseconds{1000}));
    EXPECT_EQ(seen(), begin() + "one" + kLineEnd);
    line->show("two", after(milliseconds{1100}));
    EXPECT_EQ(seen(), std::string(kAbove) + "two" + kLineEnd);
    line->erase();
    EXPECT_EQ(seen(), kAbove);
    line->erase();
    EXPECT_EQ(seen(), "");
  });
}

TEST_F(TerminalLineTest, BeginsAfterARestAndIsCutToTheWidth) {
  on_the_terminal([this] {
    const auto line = open();
    line->show("early", after(milliseconds{999}));
    EXPECT_EQ(seen(), "");
    line->show(std::string(60, 'x'), after(milliseconds{1000}));
    EXPECT_EQ(seen(), begin() + std::string(39, 'x') + kLineEnd);
  });
}

TEST_F(TerminalLineTest, StaysWhereItIsOnceOthersHaveWritten) {
  on_the_terminal([this] {
    const auto line = open();
    line->show("one", after(milliseconds{1000}));
    program_writes("unfinished");
    (void)seen();
    line->show("two", after(milliseconds{1500}));
    EXPECT_EQ(seen(), "");
    line->show("three", after(milliseconds{2500}));
    EXPECT_EQ(seen(), begin() + "three" + kLineEnd);
    program_writes("more\n");
    (void)seen();
    line->erase();
    EXPECT_EQ(seen(), "");
  });
}

TEST_F(TerminalLineTest, DoesNotReplaceWhatItCouldNotWrite) {
  on_the_terminal([this] {
    std::array<char, 64> name{};
    ASSERT_EQ(::ttyname_r(slave_, name.data(), name.size()), 0);
    const int descriptor = ::open(name.data(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const auto line = TerminalLine::open(descriptor, start_);
    ASSERT_NE(line, nullptr);
    line->show("one", after(milliseconds{1000}));
    EXPECT_EQ(seen(), "");
    ASSERT_EQ(::dup2(slave_, descriptor), descriptor);
    line->erase();
    EXPECT_EQ(seen(), "");
    line->show("two", after(milliseconds{1100}));
    EXPECT_EQ(seen(), begin() + "two" + kLineEnd);
    ::close(descriptor);
  });
}

TEST_F(TerminalLineTest, LeavesTheProgramADescriptorThatTookTheNumberOfItsWatch) {
  on_the_terminal([this] {
    const int watch = ::dup(slave_);  // the number that the watch is about to get
    ::close(watch);
    auto line = open();
    ASSERT_NE(line, nullptr);
    line->show("one", after(milliseconds{1000}));
    (void)seen();
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
    ASSERT_NE(ends[0], watch);
    ASSERT_EQ(::dup2(ends[0], watch), watch);
    ASSERT_EQ(::write(ends[1], "own", 3), 3);
    line->show("two", after(milliseconds{2000}));
    line->erase();
    EXPECT_EQ(seen(), "");
    line.reset();
    std::array<char, 4> text{};
    EXPECT_EQ(::read(watch, text.data(), text.size()), 3);
    EXPECT_STREQ(text.data(), "own");
  });
}

TEST_F(TerminalLineTest, BeginsAFewTimesAtMost) {
  on_the_terminal([this] {
    const auto line = open();
    int shown = 0;
    for (int i = 1; i < 30; ++i) {
      line->show("now", after(milliseconds{3000 * i}));
      if (!seen().empty()) ++shown;
      program_writes("x");
      line->show("now", after(milliseconds{3000 * i + 1}));
      (void)seen();
    }
    EXPECT_EQ(shown, TerminalLine::kMostLines);
  });
}

TEST_F(TerminalLineTest, WritesNothingInTheBackground) {
  // This process's terminal is another one, if it has one at all.
  const auto line = open();
  ASSERT_NE(line, nullptr);
  line->show("one", after(milliseconds{2000}));
  EXPECT_EQ(seen(), "");
}

TEST_F(TerminalLineTest, WritesNothingWhileTheTerminalPassesOnOrHidesKeys) {
  on_the_terminal([this] {
    const auto line = open();
    termios usual{};
    ASSERT_EQ(::tcgetattr(slave_, &usual), 0);
    for (const tcflag_t off : {tcflag_t{ICANON}, tcflag_t{ECHO}, tcflag_t{ICANON | ECHO}}) {
      line->show("before", after(milliseconds{1000}));
      EXPECT_THAT(seen(), HasSubstr("before"));
      termios modes = usual;
      modes.c_lflag &= ~off;
      ASSERT_EQ(::tcsetattr(slave_, TCSANOW, &modes), 0);
      line->show("hidden", after(milliseconds{2000}));
      EXPECT_EQ(seen(), "");
      ASSERT_EQ(::tcsetattr(slave_, TCSANOW, &usual), 0);
    }
    line->erase();
    EXPECT_EQ(seen(), kAbove);
  });
}

TEST_F(TerminalLineTest, IsNotWhereNoCursorMoves) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(TerminalLine::open(ends[1], start_), nullptr);
  ::close(ends[0]);
  ::close(ends[1]);
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(open(), nullptr);
}

TEST_F(TerminalLineTest, IsNotWhereTheTerminalHasANameThatOthersDoNotUse) {
  on_the_terminal([this] {
    const int descriptor = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    EXPECT_EQ(TerminalLine::open(descriptor, start_), nullptr);
    EXPECT_NE(TerminalLine::open(slave_, start_), nullptr);
    ::close(descriptor);
  });
}

TEST_F(TerminalLineTest, ProgressEndsOnceTheFirstPassesAreKnown) {
  on_the_terminal([this] {
    RunProgress progress(open());
    LiveFigures figures;
    int asked = 0;
    const auto now = [&] {
      ++asked;
      return figures;
    };
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1000})));
    EXPECT_THAT(seen(), HasSubstr("loading"));
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1500})));  // too early to ask
    EXPECT_EQ(asked, 1);
    figures.launches = 10;
    figures.passes = RunProgress::kFirstPasses - 1;
    EXPECT_TRUE(progress.tick(now, after(milliseconds{2000})));
    EXPECT_THAT(seen(), HasSubstr("pass 2 "));
    figures.passes = RunProgress::kFirstPasses;
    EXPECT_FALSE(progress.tick(now, after(milliseconds{3000})));
    EXPECT_EQ(seen(), kAbove);
    EXPECT_FALSE(progress.tick(now, after(milliseconds{4000})));
    EXPECT_EQ(asked, 3);
  });
}

TEST_F(TerminalLineTest, ProgressOfAProgramWithoutPassesEndsAfterAMinute) {
  on_the_terminal([this] {
    RunProgress progress(open());
    LiveFigures figures;
    figures.launches = 1;
    const auto now = [&] { return figures; };
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1000})));
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1000} + RunProgress::kLongest)));
    (void)seen();
    EXPECT_FALSE(progress.tick(now, after(milliseconds{2001} + RunProgress::kLongest)));
    EXPECT_EQ(seen(), kAbove);
  });
}

TEST_F(TerminalLineTest, ProgressEndsAMinuteAfterALoadedProgramFellIdle) {
  on_the_terminal([this] {
    RunProgress progress(open());
    LiveFigures figures;
    const auto now = [&] { return figures; };
    milliseconds time{1000};
    EXPECT_TRUE(progress.tick(now, after(time)));
    figures.live = 1_GiB;  // each change begins the minute anew
    EXPECT_TRUE(progress.tick(now, after(time += RunProgress::kLongest)));
    figures.h2d = 1_GiB;
    EXPECT_TRUE(progress.tick(now, after(time += RunProgress::kLongest)));
    EXPECT_TRUE(progress.tick(now, after(time += RunProgress::kLongest)));
    EXPECT_THAT(seen(), HasSubstr("loading"));
    EXPECT_FALSE(progress.tick(now, after(time += RunProgress::kInterval)));
    EXPECT_EQ(seen(), kAbove);
  });
}

TEST_F(TerminalLineTest, ProgressTakesLaunchesWhileMemoryGrowsForLoading) {
  on_the_terminal([this] {
    RunProgress progress(open());
    LiveFigures figures;
    figures.live = 1_GiB;
    const auto now = [&] { return figures; };
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1000})));
    figures.live = 2_GiB;
    figures.launches = 1;
    EXPECT_TRUE(progress.tick(now, after(milliseconds{2000})));
    EXPECT_THAT(seen(), Not(HasSubstr("first")));
    figures.launches = 2;
    EXPECT_TRUE(progress.tick(now, after(milliseconds{3000})));
    EXPECT_THAT(seen(), HasSubstr("first"));
  });
}

TEST_F(TerminalLineTest, ProgressEndsWhereFiguresCannotBeHad) {
  on_the_terminal([this] {
    RunProgress progress(open());
    EXPECT_TRUE(progress.tick([] { return LiveFigures{}; }, after(milliseconds{1000})));
    (void)seen();
    const auto none = []() -> LiveFigures { throw std::bad_alloc(); };
    EXPECT_FALSE(progress.tick(none, after(milliseconds{2000})));
    EXPECT_EQ(seen(), kAbove);
    EXPECT_FALSE(progress.tick([] { return LiveFigures{}; }, after(milliseconds{3000})));
    EXPECT_EQ(seen(), "");
  });
}

TEST_F(TerminalLineTest, ProgressIsRemovedForGoodAtTheEnd) {
  on_the_terminal([this] {
    RunProgress progress(open());
    const auto now = [] { return LiveFigures{}; };
    EXPECT_TRUE(progress.tick(now, after(milliseconds{1000})));
    (void)seen();
    progress.end();
    EXPECT_EQ(seen(), kAbove);
    EXPECT_FALSE(progress.tick(now, after(milliseconds{3000})));
    EXPECT_EQ(seen(), "");
  });
}

}  // namespace
}  // namespace superpipe
