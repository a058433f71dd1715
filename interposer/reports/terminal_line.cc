#include "interposer/reports/terminal_line.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace superpipe {
namespace {

// ECMA-48: one line up, and erase to the end of the line.
constexpr const char* kLineAbove = "\033[A\r\033[K";
constexpr std::size_t kUsualWidth = 80;

std::size_t width_of(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

}  // namespace

std::unique_ptr<TerminalLine> TerminalLine::open(int descriptor, Clock::time_point now) {
  const char* const kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb") return nullptr;
  std::array<char, 256> path{};
  if (::isatty(descriptor) != 1 || ::ttyname_r(descriptor, path.data(), path.size()) != 0) {
    return nullptr;
  }
  // Whoever opened the terminal by this name is told it again, and nobody else writes to it by
  // that.
  if (std::string_view(path.data()) == "/dev/tty") return nullptr;
  const int watch = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watch < 0) return nullptr;
  if (::inotify_add_watch(watch, path.data(), IN_MODIFY) < 0) {
    ::close(watch);
    return nullptr;
  }
  return std::unique_ptr<TerminalLine>(new TerminalLine(descriptor, watch, now));
}

TerminalLine::~TerminalLine() {
  if (has_watch()) ::close(watch_);
}

// A program that closes every descriptor from 3 on closes the watch too, and may then get its
// number for a file of its own, which must be neither read nor closed here. (An inotify descriptor
// of the program's at that number cannot be told from the watch.)
bool TerminalLine::has_watch() noexcept {
  if (watch_ < 0) return false;
  constexpr std::string_view kInotify = "anon_inode:inotify";
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", watch_);
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(path.data(), target.data(), target.size());
  if (size < 0 || std::string_view(target.data(), static_cast<std::size_t>(size)) != kInotify) {
    watch_ = -1;
  }
  return watch_ >= 0;
}

bool TerminalLine::others_wrote() const noexcept {
  bool any = false;
  alignas(inotify_event) std::array<char, 1024> events;
  while (::read(watch_, events.data(), events.size()) > 0) any = true;
  return any;
}

// A process in the background that wrote would mix its text into another's, or be stopped. Where a
// terminal passes on each key, or shows none, somebody edits a line, draws the screen or asks for a
// password. What the program has put in the place of its standard error since is none of this
// line's business.
bool TerminalLine::may_write() const noexcept {
  if (::tcgetpgrp(descriptor_) != ::getpgrp()) return false;
  termios modes{};
  if (::tcgetattr(descriptor_, &modes) != 0) return false;
  if ((modes.c_lflag & ICANON) == 0 || (modes.c_lflag & ECHO) == 0) return false;
  pollfd ready{descriptor_, POLLOUT, 0};
  return ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

// Whether all of it was written.
bool TerminalLine::write(const std::string& text) const noexcept {
  const ssize_t written = ::write(descriptor_, text.data(), text.size());
  if (written < 0) return false;
  (void)others_wrote();  // it was this
  return static_cast<std::size_t>(written) == text.size();
}

std::size_t TerminalLine::columns() const noexcept { return width_of(descriptor_) - 1; }

void TerminalLine::show(const std::string& text, Clock::time_point now) noexcept try {
  if (!has_watch()) return;
  if (others_wrote()) {
    is_shown_ = false;
    quiet_since_ = now;
  }
  if (!may_write()) return;
  const std::size_t most = columns();
  std::string out = kLineAbove;
  if (!is_shown_) {
    if (now - quiet_since_ < kRest || lines_ == kMostLines) return;
    ++lines_;
    // So many blanks stay within an empty line, and lead from a line with text in it to the next.
    out = std::string(most, ' ') + "\r\033[K";
  }
  // After a part of it the cursor may be anywhere: the next line then begins anew.
  is_shown_ = write(out + text.substr(0, most) + "\r\n");
} catch (...) {
  // Without memory there is no line.
}

void TerminalLine::erase() noexcept try {
  if (is_shown_ && has_watch() && !others_wrote() && may_write()) (void)write(kLineAbove);
  is_shown_ = false;
} catch (...) {
  is_shown_ = false;
}

}  // namespace superpipe
