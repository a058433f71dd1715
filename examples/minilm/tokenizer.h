// BERT's tokenizer, uncased: basic tokens, then word pieces.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minilm {

/// Splits sentences into the vocabulary's word pieces. Immutable, so any thread may use it.
///
/// As BERT's uncased reference tokenizer (Devlin et al., 2018): drop controls, separate ideographs
/// and punctuation, fold to lower case without accents, then the longest piece first. Not done:
/// special tokens written out in the text ("[MASK]") are plain text here.
class Tokenizer {
 public:
  /// Reads a vocab.txt: one piece a line, its id the line's number from 0. Throws
  /// std::runtime_error where it cannot be read, has another size than `expected_size`, or lacks
  /// [CLS], [SEP] or [UNK].
  Tokenizer(const std::string& path, int expected_size);

  /// The ids of one sentence, [CLS] first and [SEP] last, at most `most` (>= 2) of them: what does
  /// not fit is cut off. `text` is UTF-8; what is not valid in it is ignored.
  [[nodiscard]] std::vector<int> encode(std::string_view text, std::size_t most) const;

 private:
  /// Appends the pieces of one basic token, which has no white space.
  void append_pieces(std::u32string_view token, std::vector<int>* ids) const;

  std::unordered_map<std::string, int> ids_;
  int cls_ = 0;
  int sep_ = 0;
  int unknown_ = 0;
};

}  // namespace minilm
