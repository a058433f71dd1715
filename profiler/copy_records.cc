#include "profiler/copy_records.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace superpipe {
namespace {

constexpr std::string_view kCopiesMagic = "superpipe copies ";
constexpr std::string_view kCopiesVersion = "3";
// More kernels and call sites than any program has: an index beyond is not one of ours.
constexpr std::size_t kMostIndices = std::size_t{1} << 20;
constexpr char kFrameSeparator = '\t';

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool is_good() const { return is_good_; }
  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  std::string_view rest() { return std::exchange(rest_, {}); }
  template <typename Number>
  Number number(int base = 10) {
    return read<Number>(word(), base);
  }
  CopyDigest digest() {
    const std::string_view text = word();
    is_good_ = is_good_ && text.size() == 32;
    if (!is_good_) return {};
    return {read<std::uint64_t>(text.substr(0, 16), 16), read<std::uint64_t>(text.substr(16), 16)};
  }

 private:
  template <typename Number>
  Number read(std::string_view text, int base) {
    Number value{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
    is_good_ = is_good_ && read.ec == std::errc() && read.ptr == text.data() + text.size();
    return value;
  }

  std::string_view rest_;
  bool is_good_ = true;
};

bool read_kernel(Words& words, ProcessCopies& process) {
  const auto index = words.number<std::size_t>();
  if (!words.is_good() || index >= kMostIndices) return false;
  if (process.kernels.size() <= index) process.kernels.resize(index + 1);
  process.kernels[index] = words.rest();
  return true;
}

bool read_site(Words& words, ProcessCopies& process) {
  const auto index = words.number<std::size_t>();
  if (!words.is_good() || index == 0 || index > kMostIndices) return false;
  if (process.sites.size() < index) process.sites.resize(index);
  std::vector<std::string>& frames = process.sites[index - 1];
  frames.clear();
  std::string_view rest = words.rest();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(kFrameSeparator), rest.size());
    frames.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

bool read_copy(Words& words, bool is_seen, ProcessCopies& process) {
  CopyRecord record;
  record.thread = words.number<std::uint64_t>();
  record.number = words.number<std::uint64_t>();
  record.bytes = Bytes{words.number<std::uint64_t>()};
  record.site = words.number<std::size_t>();
  if (is_seen) record.digest = words.digest();
  if (is_seen && !words.at_end()) {
    CopySource& source = record.source.emplace();
    source.offset = Bytes{words.number<std::uint64_t>()};
    source.buffer = Bytes{words.number<std::uint64_t>()};
    if (!words.at_end()) {
      CopyLaunch& launch = source.launch.emplace();
      launch.kernel = words.number<std::size_t>();
      launch.number = words.number<std::uint64_t>();
    }
  }
  if (!words.is_good() || !words.at_end()) return false;
  process.copies.push_back(record);
  return true;
}

bool read_line(std::string_view line, ProcessCopies& process) {
  Words words(line);
  const std::string_view kind = words.word();
  if (kind == "place") {
    process.place = words.rest();
    return true;
  }
  if (kind == "kernel") return read_kernel(words, process);
  if (kind == "site") return read_site(words, process);
  return (kind == "copy" || kind == "unseen") && read_copy(words, kind == "copy", process);
}

bool read_header(std::string_view line, ProcessCopies& process) {
  if (line.substr(0, kCopiesMagic.size()) != kCopiesMagic) return false;
  Words words(line.substr(kCopiesMagic.size()));
  if (words.word() != kCopiesVersion) return false;
  process.pid = words.number<int>();
  process.started = words.number<std::uint64_t>();
  process.program = words.rest();
  return words.is_good();
}

// A name is the rest of its line.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string copies_header(int pid, std::uint64_t started, const std::string& program) {
  return std::string(kCopiesMagic) + std::string(kCopiesVersion) + ' ' + std::to_string(pid) + ' ' +
         std::to_string(started) + ' ' + on_one_line(program) + '\n';
}

std::string place_line(const std::string& place) { return "place " + on_one_line(place) + '\n'; }

std::string kernel_line(std::size_t index, const std::string& name) {
  return "kernel " + std::to_string(index) + ' ' + on_one_line(name) + '\n';
}

std::string site_line(std::size_t index, const std::string& frames) {
  std::string line = frames;
  std::ranges::replace(line, '\n', kFrameSeparator);
  return "site " + std::to_string(index) + ' ' + line + '\n';
}

std::string copy_line(const CopyRecord& record) {
  std::string line = (record.digest ? "copy " : "unseen ") + std::to_string(record.thread) + ' ' +
                     std::to_string(record.number) + ' ' + std::to_string(record.bytes.count()) +
                     ' ' + std::to_string(record.site);
  if (record.digest) {
    char digits[33];
    std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, (*record.digest)[0],
                  (*record.digest)[1]);
    line += std::string(" ") + digits;
    if (record.source) {
      line += ' ' + std::to_string(record.source->offset.count()) + ' ' +
              std::to_string(record.source->buffer.count());
      if (const auto& launch = record.source->launch) {
        line += ' ' + std::to_string(launch->kernel) + ' ' + std::to_string(launch->number);
      }
    }
  }
  return line + '\n';
}

std::variant<ProcessCopies, std::string> read_copies(const std::string& path) {
  std::ifstream file(path);
  if (!file) return path + " cannot be read";
  ProcessCopies process;
  std::string line;
  for (std::uint64_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;
    const bool is_right = number == 1 ? read_header(line, process) : read_line(line, process);
    if (!is_right) {
      return path + " is not what this version of superpipe writes of copies (line " +
             std::to_string(number) + ")";
    }
  }
  if (process.pid == 0) return path + " is empty, or is no file of copies";
  // Of the lines of one copy, those that have seen it come first.
  const auto place = [](const CopyRecord& copy) { return std::pair(copy.thread, copy.number); };
  std::sort(process.copies.begin(), process.copies.end(),
            [&place](const CopyRecord& a, const CopyRecord& b) {
              if (place(a) != place(b)) return place(a) < place(b);
              return a.digest.has_value() && !b.digest.has_value();
            });
  const auto rest = std::unique(
      process.copies.begin(), process.copies.end(),
      [&place](const CopyRecord& a, const CopyRecord& b) { return place(a) == place(b); });
  process.copies.erase(rest, process.copies.end());
  return process;
}

}  // namespace superpipe
