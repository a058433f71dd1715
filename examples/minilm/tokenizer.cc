#include "examples/minilm/tokenizer.h"

#include <fstream>
#include <stdexcept>

#include "examples/minilm/unicode.h"

namespace minilm {
namespace {

constexpr std::size_t kMostCharacters = 100;  // of a word; a longer one is unknown as a whole

/// The basic tokens of a text: words in lower case without accents, and single punctuation marks.
std::vector<std::u32string> basic_tokens(std::string_view text) {
  std::vector<std::u32string> tokens(1);
  std::u32string folded;
  for (const char32_t code : decode_utf8(text)) {
    if (is_removed(code)) continue;
    if (is_white_space(code)) {
      if (!tokens.back().empty()) tokens.emplace_back();
      continue;
    }
    folded.clear();
    append_folded(code, &folded);
    // Folding may itself bring forth punctuation or spaces, so that the result decides.
    for (const char32_t part : folded) {
      if (is_white_space(part)) {
        if (!tokens.back().empty()) tokens.emplace_back();
      } else if (is_punctuation(part) || is_ideograph(code)) {
        if (!tokens.back().empty()) tokens.emplace_back();
        tokens.back().push_back(part);
        tokens.emplace_back();
      } else {
        tokens.back().push_back(part);
      }
    }
  }
  if (tokens.back().empty()) tokens.pop_back();
  return tokens;
}

}  // namespace

Tokenizer::Tokenizer(const std::string& path, int expected_size) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read '" + path + "'");
  std::string line;
  int id = 0;
  while (std::getline(file, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    ids_.emplace(line, id++);
  }
  if (id != expected_size) {
    throw std::runtime_error("'" + path + "' has " + std::to_string(id) +
                             " lines, the model's vocabulary has " + std::to_string(expected_size));
  }
  const auto special = [&](const char* name) {
    const auto found = ids_.find(name);
    if (found == ids_.end()) throw std::runtime_error("'" + path + "' has no " + name);
    return found->second;
  };
  cls_ = special("[CLS]");
  sep_ = special("[SEP]");
  unknown_ = special("[UNK]");
}

std::vector<int> Tokenizer::encode(std::string_view text, std::size_t most) const {
  std::vector<int> ids{cls_};
  for (const std::u32string& token : basic_tokens(text)) {
    if (ids.size() >= most) break;
    append_pieces(token, &ids);
  }
  if (ids.size() > most - 1) ids.resize(most - 1);
  ids.push_back(sep_);
  return ids;
}

void Tokenizer::append_pieces(std::u32string_view token, std::vector<int>* ids) const {
  if (token.size() > kMostCharacters) {
    ids->push_back(unknown_);
    return;
  }
  const std::size_t before = ids->size();
  for (std::size_t start = 0; start < token.size();) {
    std::size_t length = token.size() - start;
    for (; length > 0; --length) {
      const auto found =
          ids_.find((start > 0 ? "##" : "") + encode_utf8(token.substr(start, length)));
      if (found != ids_.end()) {
        ids->push_back(found->second);
        break;
      }
    }
    if (length == 0) {  // one piece is missing: the whole word is unknown
      ids->resize(before);
      ids->push_back(unknown_);
      return;
    }
    start += length;
  }
}

}  // namespace minilm
