#include "tools/superpipe/terminal.h"

// Without its macros, which take names such as move() and clear() from everybody.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace superpipe::cli {

namespace {

int key_of(int code) {
  switch (code) {
    case ERR:
      return kNoKey;
    case KEY_UP:
      return kUpKey;
    case KEY_DOWN:
      return kDownKey;
    case KEY_PPAGE:
      return kPageUpKey;
    case KEY_NPAGE:
      return kPageDownKey;
    case KEY_RESIZE:
      return kResizeKey;
    case KEY_ENTER:
    case '\n':
    case '\r':
      return kEnterKey;
    case KEY_BACKSPACE:
    case '\b':
    case 127:
      return kBackspaceKey;
    case kEscapeKey:
      return kEscapeKey;
    default:
      return code >= ' ' && code <= '~' ? code : kNoKey;
  }
}

}  // namespace

std::unique_ptr<Terminal> Terminal::open(std::string& problem) {
  (void)std::setlocale(LC_CTYPE, "");
  const bool has_blocks = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  // newterm() says what is wrong, where initscr() would end the program.
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    const char* const name = std::getenv("TERM");
    problem = "the terminal" + (name == nullptr ? std::string() : " '" + std::string(name) + "'") +
              " is not known here (TERM); use --once";
    return nullptr;
  }
  std::unique_ptr<Terminal> terminal(new Terminal(has_blocks));
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, TRUE);
  ::set_escdelay(50);  // milliseconds in which the rest of a key that begins with Esc has to come
  (void)::curs_set(0);
  return terminal;
}

Terminal::~Terminal() {
  (void)::curs_set(1);
  ::endwin();
}

std::size_t Terminal::width() const {
  return static_cast<std::size_t>(std::max(0, ::getmaxx(stdscr)));
}

std::size_t Terminal::height() const {
  return static_cast<std::size_t>(std::max(0, ::getmaxy(stdscr)));
}

void Terminal::draw(const std::vector<ScreenLine>& lines) {
  ::werase(stdscr);
  int row = 0;
  for (const ScreenLine& line : lines) {
    attr_t attributes = A_NORMAL;
    if (line.style == ScreenLine::Style::kBold) attributes = A_BOLD;
    if (line.style == ScreenLine::Style::kReverse) attributes = A_REVERSE;
    ::wattrset(stdscr, static_cast<int>(attributes));
    // The last cell of the last line cannot be written without an error, which does no harm.
    (void)::mvwaddstr(stdscr, row++, 0, line.text.c_str());
  }
  ::wattrset(stdscr, A_NORMAL);
  ::wrefresh(stdscr);
}

int Terminal::read_key(std::chrono::milliseconds limit) {
  ::wtimeout(stdscr, static_cast<int>(std::clamp<std::int64_t>(limit.count(), 0, 60'000)));
  return key_of(::wgetch(stdscr));
}

}  // namespace superpipe::cli
