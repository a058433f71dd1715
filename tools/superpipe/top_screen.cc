#include "tools/superpipe/top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <utility>

#include "policy/budget.h"
#include "tools/superpipe/command_line/manual.h"
#include "tools/superpipe/live_text.h"

namespace superpipe::cli {

namespace {

constexpr const char* kKeys = "q quit   up/down or k/j choose   b budget   s order   ? help";

constexpr std::array<const char*, 19> kHelp = {
    "Each row is a process of yours that runs under superpipe.",
    "",
    "PAGES    what its buffers take of the device     BUDGET  what all of it may take",
    "FETCH/s  bytes brought to the device per second  STALL   waiting for them, of the time",
    "PASS     how long the last pass took             BOUND   as a multiple of the least",
    "         possible: of compute, and of what the link takes for what does not fit",
    "",
    "Below the table, the chosen process: what device and host memory hold, how much of",
    "each layer is on the device (. none, 1 to 9 tenths, # all), and the latest values.",
    "",
    "up, k    choose the process above       page up    ten above",
    "down, j  choose the process below       page down  ten below",
    "b        give it another budget: SIZE is bytes, or K, M, G, T (powers of 1024), or",
    "         a percentage of its device",
    "s        order by process, pages, fetch rate, stall",
    "q        quit",
    "",
    "A process that is stopped or stuck is not answering: its figures are old ones.",
    "Any key goes back.",
};

std::string formatted(const char* format, double number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

/// `number` with one decimal below 10, unless that is zero, and none above.
std::string few_digits(double number) {
  if (number >= 9.95) return formatted("%.0f", number);
  std::string text = formatted("%.1f", number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

/// `number` in the largest of `units`, each `step` times the one before, that leaves at least 1.
template <std::size_t count>
std::string in_units(double number, double step, const std::array<const char*, count>& units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && number >= step - 0.5) {
    number /= step;
    ++unit;
  }
  return few_digits(number) + units[unit];
}

std::string left(std::string_view text, std::size_t width) {
  std::string cut = cut_to(text, width);
  return cut + std::string(width - width_of(cut), ' ');
}

std::string right(std::string_view text, std::size_t width) {
  const std::string cut = cut_to(text, width);
  return std::string(width - width_of(cut), ' ') + cut;
}

std::string bytes_text(Bytes bytes) { return short_bytes(static_cast<double>(bytes.count())); }

std::string time_text(std::uint64_t nanoseconds) {
  return short_time(static_cast<double>(nanoseconds) * 1e-9);
}

std::string budget_text_of(const LiveFigures& figures) {
  return figures.budget > Bytes{} ? bytes_text(figures.budget) : "none";
}

std::string bound_text(const TopRow& row) {
  const auto over = row.over_bound();
  if (!over) return "-";
  return *over < 99.95 ? formatted(*over < 9.995 ? "%.2fx" : "%.1fx", *over) : ">99x";
}

std::string heading() {
  return "     PID  PROGRAM         POLICY         PAGES BUDGET FETCH/s STALL   PASS BOUND";
}

std::string row_text(const TopRow& row) {
  const ProcessLook& look = row.look;
  const std::string begin =
      right(std::to_string(look.pid), 8) + "  " + left(look.program, 15) + " ";
  if (look.problem) return begin + in_brackets(*look.problem);
  const LiveFigures& figures = look.figures;
  const std::string memory = left(name_of(look.description.policy), 13) + " " +
                             right(bytes_text(figures.pages), 6) + " " +
                             right(budget_text_of(figures), 6) + " ";
  if (!look.answers) return begin + memory + "(not answering)";
  const std::string fetch = row.rates ? short_bytes(row.rates->h2d) : "-";
  const std::string stall = row.rates ? short_percent(row.rates->stall) : "-";
  const std::string pass = figures.pass_ns > 0 ? time_text(figures.pass_ns) : "-";
  return begin + memory + right(fetch, 7) + " " + right(stall, 5) + " " + right(pass, 6) + " " +
         right(bound_text(row), 5);
}

/// The share of `part` in `whole`, in [0, 1].
double share_of(Bytes part, Bytes whole) {
  if (whole == Bytes{}) return 0;
  return std::min(1.0, static_cast<double>(part.count()) / static_cast<double>(whole.count()));
}

/// Whether the figure is a size, and not the largest number for "as much as you like".
bool is_size(Bytes bytes) { return bytes > Bytes{} && bytes < Bytes{std::uint64_t{1} << 56}; }

}  // namespace

std::string short_bytes(double bytes) {
  return in_units(bytes, 1024, std::array{"", "K", "M", "G", "T", "P", "E"});
}

std::string short_time(double seconds) {
  if (seconds <= 0) return "0";
  if (seconds < 0.9995e-3) return few_digits(seconds * 1e6) + "us";
  if (seconds < 0.9995) return few_digits(seconds * 1e3) + "ms";
  if (seconds < 999.5) return few_digits(seconds) + "s";
  const double minutes = seconds / 60;
  if (minutes < 999.5) return few_digits(minutes) + "m";
  return minutes / 60 < 99'999 ? few_digits(minutes / 60) + "h" : ">99999h";
}

std::string short_count(double count) {
  constexpr double kThousand = 1000;
  if (count < kThousand) return formatted("%.0f", count);
  return in_units(count, kThousand, std::array{"", "k", "M", "G", "T", "P", "E"});
}

std::string short_percent(double share) {
  const double percent = 100 * share;
  return percent < 999.5 ? formatted("%.0f%%", std::max(0.0, percent)) : ">999%";
}

std::size_t width_of(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins));
}

std::string cut_to(std::string_view text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U) continue;
    if (columns == width) return std::string(text.substr(0, i));
    ++columns;
  }
  return std::string(text);
}

