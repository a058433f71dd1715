#include "interposer/allocators/allocator_need.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace superpipe {
namespace {

/// A text that tells of a need wherever it stands in a line.
struct Sign {
  std::string_view text;
  std::string_view what;
};
constexpr std::array kSigns = {
    Sign{"cuda.CUDAGraph(", "CUDA graphs"},
    Sign{"cuda.graph(", "CUDA graphs"},
    Sign{"cuda.make_graphed_callables(", "CUDA graphs"},
    Sign{"cuda.MemPool(", "torch.cuda.MemPool"},
    Sign{"_record_memory_history", "PyTorch's memory snapshots"},
    Sign{"_dump_snapshot", "PyTorch's memory snapshots"},
    Sign{"memory._snapshot", "PyTorch's memory snapshots"},
    Sign{"mode=\"reduce-overhead\"", "mode=\"reduce-overhead\""},
    Sign{"mode='reduce-overhead'", "mode=\"reduce-overhead\""},
    Sign{"mode=\"max-autotune\"", "mode=\"max-autotune\""},
    Sign{"mode='max-autotune'", "mode=\"max-autotune\""},
};

/// Packages whose engines capture graphs over several streams.
constexpr std::string_view kVllm = "vllm";

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Whether `text` begins with the name `name`, and that ends there.
bool begins_with_name(std::string_view text, std::string_view name) {
  return text.starts_with(name) &&
         (text.size() == name.size() || !is_name_character(text[name.size()]));
}

std::string_view without_indent(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

bool imports(std::string_view line, std::string_view package) {
  constexpr std::string_view kFrom = "from ";
  constexpr std::string_view kImport = "import ";
  if (line.starts_with(kFrom)) {
    return begins_with_name(without_indent(line.substr(kFrom.size())), package);
  }
  if (!line.starts_with(kImport)) return false;
  for (std::size_t at = kImport.size(); at < line.size(); at = line.find(',', at)) {
    if (line[at] == ',') ++at;
    if (begins_with_name(without_indent(line.substr(at)), package)) return true;
  }
  return false;
}

bool is_python(const std::string& command) {
  return std::filesystem::path(command).filename().string().starts_with("python");
}

/// What an interpreter runs, by its command line.
struct PythonCommand {
  enum class Kind { kNone, kScript, kModule, kText };
  Kind kind = Kind::kNone;
  std::string program;
  std::size_t arguments = 0;  ///< the first of the words that are the program's own
};

/// Source: Python's manual, "Command line and environment".
PythonCommand parse(std::span<const std::string> words) {
  constexpr std::string_view kWithValue = "WX";
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!word.starts_with('-')) return {PythonCommand::Kind::kScript, word, at + 1};
    if (word == "--check-hash-based-pycs") ++at;
    if (word.starts_with("--")) continue;
    for (std::size_t letter = 1; letter < word.size(); ++letter) {
      const bool is_program = word[letter] == 'm' || word[letter] == 'c';
      if (!is_program && kWithValue.find(word[letter]) == std::string_view::npos) continue;
      std::string value = word.substr(letter + 1);
      if (value.empty() && ++at < words.size()) value = words[at];
      if (!is_program) break;
      return {word[letter] == 'm' ? PythonCommand::Kind::kModule : PythonCommand::Kind::kText,
              std::move(value), at + 1};
    }
  }
  return {};
}

std::string first_bytes_of(const std::string& file) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return {};
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMost, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

}  // namespace

std::optional<std::string_view> allocator_need_in(std::string_view text) noexcept {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = without_indent(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.starts_with('#')) continue;
    if (imports(line, kVllm)) return "vLLM";
    for (const Sign& sign : kSigns) {
      if (line.find(sign.text) != std::string_view::npos) return sign.what;
    }
  }
  return std::nullopt;
}

std::optional<AllocatorNeed> allocator_need_of(
    std::span<const std::string> words,
    const std::function<std::string(const std::string& file)>& read) {
  if (words.empty() || !is_python(words.front())) return std::nullopt;
  const PythonCommand command = parse(words);
  std::optional<std::string_view> what;
  std::string program = command.program;
  switch (command.kind) {
    case PythonCommand::Kind::kNone:
      return std::nullopt;
    case PythonCommand::Kind::kModule:
      if (begins_with_name(command.program, kVllm)) what = "vLLM";
      break;
    case PythonCommand::Kind::kText:
      what = allocator_need_in(command.program);
      program = "the command";
      break;
    case PythonCommand::Kind::kScript:
      what = allocator_need_in(read(command.program));
      program = std::filesystem::path(command.program).filename();
      break;
  }
  for (std::size_t at = command.arguments; !what && at < words.size(); ++at) {
    // --mode MODE, or --mode=MODE
    const std::string_view word = words[at];
    const std::string_view value = word.substr(word.find('=') + 1);
    if (value == "reduce-overhead") what = "mode=\"reduce-overhead\"";
    if (value == "max-autotune") what = "mode=\"max-autotune\"";
  }
  if (!what) return std::nullopt;
  return AllocatorNeed{std::string(*what), std::move(program)};
}

std::optional<AllocatorNeed> allocator_need_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
  return allocator_need_of(words, first_bytes_of);
}

}  // namespace superpipe