std::string bar(double share, std::size_t width) {
  if (width < 3) return {};
  const std::size_t inside = width - 2;
  const double bounded = share > 0 ? std::min(share, 1.0) : 0.0;
  const auto filled = static_cast<std::size_t>(std::lround(bounded * static_cast<double>(inside)));
  return "[" + std::string(filled, '#') + std::string(inside - filled, '.') + "]";
}

std::string history_bar(const std::deque<double>& values, double largest, std::size_t width,
                        bool blocks) {
  constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 9> kPlain = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  const std::size_t shown = std::min(values.size(), width);
  std::string text(width - shown, ' ');
  for (std::size_t i = values.size() - shown; i < values.size(); ++i) {
    const double share = largest > 0 ? std::clamp(values[i] / largest, 0.0, 1.0) : 0.0;
    const auto level = static_cast<std::size_t>(std::ceil(share * 8));
    text += blocks ? kBlocks[level] : kPlain[level];
  }
  return text;
}

std::string layer_bar(const LiveFigures& figures, std::size_t width) {
  const std::size_t layers = std::min<std::size_t>(figures.layers, kShownLayers);
  const std::size_t columns = std::min(layers, width);
  std::string text;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::size_t begin = column * layers / columns;
    const std::size_t end = (column + 1) * layers / columns;
    std::size_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += figures.layer_percent[i];
    const std::size_t percent = sum / (end - begin);
    if (percent == 0) {
      text += '.';
    } else if (percent >= 100) {
      text += '#';
    } else {
      text += static_cast<char>('0' + std::clamp<std::size_t>(percent / 10, 1, 9));
    }
  }
  return text;
}

std::vector<std::string> table(const TopModel& model) {
  std::vector<std::string> lines{heading()};
  for (const TopRow& row : model.rows()) lines.push_back(row_text(row));
  return lines;
}

KeyResult TopScreen::press(int key, TopModel& model) {
  constexpr int kPage = 10;
  if (key == kNoKey || key == kResizeKey) return {};
  message_.clear();
  if (helps_) {
    helps_ = false;
    return {};
  }
  if (prompt_pid_ != 0) return press_in_prompt(key);
  switch (key) {
    case 'q':
      return {true, 0, {}};
    case '?':
      helps_ = true;
      break;
    case kUpKey:
    case 'k':
      model.move_choice(-1);
      break;
    case kDownKey:
    case 'j':
      model.move_choice(1);
      break;
    case kPageUpKey:
      model.move_choice(-kPage);
      break;
    case kPageDownKey:
      model.move_choice(kPage);
      break;
    case 's':
      model.next_order();
      message_ = "ordered by " + std::string(name_of(model.order()));
      break;
    case 'b': {
      const TopRow* const row = model.chosen();
      if (row == nullptr) break;
      const ProcessLook& look = row->look;
      const BudgetAnswer refusal = look.description.refusal;
      if (look.problem) {
        message_ = text_of(*look.problem, look.pid, folder_);
      } else if (refusal != BudgetAnswer::kChanged) {
        message_ = text_of(refusal, look.pid);
      } else {
        prompt_pid_ = look.pid;
        typed_.clear();
      }
      break;
    }
    default:
      break;
  }
  return {};
}

KeyResult TopScreen::press_in_prompt(int key) {
  constexpr std::size_t kLongest = 24;
  if (key == kEscapeKey) {
    prompt_pid_ = 0;
  } else if (key == kBackspaceKey) {
    if (!typed_.empty()) typed_.pop_back();
  } else if (key == kEnterKey) {
    const int pid = std::exchange(prompt_pid_, 0);
    if (typed_.empty()) return {};
    const auto size = parse_size(typed_);
    if (size && size->resolve(Bytes{~std::uint64_t{0}}) > Bytes{}) return {false, pid, typed_};
    message_ = "'" + typed_ + "' is no size: bytes, K, M, G, T or a percentage, above 0";
  } else if (key > ' ' && key <= '~' && typed_.size() < kLongest) {
    typed_ += static_cast<char>(key);
  }
  return {};
}

std::string TopScreen::last_line() const {
  if (prompt_pid_ != 0) {
    return "new budget of process " + std::to_string(prompt_pid_) +
           " (SIZE; Enter gives it, Esc does not): " + typed_ + "_";
  }
  return message_.empty() ? kKeys : message_;
}

std::vector<std::string> TopScreen::details(const TopRow& row, std::size_t width) const {
  const ProcessLook& look = row.look;
  const std::string who = look.program + ", process " + std::to_string(look.pid);
  if (look.problem) return {who, text_of(*look.problem, look.pid, folder_)};
  const LiveFigures& now = look.figures;
  constexpr std::size_t kLabel = 9;
  constexpr std::size_t kBar = 28;
  const auto labelled = [](std::string_view label, const std::string& text) {
    return left(label, kLabel) + text;
  };
  const std::string state = look.answers ? "" : "not answering, the figures are old; ";
  std::vector<std::string> lines;
  lines.push_back(who + ": " + state + std::string(name_of(look.description.policy)) + ", " +
                  short_count(static_cast<double>(now.launches)) + " launches, " +
                  short_count(static_cast<double>(now.passes)) + " passes");
  const Bytes device = look.description.device_total;
  const Bytes most = is_size(now.limit) ? now.limit : device;
  lines.push_back(labelled("device", bar(share_of(now.pages, most), kBar) + " pages " +
                                         bytes_text(now.pages) + " of " + bytes_text(most) + ", " +
                                         bytes_text(now.live) + " live"));
  lines.push_back(labelled("", "budget " + budget_text_of(now) + ", context " +
                                   bytes_text(now.context) + ", left to the driver " +
                                   bytes_text(now.passthrough) + ", device " + bytes_text(device)));
  const std::string host_limit = is_size(now.host_limit) ? bytes_text(now.host_limit) : "no limit";
  lines.push_back(labelled("host", bar(share_of(now.pinned_host, now.host_limit), kBar) +
                                       " pinned " + bytes_text(now.pinned_host) + " of " +
                                       host_limit));
  std::string layers = "not known";
  if (now.layers > 0) {
    layers = std::to_string(now.layers);
    if (now.k > 0) layers += ", k " + std::to_string(now.k);
    if (now.k_prime > 0) layers += ", k' " + std::to_string(now.k_prime);
    const std::size_t taken = kLabel + layers.size() + 3;
    if (width > taken) layers += " |" + layer_bar(now, width - taken) + "|";
  }
  lines.push_back(labelled("layers", layers));
  std::string pass = "none measured";
  if (now.pass_ns > 0) {
    pass = time_text(now.pass_ns) + ", of that stalled " + time_text(now.pass_stall_ns);
    if (now.bound_ns > 0) {
      pass += "; at least " + time_text(now.bound_ns) + " (" + bound_text(row) + ")";
    }
  }
  const auto link = static_cast<double>(now.link_bytes_per_second);
  if (link > 0) pass += "; link " + short_bytes(link) + "/s";
  lines.push_back(labelled("pass", pass));
  const auto count = [](std::uint64_t number) { return short_count(static_cast<double>(number)); };
  lines.push_back(labelled("moved", bytes_text(now.h2d) + " in, " + bytes_text(now.d2h) + " out; " +
                                        count(now.fetches()) + " fetches (" +
                                        count(now.demand_fetches) + " on demand), " +
                                        count(now.evictions()) + " evictions"));
  constexpr std::size_t kValue = 24;
  const std::size_t room = width > kLabel + kValue ? width - kLabel - kValue : 0;
  const auto history = [&](std::string_view label, const History& values, double largest,
                           const std::string& now_text, const std::string& most_text) {
    lines.push_back(labelled(label, history_bar(values.values(), largest, room, blocks_) + "  " +
                                        left(now_text, 7) + " most " + most_text));
  };
  const double fetch = row.rates ? row.rates->h2d : 0;
  const double stall = row.rates ? row.rates->stall : 0;
  history("fetch/s", row.fetch, row.fetch.largest(), short_bytes(fetch),
          short_bytes(row.fetch.largest()));
  history("stall", row.stall, std::max(1.0, row.stall.largest()), short_percent(stall),
          short_percent(row.stall.largest()));
  const auto pages = static_cast<double>(most.count());
  history("pages", row.pages, pages, bytes_text(now.pages), short_bytes(row.pages.largest()));
  return lines;
}

std::vector<ScreenLine> TopScreen::lines(const TopModel& model, std::size_t width,
                                         std::size_t height) const {
  using Style = ScreenLine::Style;
  if (height == 0 || width == 0) return {};
  std::vector<ScreenLine> lines;
  const std::vector<TopRow>& rows = model.rows();
  const auto silent = std::ranges::count_if(
      rows, [](const TopRow& row) { return !row.look.problem && !row.look.answers; });
  std::string title = "superpipe top: " + std::to_string(rows.size()) +
                      (rows.size() == 1 ? " process" : " processes");
  if (silent > 0) title += ", " + std::to_string(silent) + " not answering";
  title += "; every " + interval_ + " s";
  lines.push_back({title, Style::kBold});
  if (helps_) {
    for (const char* const line : kHelp) lines.push_back({line, Style::kPlain});
  } else if (rows.empty()) {
    lines.push_back({no_processes(folder_) + "; waiting for one", Style::kPlain});
  } else {
    lines.push_back({left(heading(), width), Style::kReverse});
    std::vector<std::string> below = details(*model.chosen(), width);
    // Title, heading and last line; one row at least, and a third of the screen for more.
    constexpr std::size_t kFixed = 3;
    const std::size_t free = height > kFixed ? height - kFixed : 0;
    const std::size_t wanted = std::min(rows.size(), std::max<std::size_t>(1, height / 3));
    const std::size_t for_details =
        std::min(free > wanted + 1 ? free - wanted - 1 : 0, below.size());
    const std::size_t separator = for_details > 0 ? 1 : 0;
    const std::size_t shown = std::min(rows.size(), free - for_details - separator);
    const std::size_t chosen = model.chosen_index();
    const std::size_t first = chosen < shown ? 0 : chosen - shown + 1;
    for (std::size_t i = first; i < first + shown; ++i) {
      lines.push_back(
          {left(row_text(rows[i]), width), i == chosen ? Style::kReverse : Style::kPlain});
      // Without attributes, too, the chosen row is seen.
      if (i == chosen) lines.back().text.front() = '>';
    }
    if (separator > 0) lines.push_back({});
    for (std::size_t i = 0; i < for_details; ++i) {
      lines.push_back({below[i], i == 0 ? Style::kBold : Style::kPlain});
    }
  }
  lines.resize(height > 1 ? std::min(lines.size(), height - 1) : 0);
  while (lines.size() + 1 < height) lines.push_back({});
  lines.push_back({});
  // A message that is longer than a line covers those above, the first of all excepted.
  const bool is_hint = message_.empty() && prompt_pid_ == 0;
  const std::string text = last_line();
  std::istringstream words(is_hint ? text : wrapped(text, std::max<std::size_t>(1, width - 1)));
  std::vector<std::string> last;
  for (std::string line; std::getline(words, line);) last.push_back(" " + line);
  const std::size_t covered = std::min(last.size(), std::max<std::size_t>(1, height - 1));
  for (std::size_t i = 0; i < covered; ++i) {
    lines[height - covered + i] = {last[i], message_.empty() ? Style::kPlain : Style::kBold};
  }
  for (ScreenLine& line : lines) line.text = cut_to(line.text, width);
  return lines;
}

}  // namespace superpipe::cli
